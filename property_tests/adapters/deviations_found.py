"""Random scenarios on a system with declared deviations: each deviation found, shrunk, and explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from frontier_oracle.oracle.explain import explain
from frontier_oracle.oracle.language import render
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.property_tests.drawing import SERVING, Limits, random_scenario
from frontier_oracle.property_tests.gate.judged import Judged, judge
from frontier_oracle.property_tests.gate.system import SystemUnderTest, resolve
from frontier_oracle.property_tests.shrinking import shrink
from frontier_oracle.property_tests.watching import replay_command, watch_system

SHRINK_SECONDS = 60.0
MOST_EVENTS = 6


@dataclass(frozen=True)
class Wanted:
    """A deviation as it shows (SEMANTICS §9), and the words that a right explanation of it has."""

    deviation: str
    code: str
    says: str


EVERY = (
    Wanted("mid_chunk_tail", "FO201", "it consumed the draft of depth"),
    Wanted("short_prompt", "FO103", "rows below position 0 must be masked"),
    Wanted("short_chunk_after_hit", "FO206", "no more entries can hold"),
    Wanted("short_chunk_after_hit", "FO209", "its window reaches below the hit"),
    Wanted("donor_continuation", "FO201", "it holds what followed in"),
)
# Only where cells count on from position 0 does a row stand on another position's cell.
WANTED = {
    "tokenspeed": (*EVERY, Wanted("short_prompt", "FO104", "rows below position 0 must be masked")),
    "tokenspeed_backend": EVERY,
}


def deviations(system: str, seed: int, scenarios: int) -> dict[str, Any]:
    """Scenarios 0..scenarios-1 of ``seed``, each held to set equality with what the system declares.

    Returns system, scenarios, request_rounds, undeclared (as text: findings, a deviation that was not seen, one that is
    not explained), and ``found``: a row for each of WANTED."""
    under_test, all_wanted = resolve(system), WANTED[system]
    first: dict[Wanted, tuple[int, Scenario]] = {}
    undeclared: list[str] = []
    request_rounds = 0
    for index in range(scenarios):
        scenario = random_scenario(seed, index, Limits(events=SERVING if index % 2 else frozenset()))
        judged = judge(under_test, scenario, guard=index % 8 == 0)
        request_rounds += judged.outcome.request_rounds
        undeclared += [f"{finding.code} {render(scenario)}" for finding in judged.undeclared[:1]]
        for wanted in all_wanted:
            if wanted not in first and _shown(judged, wanted):
                first[wanted] = (index, scenario)
    found = [_told(under_test, wanted, *first[wanted]) for wanted in all_wanted if wanted in first]
    missing = [f"{w.deviation} as {w.code} was not seen" for w in all_wanted if w not in first]
    wrong = [f"{row['id']} {row['code']}: {why}" for row in found if (why := row.pop("wrong"))]
    return {
        "system": system,
        "scenarios": scenarios,
        "request_rounds": request_rounds,
        "undeclared": undeclared + missing + wrong,
        "found": found,
    }


def _shown(judged: Judged, wanted: Wanted) -> Finding | None:
    """The first finding that shows a deviation, in a run that shows nothing undeclared."""
    if judged.undeclared:
        return None
    mine = (f for f, id_ in judged.declared if (id_, f.code) == (wanted.deviation, wanted.code))
    return next(mine, None)


def _told(system: SystemUnderTest, wanted: Wanted, index: int, scenario: Scenario) -> dict[str, Any]:
    """The deviation shrunk and explained; ``wrong``: why that is not what was asked for, "" if it is."""
    small = shrink(scenario, lambda s: _shown(judge(system, s), wanted) is not None, SHRINK_SECONDS)
    finding = _shown(judge(system, small), wanted)
    assert finding is not None
    because = explain(finding, watch_system(system, small)).because
    wrong = "" if any(wanted.says in line for line in because) else f"the explanation does not say {wanted.says!r}"
    if len(small.events) > MOST_EVENTS:
        wrong = f"{len(small.events)} events left, expected at most {MOST_EVENTS}"
    return {
        "id": wanted.deviation,
        "code": wanted.code,
        "first seen in scenario": index,
        "events": len(small.events),
        "scenario": render(small),
        "because": list(because),
        "replay": replay_command(system.name, render(small)),
        "wrong": wrong,
    }
