"""Failing cases of the inductive step as one finding: one that a scenario replays if there is any, else in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice

from frontier_oracle.oracle.judge import ORDER
from frontier_oracle.oracle.language import render
from frontier_oracle.oracle.rules import RULES
from frontier_oracle.oracle.scenario import Admit, Decode, Event, Scenario
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.gate.judged import judge, report_failure
from frontier_oracle.property_tests.gate.results import FindingReport
from frontier_oracle.property_tests.gate.system import SystemUnderTest
from frontier_oracle.property_tests.inductive_step import InductiveResult
from frontier_oracle.property_tests.shield import AdapterError

# How many states of a configuration are tried as scenarios, of each kind, and how many scenarios in all.
EACH, MOST = 3, 60
STALE = "FO201"
# What differs, by the words of oracle.inductive_judge, the most telling first. Cells alone say "stale"; what fits none
# of these is a broken contract.
CODES = {
    "column 0": "FO106",
    "below the hit": "FO209",
    "shared page": "FO209",
    "stash": "FO206",
    "no one": "FO204",
    "conv ring": "FO207",
    "checkpoint": "FO208",
    "draft differs": "FO105",
    "KV": STALE,
}


def report_cases(system: SystemUnderTest, results: Sequence[InductiveResult]) -> list[FindingReport]:
    """At most one finding for all that failed: the first scenario that leads into a failing state and fails, shrunk and
    told; where none does, the case whose difference comes first in the judge's order, and how many there are."""
    for scenario in islice((s for result in results for s in leading_in(system, result)), MOST):
        try:
            judged = judge(system, scenario)
        except AdapterError:
            continue
        if judged.undeclared:
            return [report_failure(system, scenario, judged)]
    failing = [(result.spec, failure) for result in results for failure in result.failures]
    if not failing:
        return []
    spec, (a, v, frontier, what) = min(failing, key=lambda case: (_rank(code_of(case[1][3])), case[1][2]))
    state = f"a = {a}, v = {v}, F = {frontier} (accept length, valid stash entries, frontier)"
    configurations = len({other for other, _ in failing})
    detail = {
        "because": what,
        "inductive": f"one round from the state {state}" if frontier else "one round of a whole batch",
        "spec": render(Scenario(spec)),
        "failing": f"cases {len(failing)}, configurations {configurations}; no scenario that was tried shows it",
    }
    return [plain(code_of(what), detail)]


def leading_in(system: SystemUnderTest, result: InductiveResult) -> Iterator[Scenario]:
    """Scenarios that lead into failing states: the few with the lowest frontiers after one prompt, then those after a
    prefix hit. With whole batches at fault, any scenario."""
    spec = result.spec
    states = sorted({(f, v, a) for a, v, f, _ in result.failures if f})
    if len(states) < len(result.failures):
        yield _scenario(spec, Admit("a", spec.k), 1)
    prompts = ((f, a) for f, v, a in states if v == min(spec.k - 1, f))
    for frontier, a in islice(prompts, EACH):
        yield _scenario(spec, Admit("a", frontier), a)
    if "adopt" not in system.capabilities:
        return
    ahead = spec.steps if system.policy == "successor" else 0
    unit = math.lcm(*(group.page_size for group in spec.groups))
    hits = ((f, v, a) for f, v, a in states if f > v > ahead and (f - v) % unit == 0)
    for frontier, v, a in islice(hits, EACH):
        hit = Admit("a", frontier, like=("z", frontier - v + ahead))
        yield _scenario(spec, hit, a, Admit("z", frontier))


def code_of(what: str) -> str:
    """The rule that a difference, in the inductive judge's words, breaks as far as cells can tell."""
    return next((code for words, code in CODES.items() if words in what), "FO401")


def plain(code: str, detail: dict[str, str]) -> FindingReport:
    """A finding that no scenario replays."""
    rule = RULES[code]
    return FindingReport(code, rule.title, rule.rule, False, -1, "", -1, -1, dict(detail))


def _scenario(spec: Spec, admit: Admit, accept: int, *before: Event) -> Scenario:
    return Scenario(spec, events=(*before, admit, Decode(((admit.name, accept),))))


def _rank(code: str) -> tuple[bool, int]:
    return code == STALE, ORDER.index(code)
