"""Declared deviations: what a design's own execution predicts on a scenario, and which deviation each finding is."""

from __future__ import annotations

from dataclasses import dataclass

from frontier_oracle.oracle.attribution import attribute
from frontier_oracle.oracle.designs import Design
from frontier_oracle.oracle.executor import DesignDrafter
from frontier_oracle.oracle.play import Outcome, play
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.oracle.timeline import Round, Timeline


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
    result, rounds = Outcome(scenario), list[Round]()
    ids = {}
    for step, _, verdict in play(timeline, DesignDrafter(design, timeline.config())):
        rounds.append(step)
        result.verdicts.append(verdict)
        result.request_rounds += len(step.views)
        for finding in verdict.findings:
            ids[finding.key] = attribute(rounds, finding, design, scenario.spec.k)
    return Prediction(result, ids)


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
