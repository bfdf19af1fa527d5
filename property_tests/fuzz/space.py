"""How many pairs of rule, state and event there are known to be, by rule: what 200,000 drawn scenarios met."""

from __future__ import annotations

from collections.abc import Iterable

from frontier_oracle.property_tests.fuzz.situations import Pair

KNOWN: dict[str, int] = {}


def known_pairs() -> int:
    """How many pairs there are known to be."""
    return sum(KNOWN.values())


def rules_of(pairs: Iterable[Pair]) -> tuple[str, ...]:
    """The rules that some pairs exercise, in their order."""
    rules = {rule for names, _, _ in pairs for rule in names.split()}
    return tuple(sorted(rules, key=lambda rule: int(rule[1:])))
