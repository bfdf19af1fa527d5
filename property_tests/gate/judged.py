"""One scenario on one system: what it shows beyond what is declared, made small and told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

from frontier_oracle.oracle.deviations import compare as compare_sets
from frontier_oracle.oracle.deviations import predict
from frontier_oracle.oracle.language import render
from frontier_oracle.oracle.play import Outcome
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.property_tests.driver import run_scenario
from frontier_oracle.property_tests.gate.results import FindingReport, reported
from frontier_oracle.property_tests.gate.shrink_budget import allowance
from frontier_oracle.property_tests.gate.system import SystemUnderTest
from frontier_oracle.property_tests.shield import AdapterError
from frontier_oracle.property_tests.shrinking import shrink
from frontier_oracle.property_tests.watching import replay_command, tell, watch_system

SHRINK_SECONDS = 15.0


@dataclass(frozen=True)
class Judged:
    """outcome: the run; undeclared: findings that fail the gate, the cause first; declared: those that were predicted,
    with their deviation ids."""

    outcome: Outcome
    undeclared: tuple[Finding, ...]
    declared: tuple[tuple[Finding, str], ...] = ()

    @property
    def seen(self) -> frozenset[str]:
        return frozenset(id_ for _, id_ in self.declared)


def judge(system: SystemUnderTest, scenario: Scenario, guard: bool = False) -> Judged:
    """Run a scenario on a system; where it declares a design, hold it to set equality with that design."""
    outcome = run_scenario(system.factory, scenario, system.policy, stop_at_first=not system.deviates, guard=guard)
    return weigh(system, scenario, outcome)


def weigh(system: SystemUnderTest, scenario: Scenario, outcome: Outcome) -> Judged:
    """What of a run's findings the system declares, and what it does not."""
    if not system.deviates or system.design is None:
        return Judged(outcome, tuple(outcome.findings))
    prediction = predict(system.design, scenario)
    compared = compare_sets(outcome, prediction)
    absent = tuple(replace(f, detail={"because": "declared, but it did not happen"}) for f in compared.missing)
    undeclared = compared.undeclared or absent
    if not undeclared and compared.entries:
        shown, declared = outcome.cause_entries(), prediction.outcome.cause_entries()
        differing = shown ^ declared
        round_, e = min(differing, key=lambda pair: (pair[0], pair[1].request, pair[1].depth, pair[1].position))
        words = ("right after this round, or tainted by others", "a cause of its own")
        detail = {
            "because": f"{compared.entries} cause entries differ from the declared set ({system.design.name}): "
            f"{len(shown - declared)} more than declared, {len(declared - shown)} declared and not there",
            "words": words if (round_, e) in shown else words[::-1],
        }
        undeclared = (Finding("FO201", round_, e.request, e.depth, e.position, detail),)
    return Judged(outcome, undeclared, tuple((f, prediction.ids[f.key]) for f in compared.declared))


def report_failure(
    system: SystemUnderTest,
    scenario: Scenario,
    judged: Judged,
    guard: bool = False,
    max_seconds: float = SHRINK_SECONDS,
    max_tries: int | None = None,
) -> FindingReport:
    """Shrink a failing scenario for the code of its first undeclared finding, and report that. max_tries: the most
    candidates that are run, for results that do not depend on how fast the machine is."""
    code = judged.undeclared[0].code
    tries = count(1)

    def still_fails(candidate: Scenario) -> bool:
        if max_tries is not None and next(tries) > max_tries:
            return False
        try:
            again = judge(system, candidate, guard)
        except AdapterError:
            return False
        return bool(again.undeclared) and again.undeclared[0].code == code

    with allowance(system.name, max_seconds) as seconds:
        small = shrink(scenario, still_fails, seconds)
    again = judge(system, small, guard)
    finding = again.undeclared[0]
    story = tell(watch_system(system, small, guard), system.name, finding).splitlines()
    return replace(describe(system, small, finding, original=render(scenario)), story=tuple(story))


def describe(
    system: SystemUnderTest, scenario: Scenario, finding: Finding, original: str = "", declared: bool = False
) -> FindingReport:
    """A finding as it is shown."""
    text = render(scenario)
    return reported(finding, declared, text, original, replay_command(system.name, text))
