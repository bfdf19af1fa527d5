"""The digest probe once more, in numpy and request by request: the draft model under the index-level executor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.contract import DraftConfig

I64 = NDArray[np.int64]


@dataclass
class Rows:
    """One request's rows of one call: tokens, positions, hidden [m] int64, locations[g] [m], masked [m] bool; extent:
    seq_len of the last row; slot: conv slot; tables[g] [cols]."""

    tokens: I64
    positions: I64
    hidden: I64
    locations: list[I64]
    masked: NDArray[np.bool_]
    extent: int
    slot: int
    tables: list[NDArray[np.int32]]


class DigestModel:
    """KV pools, conv rings and checkpoints on digests (DESIGN, the central idea)."""

    def __init__(self, config: DraftConfig) -> None:
        spec = self.spec = config.spec
        self.kv = []
        for depth in range(spec.steps):
            group = spec.group_of(depth)
            pool = config.num_pages[group] * spec.groups[group].page_size
            self.kv.append(digest.sentinel(1, depth, np.arange(pool)))
        ring = (config.num_slots, spec.ring_rows)
        ckpt = (config.num_pages[0], spec.taps)
        self.ring = np.stack([digest.sentinel(2, d, np.arange(ring[0] * ring[1])) for d in range(spec.steps)])
        self.ring = self.ring.reshape(spec.steps, *ring)
        cells = np.arange(ckpt[0] * ckpt[1])
        self.ckpt = np.zeros((spec.steps, *ckpt), dtype=np.int64)
        if spec.taps:
            for depth in range(spec.steps):
                self.ckpt[depth] = digest.sentinel(3, depth, cells).reshape(ckpt)

    def load_conv_state(self, slot: int, page: int, length: int) -> None:
        """Ring rows length-(W-1)..length-1 of a slot from a page's checkpoint."""
        for i, p in enumerate(range(length - self.spec.taps, length)):
            if p >= 0:
                self.ring[:, slot, p % self.spec.ring_rows] = self.ckpt[:, page, i]

    def run(self, depth: int, batch: list[Rows]) -> list[I64]:
        """Run one call, all its requests: every row is stored before any row attends. Returns O [m] of each, 0 where
        masked. The order shows where a page is shared and one request of the batch writes what another reads."""
        entries = [self._write(depth, rows) for rows in batch]
        outputs = []
        for rows, own in zip(batch, entries, strict=True):
            out = digest.output(rows.positions, own, self._attended(depth, rows, _extents(rows)))
            outputs.append(np.where(rows.masked, 0, out))
        return outputs

    def _write(self, depth: int, rows: Rows) -> I64:
        """Store one request's rows; returns their entries E [m]."""
        m, extents = len(rows.tokens), _extents(rows)
        own = digest.ring_row(depth, rows.tokens, rows.hidden)
        conv = self._conv_rows(depth, rows, extents, own)
        taps = np.zeros(m, dtype=np.int64)
        for i in range(1, self.spec.taps + 1):
            taps += digest.tap(i, conv[self.spec.taps - i : self.spec.taps - i + m])
        entries = digest.entry(depth, rows.positions, rows.tokens, rows.hidden, taps)
        self._store(depth, rows, extents, own, entries, conv)
        return entries

    def _conv_rows(self, depth: int, rows: Rows, extents: I64, own: I64) -> I64:
        """C of positions e0-(W-1)..e-1, e0 the first row's: the ring as it stood, this call's unmasked rows over it."""
        first = int(extents[0]) - 1 - self.spec.taps
        positions = first + np.arange(self.spec.taps + len(own))
        conv: I64 = self.ring[depth, rows.slot, positions % self.spec.ring_rows].copy()
        conv[self.spec.taps :][~rows.masked] = own[~rows.masked]
        conv[positions < 0] = 0
        return conv

    def _store(self, depth: int, rows: Rows, extents: I64, own: I64, entries: I64, conv: I64) -> None:
        spec, group = self.spec, self.spec.group_of(depth)
        size = spec.groups[0].page_size
        for j in np.flatnonzero(~rows.masked).tolist():
            self.kv[depth][rows.locations[group][j]] = entries[j]
            self.ring[depth, rows.slot, (extents[j] - 1) % spec.ring_rows] = own[j]
            if spec.taps and extents[j] % size == 0:
                self.ckpt[depth, rows.locations[0][j] // size] = conv[j + 1 : j + 1 + spec.taps]

    def _attended(self, depth: int, rows: Rows, extents: I64) -> I64:
        """Per row: the keyed sum over its window of the cells that the page table names (S17)."""
        group = self.spec.groups[self.spec.group_of(depth)]
        table = rows.tables[self.spec.group_of(depth)].astype(np.int64)
        q = np.arange(max(0, int(extents[-1])))
        page = table[q // group.page_size % len(table)]
        keyed = digest.keyed(q, self.kv[depth][page * group.page_size + q % group.page_size])
        sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(keyed)])
        last = np.maximum(extents, 0)
        first = np.zeros_like(last) if group.window is None else np.maximum(extents - group.window, 0)
        attended: I64 = sums[last] - sums[first]
        return attended


def _extents(rows: Rows) -> I64:
    """[m] how many positions each row sees: the extent less the request's later rows."""
    extents: I64 = rows.extent - np.arange(len(rows.tokens) - 1, -1, -1)
    return extents
