"""What a bad entry reaches: the entries that are locally right and still unequal, by the dependency rules alone.

An entry consumes its token, its hidden and the ring rows before it, not attention: attention makes the output, and the
output is the hidden of the next depth (chain heads). So damage goes up a depth through outputs and along a depth
through taps, and an entry that is off only through its taps leaves a right ring row behind.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle.spec import Spec

Cell = tuple[int, int]
Bools = NDArray[np.bool_]


def reach(
    causes: Iterable[Cell], spec: Spec, computed: int, right_rows: frozenset[Cell] = frozenset()
) -> frozenset[Cell]:
    """The (depth, position) < computed that are tainted by ``causes``, the causes themselves apart.

    causes: cause entries of one request as (depth, position). right_rows: causes whose ring row is right all the same
    (only their position or extent is off). Holds for entries that were written after the causes went bad, which is so
    when each cause was bad from the start (a mid-chunk tail); an entry written before is exact, though in reach.
    """
    at_fault = _grid(causes, spec, computed)
    bad_rows = at_fault & ~_grid(right_rows, spec, computed)
    entries = at_fault.copy()
    for depth in range(spec.steps):
        if depth and spec.hidden != "target":
            through = _outputs(entries[depth - 1], spec.window_of(depth - 1))
            if spec.hidden == "shifted":  # the target's own hidden while it is there: p + d < C
                through[: max(0, computed - depth)] = False
            bad_rows[depth] |= through
        entries[depth] |= bad_rows[depth]
        for i in range(1, min(spec.taps, computed - 1) + 1):
            entries[depth, i:] |= bad_rows[depth, :-i]
    found = np.argwhere(entries & ~at_fault)
    return frozenset((int(d), int(p)) for d, p in found)


def _grid(cells: Iterable[Cell], spec: Spec, computed: int) -> Bools:
    """[steps, computed] bool."""
    grid = np.zeros((spec.steps, computed), dtype=np.bool_)
    for depth, position in cells:
        if position < computed:
            grid[depth, position] = True
    return grid


def _outputs(entries: Bools, window: int | None) -> Bools:
    """[computed] bool: O(d,p) is off where any entry that row p attends to is."""
    count = np.concatenate([[0], np.cumsum(entries)])
    last = np.arange(1, len(entries) + 1)
    first = np.zeros_like(last) if window is None else np.maximum(last - window, 0)
    result: Bools = count[last] > count[first]
    return result
