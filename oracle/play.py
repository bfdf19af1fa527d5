"""Plays a scenario: engine steps to a drafter, its evidence to the judge, its drafts back to the engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from frontier_oracle.oracle.evidence import Evidence
from frontier_oracle.oracle.judge import Judge, Verdict
from frontier_oracle.oracle.ledger import CAUSES, Entry
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.oracle.timeline import Adopted, Released, Round, Timeline


class Drafter(Protocol):
    """Whatever drafts for a timeline: a torch system behind the driver, or the index-level executor of a design."""

    def adopted(self, step: Adopted) -> None: ...

    def released(self, step: Released) -> None: ...

    def round(self, step: Round) -> Evidence: ...


@dataclass
class Outcome:
    """A played scenario. request_rounds counts live batch rows over all rounds."""

    scenario: Scenario
    verdicts: list[Verdict] = field(default_factory=list)
    request_rounds: int = 0

    @property
    def findings(self) -> list[Finding]:
        return [f for verdict in self.verdicts for f in verdict.findings]

    def cause_entries(self) -> set[tuple[int, Entry]]:
        """(round, entry) of every cause entry, as it stood after each round its request was in."""
        return {(v.round, e) for v in self.verdicts for e in v.entries if e.state in CAUSES}

    def final_entries(self) -> dict[str, list[Entry]]:
        """Every request's entries after the last round it was in."""
        out: dict[str, list[Entry]] = {}
        for verdict in self.verdicts:
            for name in {e.request for e in verdict.entries}:
                out[name] = [e for e in verdict.entries if e.request == name]
        return out


def play(timeline: Timeline, drafter: Drafter, judge: Judge | None = None) -> Iterator[tuple[Round, Evidence, Verdict]]:
    """Run the timeline to its end, one verdict a round. Stop iterating to stop early. judge: a fresh one, for callers
    that want its books afterwards."""
    judge = judge or Judge(timeline.config(), timeline.max_positions)
    for step in timeline.steps():
        if isinstance(step, Round):
            evidence = drafter.round(step)
            yield step, evidence, judge.round(step, evidence)
            timeline.commit(step, evidence.returned)
        elif isinstance(step, Adopted):
            drafter.adopted(step)
            judge.adopted(step)
        else:
            drafter.released(step)
            judge.released(step)


def outcome(timeline: Timeline, drafter: Drafter, stop_at_first: bool = False) -> Outcome:
    """Play to the end (or to the first round with a finding) and collect."""
    result = Outcome(timeline.scenario)
    for step, _, verdict in play(timeline, drafter):
        result.verdicts.append(verdict)
        result.request_rounds += len(step.views)
        if stop_at_first and verdict.findings:
            break
    return result
