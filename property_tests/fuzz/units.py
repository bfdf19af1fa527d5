"""Work units: a plan and a number name a batch of scenarios, the same on every machine, whoever runs it.

A unit's scenarios are drawn from integers keyed by (seed, scenario number); what a guided unit's choices rest on begins
anew with the unit. So units are independent: they run in any order, anywhere, and again after a loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.property_tests.drawing import SIZES, Limits, SeededSource, draw_scenario
from frontier_oracle.property_tests.fuzz.guide import CHOICES, CoverageGuide
from frontier_oracle.property_tests.fuzz.situations import Pair, pairs_of
from frontier_oracle.property_tests.gate.checks import drawn_events
from frontier_oracle.property_tests.gate.judged import judge, report_failure
from frontier_oracle.property_tests.gate.results import FindingReport
from frontier_oracle.property_tests.gate.system import SystemUnderTest, resolve

SCENARIOS = 48
GUARD_EVERY = 8
# Every so many scenarios of a guided unit one is left to chance alone.
UNGUIDED_EVERY = 4
SHRINK_TRIES = 600


@dataclass(frozen=True)
class Plan:
    """What is fuzzed, and how its units are drawn. scenarios: of one unit; tries: candidates that are run to make a
    finding small."""

    system: str
    seed: int = 0
    guided: bool = True
    scenarios: int = SCENARIOS
    tries: int = SHRINK_TRIES


@dataclass(frozen=True)
class Raw:
    """A finding as a unit met it: code, the scenario's text, and whether host reads were watched."""

    code: str
    scenario: str
    guard: bool


@dataclass(frozen=True)
class UnitResult:
    """What one unit showed. rounds: request-rounds; pairs: what its scenarios exercised, those without a
    finding (the others were not played to their end); raw: of each code the first finding."""

    index: int
    scenarios: int
    rounds: int
    pairs: frozenset[Pair]
    raw: tuple[Raw, ...]


def drawn(plan: Plan, index: int, system: SystemUnderTest) -> Iterator[Scenario]:
    """The scenarios of unit ``index``, one after the other."""
    plain = Limits(hits="adopt" in system.capabilities, padding="padding" in system.capabilities)
    limits = replace(plain, events=drawn_events(system) | SIZES)
    guide = CoverageGuide(system.policy)
    for i in range(plan.scenarios):
        source = SeededSource(plan.seed, index * plan.scenarios + i)
        choices = CHOICES if plan.guided and i % UNGUIDED_EVERY > 0 else 1
        scenarios = (draw_scenario(source, limits) for _ in range(choices))
        yield guide.choose(scenarios) if plan.guided else next(scenarios)


def run_unit(plan: Plan, index: int) -> UnitResult:
    """Draw and judge a unit. Raises UsageError (AdapterError where the system raises) that names the scenario."""
    system = loaded(plan.system)
    rounds, pairs, raw = 0, set[Pair](), dict[str, Raw]()
    for i, scenario in enumerate(drawn(plan, index, system)):
        guard = i % GUARD_EVERY == 0
        try:
            judged = judge(system, scenario, guard)
        except UsageError as error:
            raise UsageError(f"{error}; unit {index} of seed {plan.seed}, scenario '{render(scenario)}'") from error
        rounds += judged.outcome.request_rounds
        if judged.undeclared:
            code = judged.undeclared[0].code
            raw.setdefault(code, Raw(code, render(scenario), guard))
        else:
            pairs |= pairs_of(scenario, system.policy)
    return UnitResult(index, plan.scenarios, rounds, frozenset(pairs), tuple(raw.values()))


def shrunk(plan: Plan, raw: Raw) -> FindingReport | None:
    """The finding made small and told; None if the system does not show it any more (it was mended in between). How
    small depends on nothing but the finding: candidates are counted, not seconds."""
    system, scenario = loaded(plan.system), parse(raw.scenario)
    judged = judge(system, scenario, raw.guard)
    if not judged.undeclared:
        return None
    return report_failure(system, scenario, judged, raw.guard, float("inf"), plan.tries)


@lru_cache(maxsize=4)
def loaded(system: str) -> SystemUnderTest:
    """The system, resolved once a process."""
    return resolve(system)
