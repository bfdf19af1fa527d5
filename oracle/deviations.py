"""Declared deviations: what a design's own execution predicts on a scenario, and which deviation each finding is."""

from __future__ import annotations

from dataclasses import dataclass

from frontier_oracle.oracle.designs import (
    DONOR_CONTINUATION,
    MID_CHUNK_TAIL,
    SHORT_CHUNK_AFTER_HIT,
    SHORT_PROMPT,
    Design,
)
from frontier_oracle.oracle.designs.declaration import (
    CHUNK_TAIL_SAMPLE,
    FULL_ACCEPT_HOLE,
    HIDDEN_BEFORE_HIT,
    HIDDEN_LEFT_BEHIND,
    OWN_ARGMAX,
    PROMPT_UNSEEN,
    REJECTED_DRAFTS,
)
from frontier_oracle.oracle.executor import DesignDrafter
from frontier_oracle.oracle.play import Outcome, play
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.oracle.timeline import Round, Timeline, View

CLAMPED = ("FO103", "FO104", "FO107")


@dataclass(frozen=True)
class Prediction:
    """A design run on a scenario: its outcome, and the deviation id of every finding key."""

    outcome: Outcome
    ids: dict[tuple[str, int, str, int, int], str]

    @property
    def seen(self) -> frozenset[str]:
        return frozenset(self.ids.values())


def predict(design: Design, scenario: Scenario) -> Prediction:
    """Execute a design's declaration on a scenario. Exact designs predict nothing."""
    timeline = Timeline(scenario, design.prefix_policy)
    result = Outcome(scenario)
    ids = {}
    for step, _, verdict in play(timeline, DesignDrafter(design, timeline.config())):
        result.verdicts.append(verdict)
        result.request_rounds += len(step.views)
        for finding in verdict.findings:
            ids[finding.key] = attribute(step, finding, design)
    return Prediction(result, ids)


def attribute(step: Round, finding: Finding, design: Design) -> str:
    """Which of the design's deviations a finding belongs to, by where it happened."""
    declared = [deviation.id for deviation in design.deviations]
    view = next((v for v in step.views if v.request.name == finding.request), None)
    own = _of_other_designs(step, view, finding) if view is not None else ()
    likely = (*own, _of_the_published_design(step, finding), *declared)
    return next((id_ for id_ in likely if id_ in declared), likely[0])


def _of_other_designs(step: Round, view: View, finding: Finding) -> tuple[str, ...]:
    """Deviations that the published design does not have, the likeliest first."""
    code, below_hit = finding.code, 0 <= finding.position < view.request.hit
    if code == "FO202":
        return FULL_ACCEPT_HOLE.id, PROMPT_UNSEEN.id
    if code == "FO105":
        return (PROMPT_UNSEEN.id,)
    if code == "FO102":
        return HIDDEN_LEFT_BEHIND.id, HIDDEN_BEFORE_HIT.id
    if below_hit or code not in ("FO101", "FO201"):
        return ()
    tail = (PROMPT_UNSEEN.id, OWN_ARGMAX.id)
    if step.mode == "extend" or finding.position + finding.depth + 1 < view.request.prompt:
        return *tail, CHUNK_TAIL_SAMPLE.id, MID_CHUNK_TAIL.id
    return *tail, REJECTED_DRAFTS.id, CHUNK_TAIL_SAMPLE.id


def _of_the_published_design(step: Round, finding: Finding) -> str:
    """Which deviation of SEMANTICS §9 a finding belongs to."""
    view = next((v for v in step.views if v.request.name == finding.request), None)
    if view is None:
        return SHORT_CHUNK_AFTER_HIT.id
    below_hit = 0 <= finding.position < view.request.hit
    if finding.code == "FO201":
        return DONOR_CONTINUATION.id if below_hit else MID_CHUNK_TAIL.id
    if finding.code == "FO209":  # the sharer's stash, or a donor rewriting what it published too early
        return SHORT_CHUNK_AFTER_HIT.id if below_hit else DONOR_CONTINUATION.id
    if step.mode == "extend" and finding.code != "FO206":
        return MID_CHUNK_TAIL.id
    return SHORT_CHUNK_AFTER_HIT.id if below_hit and finding.code not in CLAMPED else SHORT_PROMPT.id


@dataclass(frozen=True)
class Comparison:
    """undeclared: findings the declaration does not predict; missing: predicted ones that did not happen; declared:
    those that did; entries: (round, entry) pairs in one set and not the other."""

    undeclared: tuple[Finding, ...]
    missing: tuple[Finding, ...]
    declared: tuple[Finding, ...]
    entries: int

    @property
    def equal(self) -> bool:
        return not (self.undeclared or self.missing or self.entries)


def compare(outcome: Outcome, prediction: Prediction) -> Comparison:
    """Set equality between what a system showed and what its design predicts: findings and cause entries."""
    expected = {f.key for f in prediction.outcome.findings}
    got = {f.key for f in outcome.findings}
    undeclared = tuple(f for f in outcome.findings if f.key not in expected)
    declared = tuple(f for f in outcome.findings if f.key in expected)
    missing = tuple(f for f in prediction.outcome.findings if f.key not in got)
    entries = len(outcome.cause_entries() ^ prediction.outcome.cause_entries())
    return Comparison(undeclared, missing, declared, entries)
