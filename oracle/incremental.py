"""The ideal drafter again, for batches: only rows that can have changed are computed, attention is a prefix sum.

Proven equal to ``ideal.recompute`` over all cells after every round by test_ideal.py. It does not assume that a k-row
window is enough (S4): depth d at position p consumes the token at p+d+1 (and, for shifted heads, the hidden at p+d), so
whatever is at p <= C_old - steps saw committed tokens only, and everything behind that is computed again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.spec import Spec

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Ints = NDArray[np.integer]


@dataclass(frozen=True)
class Window:
    """The rows of the last update: n per request, ending at C-1, one column a request.

    positions [n, B] int64 (negative rows do not exist); entries, rings [steps, n, B] int64.
    """

    positions: I64
    entries: I64
    rings: I64


class IncrementalIdeal:
    """The ideal's entries, ring rows and attention prefix sums of B requests, kept from round to round.

    A view (ideal.py) is given as arrays of B rows: x[0..K], h[0..C-1], K, C. Storage is [steps, B, 1 + max_positions]:
    the first column stands for every position below 0 and stays zero.
    """

    def __init__(self, spec: Spec, batch: int, max_positions: int) -> None:
        self.spec = spec
        self.computed: I64 = np.zeros(batch, dtype=np.int64)
        width = 1 + max_positions + (spec.steps if spec.hidden in ("previous", "single") else 0)
        shape = (spec.steps, batch, width)
        self._entries, self._rings, self._prefix = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        self._base = np.arange(batch) * width + 1
        nothing = np.zeros((0, batch), dtype=np.int64)
        self.window = Window(nothing, nothing[None], nothing[None])

    @property
    def entries(self) -> I64:
        """E(d,p) [steps, B, max_positions]; cells at p >= C hold nothing of meaning."""
        return self._entries[:, :, 1:]

    @property
    def rings(self) -> I64:
        """C(d,p) [steps, B, max_positions]; cells at p >= C hold nothing of meaning."""
        return self._rings[:, :, 1:]

    @property
    def outputs(self) -> I64:
        """O(d,p) [steps, B, max_positions], from entries and prefix sums: for checking, not for the hot path."""
        positions = np.arange(self.entries.shape[2])
        attended = self._prefix[:, :, 1:].copy()
        for depth in range(self.spec.steps):
            window = self.spec.window_of(depth)
            if window is not None:
                attended[depth] -= self._prefix[depth][:, np.maximum(positions - window, -1) + 1]
        return digest.output(positions, self.entries, attended)

    def ring_rows_at(self, requests: Ints, positions: Ints) -> I64:
        """Ring rows of all depths at (request, position) pairs of any one shape: [steps, ...]; 0 below position 0."""
        flat = self._rings.reshape(self.spec.steps, -1)
        return flat[:, self._base[requests] + np.maximum(positions, -1)]

    def update(
        self,
        tokens: Ints,
        known: Ints,
        hidden: I64,
        computed: Ints,
        drafts: Ints | None = None,
        lo: Ints | None = None,
    ) -> I32:
        """Move to the next round's view. Returns the ideal's own drafts [B, steps] int32.

        tokens [B, >= max K + 1], known [B]: K; hidden [B, >= max C], computed [B]: C >= 1. drafts [B, steps]: consumed
        beyond K instead of the ideal's own (S3, forced). lo [B]: lowest row whose known tokens or hiddens are not
        those of the last update (0 for a request that replaced another).
        """
        steps, now = self.spec.steps, np.array(computed, dtype=np.int64)
        first = np.minimum(self.computed, now) - (steps - 1)
        behind = now - (first if lo is None else np.minimum(first, lo))
        n = min(int(behind.max()), int(now.max()))
        positions = now - n + np.arange(n)[:, None]
        ids = self._token_window(tokens, known, now, positions, drafts)
        given = self._take(hidden, positions)
        self.window = Window(positions, *np.empty((2, steps, n, len(now)), dtype=np.int64))
        unshifted = self.spec.hidden == "previous"
        if unshifted:  # a row takes the token and the hidden that stand one before
            ids = np.concatenate([self._take(tokens, positions[:1]), ids])
            earlier = np.concatenate([positions[:1] - 1, positions])
            given = _only(earlier >= 0, self._take(hidden, earlier))
        own = np.empty((steps, len(now)), dtype=np.int32)
        out = given
        for depth in range(steps):
            if unshifted:
                out = self._depth(depth, now - n + np.arange(n + depth + 1)[:, None], ids[: n + depth + 1], given)
                given = np.concatenate([given, out[-1:]])
            elif depth and self.spec.hidden == "single":
                row = slice(n - 1 + depth, n + depth)
                out = self._depth(0, now[None] - 1 + depth, ids[row], out[-1:], keep=False)
            else:
                out = self._depth(depth, positions, ids[depth : depth + n], self._given(depth, given, out))
            own[depth] = digest.draft_token(out[-1])
            if drafts is None and depth < steps - 1:
                beyond = now + depth + 1 > known
                ids[n + depth + unshifted] = np.where(beyond, own[depth], ids[n + depth + unshifted])
        self.computed = now
        return own.T

    def _token_window(self, tokens: Ints, known: Ints, computed: I64, positions: I64, drafts: Ints | None) -> I64:
        """[n + steps - 1, B]: row i is the token at start+1+i; depth d reads rows d..d+n-1. Rows n.. are drafts m = 1..
        where the token at C+m is not known."""
        n, more = len(positions), self.spec.steps - 1
        ids = np.empty((n + more, len(computed)), dtype=np.int64)
        ids[:n] = self._take(tokens, positions + 1)
        for m in range(1, more + 1):
            beyond = computed + m > known
            draft = 0 if drafts is None else drafts[:, m - 1]
            row = self._take(tokens, np.where(beyond, 0, computed + m)[None])[0]
            ids[n + m - 1] = np.where(beyond, draft, row)
        return ids

    def _given(self, depth: int, hidden: I64, out: I64) -> I64:
        """The window's hiddens by the head's semantic (S1); ``out`` is the depth before. The window ends at C-1, so
        h(p+d) is there for all but the last d rows."""
        if depth == 0 or self.spec.hidden in ("target", "single"):
            return hidden
        if self.spec.hidden == "chain":
            return out
        kept = max(len(hidden) - depth, 0)
        return np.concatenate([hidden[depth:], out[kept:]])

    def _depth(self, depth: int, positions: I64, ids: I64, given: I64, keep: bool = True) -> I64:
        """One depth over the window: stores ring rows, entries and prefix sums, returns outputs [n, B]. keep: the rows
        are the window's (and, for some heads, a few behind it)."""
        spec, n = self.spec, len(positions)
        cells = self._base + np.maximum(positions, -1)
        before_start = positions[0] if n else positions
        exists = None if positions.min() >= 0 else positions >= 0
        rows = _only(exists, digest.ring_row(depth, ids, given))
        rings = self._rings[depth].reshape(-1)
        earlier = np.maximum(before_start - np.arange(spec.taps, 0, -1)[:, None], -1)
        taps = _tap_sums(np.concatenate([rings[self._base + earlier], rows]), n, spec.taps)
        entries = _only(exists, digest.entry(depth, positions, ids, given, taps))
        prefix = self._prefix[depth].reshape(-1)
        attended = np.cumsum(_only(exists, digest.keyed(positions, entries)), axis=0)
        attended += prefix[self._base + np.maximum(before_start - 1, -1)]
        rings[cells], prefix[cells] = rows, attended
        self._entries[depth].reshape(-1)[cells] = entries
        if keep:
            within = slice(0, len(self.window.positions))
            self.window.rings[depth], self.window.entries[depth] = rows[within], entries[within]
        window = spec.window_of(depth)
        if window is not None:
            attended = attended - prefix[self._base + np.maximum(positions - window, -1)]
        return digest.output(positions, entries, attended)

    @staticmethod
    def _take(values: Ints, positions: I64) -> I64:
        """values [B, T] at positions [m, B] as int64; position < 0 reads column 0 and is masked later."""
        cells = np.arange(len(values)) * values.shape[1] + np.maximum(positions, 0)
        taken: I64 = values.reshape(-1)[cells].astype(np.int64)
        return taken


def _only(exists: NDArray[np.bool_] | None, values: I64) -> I64:
    """Zero where a window's row lies below position 0."""
    return values if exists is None else np.where(exists, values, 0)


def _tap_sums(ring: I64, n: int, taps: int) -> I64:
    """Σ_{i=1..W-1} tap(i, row p-i) for the last n rows of ``ring`` [taps + n, B]."""
    total: I64 = np.zeros((n, ring.shape[1]), dtype=np.int64)
    for i in range(1, taps + 1):
        total += digest.tap(i, ring[taps - i : taps - i + n])
    return total
