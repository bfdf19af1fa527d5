"""How many pairs of rule, state and event there are known to be: what 40,000 scenarios with everything in them met."""

from __future__ import annotations

from collections.abc import Iterable

from frontier_oracle.property_tests.fuzz.situations import Pair

# rules -> pairs. The last 10,000 of them added 10.
KNOWN = {
    "S1": 150,
    "S4": 68,
    "S5 S6 S8": 54,
    "S9": 20,
    "S9 S19": 29,
    "S9 S20": 18,
    "S12 S13": 108,
    "S14": 202,
    "S16": 24,
    "S17": 102,
    "S18": 118,
    "S19": 370,
    "S20": 108,
    "S21": 297,
    "S22": 14,
    "S26": 33,
}


def known_pairs() -> int:
    """How many pairs there are known to be."""
    return sum(KNOWN.values())


def rules_of(pairs: Iterable[Pair]) -> tuple[str, ...]:
    """The rules that some pairs exercise, in their order."""
    rules = {rule for names, _, _ in pairs for rule in names.split()}
    return tuple(sorted(rules, key=lambda rule: int(rule[1:])))
