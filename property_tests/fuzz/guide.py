"""Of several drawn scenarios, the one whose events meet the most situations that were met least so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations

from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.property_tests.fuzz.situations import Pair, met_by

# Scenarios to choose from: drawing one and reading it costs a hundredth of judging it.
CHOICES = 16
# What a scenario costs beside its request-rounds, in request-rounds.
OVERHEAD = 4

Met = tuple[Pair, ...]


@dataclass
class CoverageGuide:
    """Counts what the chosen scenarios met: pairs of rule, state and event, and any two such pairs in one event, since
    a fault often needs two things at once. policy: the prefix policy of the system."""

    policy: str = "successor"
    counts: Counter[Met] = field(default_factory=Counter)

    def choose(self, scenarios: Iterable[Scenario]) -> Scenario:
        """The scenario with the most that is new, or rare so far, for its request-rounds; the first of equals."""
        best: tuple[float, Scenario | None, set[Met]] = (-1.0, None, set())
        for scenario in scenarios:
            rounds, met = self.read(scenario)
            worth = sum(1 / (1 + self.counts[key]) for key in met) / (OVERHEAD + rounds)
            if worth > best[0]:
                best = (worth, scenario, met)
        _, chosen, met = best
        assert chosen is not None, "nothing to choose from"
        self.counts.update(met)
        return chosen

    def read(self, scenario: Scenario) -> tuple[int, set[Met]]:
        """A scenario's request-rounds, and what it meets."""
        total, met = 0, set[Met]()
        for rounds, pairs in met_by(scenario, self.policy):
            total += rounds
            ordered = sorted(pairs)
            met.update((pair,) for pair in ordered)
            met.update(combinations(ordered, 2))
        return total, met
