"""A scenario as it was played, kept for explanations: the rounds, every row's write, the registry of values."""

from __future__ import annotations

from dataclasses import dataclass, field

from frontier_oracle.oracle import local
from frontier_oracle.oracle.evidence import Evidence
from frontier_oracle.oracle.geometry import places
from frontier_oracle.oracle.judge import Judge, Verdict
from frontier_oracle.oracle.play import Drafter, Outcome, play
from frontier_oracle.oracle.registry import Registry, Source
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.timeline import Round, Timeline, View


@dataclass(frozen=True)
class Write:
    """One unmasked row of a live request. row of rows: where it stands among the request's rows of the call; position:
    the one it stands for (geometry); passed: the position it was given; extent: its seq_len; locations: its cell in
    every cache group; located: the position that its cell belongs to, None for a cell of nobody's or another's; token,
    hidden: what it consumed."""

    round: int
    request: str
    depth: int
    row: int
    rows: int
    position: int
    passed: int
    extent: int
    locations: tuple[int, ...]
    located: int | None
    token: int
    hidden: int


@dataclass
class Played:
    """What ``watch`` saw. writes are in the order they happened."""

    outcome: Outcome
    registry: Registry
    steps: list[Round] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)

    def step(self, index: int) -> Round | None:
        return next((step for step in self.steps if step.index == index), None)

    def view(self, index: int, request: str) -> View | None:
        step = self.step(index)
        views = step.views if step is not None else ()
        return next((view for view in views if view.request.name == request), None)

    def verdict(self, index: int) -> Verdict | None:
        return next((v for v in self.outcome.verdicts if v.round == index), None)

    def known_since(self, request: str, position: int) -> int:
        """The first round after which the request's token at ``position`` is known, -1 if it never is."""
        for step in self.steps:
            if any(v.request.name == request and position <= v.known for v in step.views):
                return step.index
        return -1

    def write_of(self, finding: Finding) -> Write | None:
        """The write behind a finding on an entry: of rows that stand for the same position, the one that shows what
        the finding says; None for findings without an entry."""
        if finding.depth < 0:
            return None
        by = finding.detail.get("by", finding.request)
        cell = (by, finding.depth, finding.position)
        mine = [w for w in self.writes if (w.request, w.depth, w.position) == cell and w.round <= finding.round]
        last = [w for w in mine if w.round == mine[-1].round]
        return next((w for w in last if _shows(w, finding)), last[-1] if last else None)

    def token_words(self, value: int | None, asking: str) -> str:
        return "no token" if value is None else _words(value, self.registry.token(value, asking))

    def hidden_words(self, value: int | None, asking: str) -> str:
        return "no hidden" if value is None else _words(value, self.registry.hidden(value, asking))


def watch(timeline: Timeline, drafter: Drafter, stop_at_first: bool = False) -> Played:
    """Play to the end (or to the first round with a finding) and keep what an explanation needs."""
    judge = Judge(timeline.config(), timeline.max_positions)
    played = Played(Outcome(timeline.scenario), judge.registry)
    for step, evidence, verdict in play(timeline, drafter, judge):
        played.steps.append(step)
        played.outcome.verdicts.append(verdict)
        played.outcome.request_rounds += len(step.views)
        if not evidence.contract_errors and not local.call_errors(step, evidence, judge.spec):
            played.writes += writes_of(step, evidence, judge.spec)
        if stop_at_first and verdict.findings:
            break
    return played


def writes_of(step: Round, evidence: Evidence, spec: Spec) -> list[Write]:
    """A round's writes, taken while it is current: page tables move on. The contract must have been kept."""
    out: list[Write] = []
    for call in evidence.calls:
        group = spec.group_of(call.depth)
        for row, view in zip(evidence.rows_of(step), step.views, strict=True):
            if row >= len(call.seq_lens):
                continue
            mine = call.rows_of(row)
            for place in places(call, row, view, group):
                out.append(
                    Write(
                        step.index,
                        view.request.name,
                        call.depth,
                        place.row - mine.start,
                        len(mine),
                        place.anchor,
                        place.position,
                        place.extent,
                        tuple(int(locations[place.row]) for locations in call.out_cache_loc),
                        place.located,
                        int(call.input_ids[place.row]),
                        int(call.hidden_digest[place.row]),
                    )
                )
    return out


def _shows(write: Write, finding: Finding) -> bool:
    got = finding.detail.get("got")
    if "what" in finding.detail:
        return bool(got == (write.token if finding.detail["what"] == "token" else write.hidden))
    if finding.code == "FO104":
        return bool(got == list(write.locations))
    shown = {"FO103": write.passed, "FO107": write.extent}
    return finding.code not in shown or bool(got == shown[finding.code])


def _words(value: int, source: Source | None) -> str:
    """A value by its source. Zeros are what fresh buffers and padding hold."""
    if source is not None:
        return source.words()
    if value == 0:
        return "zero: padding, or a buffer nothing was stored in"
    return "the placeholder -1" if value == -1 else "a value nobody gave out"
