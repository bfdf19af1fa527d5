"""The ideal of many requests once more, with rows below a floor held as they stand: what a hit's shared pages are.

Written plainly and on its own: with floor 0 it must equal ideal.recompute, which test_inductive.py checks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.errors import HiddenSemanticUnsupported
from frontier_oracle.oracle.spec import Spec

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Ints = NDArray[np.integer]


class HeldIdeal:
    """entries, rings [steps, B, T+1] int64: E(d,p) and C(d,p) at column p+1; column 0 is every position below 0.

    floor [B]: rows below it stay as they stand (S21). Above, that differs from the ideal where a hit brought rows that
    consumed a draft which the round rejects; no exact prefix policy leads there, but a round must leave such rows alone
    and compute the others right. Raises HiddenSemanticUnsupported for heads that a k-row window cannot keep exact (S4).
    """

    def __init__(self, spec: Spec, batch: int, max_positions: int) -> None:
        if spec.hidden not in ("chain", "target"):
            raise HiddenSemanticUnsupported(
                f"hidden={spec.hidden}: the inductive step is for chain and target heads (S4)"
            )
        self.spec = spec
        self.entries, self.rings, self._prefix = np.zeros((3, spec.steps, batch, max_positions + 1), dtype=np.int64)
        self.floor: I64 = np.zeros(batch, dtype=np.int64)
        self._requests = np.arange(batch)

    def at(self, requests: Ints, positions: Ints) -> I64:
        """Flat cells of (request, position) pairs in one depth's plane; positions below 0 share a zero cell."""
        cells: I64 = requests * self.entries.shape[2] + np.maximum(positions, -1) + 1
        return cells

    def update(self, tokens: Ints, hidden: I64, computed: I64, drafts: Ints, count: int) -> I32:
        """Compute the last ``count`` rows before ``computed`` [B] of every request, rows above held or done before.

        tokens [B, >= T + steps + 1]: x[0..C]; hidden [B, T]: h(0..C-1); drafts [B, steps]: consumed beyond C. Returns
        the ideal's own drafts [B, steps] int32.
        """
        positions = computed - count + np.arange(count)[:, None]
        line = tokens.astype(np.int64)
        line[self._requests[:, None], computed[:, None] + 1 + np.arange(self.spec.steps)] = drafts
        target = hidden[self._requests, np.maximum(positions, 0)]
        out, own = target, []
        for depth in range(self.spec.steps):
            ids = line[self._requests, np.maximum(positions + depth + 1, 0)]
            given = target if depth == 0 or self.spec.hidden == "target" else out
            out = self._depth(depth, positions, ids, given)
            own.append(digest.draft_token(out[-1]))
        return np.stack(own, axis=1)

    def _depth(self, depth: int, positions: I64, ids: I64, given: I64) -> I64:
        """One depth over rows [n, B], stored; returns their outputs."""
        entries, rings, prefix = (of[depth].reshape(-1) for of in (self.entries, self.rings, self._prefix))
        cells, held = self.at(self._requests, positions), positions < self.floor
        rings[cells] = np.where(held, rings[cells], digest.ring_row(depth, ids, given))
        taps: I64 = np.zeros_like(positions)
        for i in range(1, self.spec.conv_width):
            taps += digest.tap(i, rings[self.at(self._requests, positions - i)])
        own = np.where(held, entries[cells], digest.entry(depth, positions, ids, given, taps))
        seen = np.cumsum(np.where(positions < 0, 0, digest.keyed(positions, own)), axis=0)
        seen += prefix[self.at(self._requests, positions[0] - 1)]
        entries[cells], prefix[cells] = own, seen
        window = self.spec.window_of(depth)
        if window is not None:
            seen = seen - prefix[self.at(self._requests, positions - window)]
        return digest.output(positions, own, seen)
