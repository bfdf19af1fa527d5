"""How long a gate run may shrink failures: a budget per system, shared by the workers.

A system that fails everywhere has a failure in every task; shrinking each of them to its end would take the run's time
many times over, and the first few tell enough. Without a run (a test, a replay) there is no budget, only the limit of
one failure.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from typing import Any

SECONDS = 60.0


class Budgets:
    """Seconds left for each of some systems. Workers are given it when they start."""

    def __init__(self, systems: Sequence[str], context: BaseContext, seconds: float = SECONDS) -> None:
        self.index = {name: i for i, name in enumerate(systems)}
        self.left: Any = context.Array("d", [seconds] * len(systems))

    def take(self, system: str, most: float) -> float:
        """Up to ``most`` seconds, which nobody else has then."""
        i = self.index[system]
        with self.left.get_lock():
            taken = min(most, self.left[i])
            self.left[i] -= taken
        return float(taken)

    def give_back(self, system: str, seconds: float) -> None:
        with self.left.get_lock():
            self.left[self.index[system]] += seconds


_current: Budgets | None = None


def use(budgets: Budgets | None) -> None:
    """Make ``budgets`` those of this process; None: no budget."""
    global _current
    _current = budgets


@contextmanager
def allowance(system: str, most: float) -> Iterator[float]:
    """Seconds that the block may take to shrink a failure of ``system``: 0 when the budget is spent."""
    budgets = _current
    if budgets is None or system not in budgets.index:
        yield most
        return
    granted, started = budgets.take(system, most), time.monotonic()
    try:
        yield granted
    finally:
        budgets.give_back(system, max(0.0, granted - (time.monotonic() - started)))
