"""Judging many requests at once: the expected image of every cell, and whole arrays compared with it after each round.

Requests 0..B-1 run in lockstep, each in a slot and on pages of its own, shuffled so that adjacency hides nothing. The
image starts as the probe's sentinels; each round the ideal's rows are stored where they belong. A cell that differs
from its image is a failure, unless it is the request's own and no later row can read it (garbage at p >= C).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.incremental import IncrementalIdeal
from frontier_oracle.oracle.spec import Spec

I64 = NDArray[np.int64]
Ints = NDArray[np.integer]
Bools = NDArray[np.bool_]
KIND_KV, KIND_RING, KIND_CKPT = 1, 2, 3


class BulkLayout:
    """Slots 1..B and page tables of B requests (S17, S20). Page 0 is the null page and slot 0 the padding's.

    max_positions per request; chunk: rows of the longest EXTEND round. slots [B]; tables[g] [B, cols_g]; num_pages[g]
    counts the null page; page_owner[g], page_col[g] [num_pages]: the request and table column of a physical page (owner
    -1: nobody's).
    """

    def __init__(self, spec: Spec, batch: int, max_positions: int, chunk: int = 0, seed: int = 0) -> None:
        rng = np.random.Generator(np.random.Philox(key=seed))
        self.spec, self.batch, self.max_positions = spec, batch, max_positions
        self.slots = 1 + rng.permutation(batch)
        self.slot_owner = np.full(batch + 1, -1)
        self.slot_owner[self.slots] = np.arange(batch)
        self.cols = tuple(g.cols(max_positions, spec.k, chunk) for g in spec.groups)
        self.num_pages = tuple(1 + batch * cols for cols in self.cols)
        self.tables = tuple(1 + rng.permutation(batch * cols).reshape(batch, cols) for cols in self.cols)
        self.page_owner, self.page_col = [], []
        for table, pages, cols in zip(self.tables, self.num_pages, self.cols, strict=True):
            owner, col = np.full(pages, -1), np.zeros(pages, dtype=np.int64)
            owner[table] = np.arange(batch)[:, None]
            col[table] = np.arange(cols)
            self.page_owner.append(owner)
            self.page_col.append(col)

    def locations(self, group: int, positions: I64) -> I64:
        """Write locations (S17) of positions [n, B] of every request."""
        size = self.spec.groups[group].page_size
        page, offset = positions // size, positions % size
        pages = self.tables[group][np.arange(self.batch), page % self.cols[group]]
        return pages * size + offset

    def period(self, group: int) -> int:
        """After how many positions a table comes round; a full history never does."""
        size = self.spec.groups[group].page_size
        return self.cols[group] * size if self.spec.groups[group].window is not None else 1 << 40


@dataclass(frozen=True)
class Observed:
    """What a round left behind. returned [B, steps+1]; kv[d] [cells]; ring [steps, slots, R]; ckpt
    [steps, pages of group 0, W-1]; stash_tokens [slots, k-1], stash_hidden [slots, k-1, H] (channels as any number
    type), stash_valid [slots], each None when the system has none."""

    returned: Ints
    kv: list[I64]
    ring: I64
    ckpt: I64
    stash_tokens: Ints | None = None
    stash_hidden: NDArray[np.generic] | None = None
    stash_valid: Ints | None = None


class BulkJudge:
    """Keeps the ideal and the images of a batch, and names each request's first difference once."""

    def __init__(self, layout: BulkLayout, hidden_size: int) -> None:
        self.layout, self.spec, self.hidden_size = layout, layout.spec, hidden_size
        spec, batch = layout.spec, layout.batch
        self.ideal = IncrementalIdeal(spec, batch, layout.max_positions)
        self.failed: dict[int, str] = {}
        self._settled = np.zeros(batch, dtype=np.int64)
        self._round_failures: list[tuple[int, str]] = []
        sizes = [g.page_size for g in spec.groups]
        cells = [layout.num_pages[g] * sizes[g] for g in map(spec.group_of, range(spec.steps))]
        self._kv = [_sentinels(KIND_KV, d, n) for d, n in enumerate(cells)]
        self._ring = np.stack([_sentinels(KIND_RING, d, (batch + 1) * spec.ring_rows) for d in range(spec.steps)])
        ckpt = [_sentinels(KIND_CKPT, d, layout.num_pages[0] * spec.taps) for d in range(spec.steps)]
        self._ckpt = np.stack(ckpt).reshape(spec.steps, layout.num_pages[0], spec.taps)

    def round(
        self, tokens: Ints, known: Ints, hidden: I64, computed: I64, seen: Observed, mid_prompt: bool = False
    ) -> list[tuple[int, str]]:
        """Judge one round. The view is that of IncrementalIdeal.update; drafts are those that the system returned.

        mid_prompt: the round ran a chunk that ends no prompt, whose returned rows are discarded, so the ideal consumes
        its own drafts. Returns (request, what) of the requests that fail for the first time (request -1: a cell of
        nobody's changed).
        """
        self._round_failures = []
        drafts = None if mid_prompt else seen.returned[:, 1:]
        own = self.ideal.update(tokens, known, hidden, computed, drafts)
        # Mid-prompt an entry with p+d+1 > K holds a draft of the round that wrote it: provisional, written again (S13).
        self._settled[:] = known if mid_prompt else self.layout.max_positions + self.spec.steps
        if drafts is not None:
            column0 = tokens[np.arange(len(tokens)), computed]
            self._fail_rows(seen.returned[:, 0] != column0, "column 0 is not the last committed token")
            self._fail_rows((drafts != own).any(axis=1), "a draft differs from the ideal's")
        self._store_rows()
        self._compare_kv(seen.kv, computed)
        self._compare_ring(seen.ring, computed)
        self._compare_ckpt(seen.ckpt, computed)
        if seen.stash_tokens is not None:
            self._compare_stash(seen, tokens, hidden, computed)
        return self._round_failures

    # ---- the image ----------------------------------------------------------------------------------------------

    def _store_rows(self) -> None:
        """Put the ideal's last rows where S17 and S18 want them; of two rows that share a cell the later stays."""
        layout, spec, window = self.layout, self.spec, self.ideal.window
        positions = window.positions
        exists = None if positions.min() >= 0 else positions >= 0
        cells = [layout.locations(g, positions) for g in range(len(spec.groups))]
        ring_cells = layout.slots * spec.ring_rows + positions % spec.ring_rows
        for depth in range(spec.steps):
            _store(self._kv[depth], cells[spec.group_of(depth)], window.entries[depth], exists)
            _store(self._ring[depth], ring_cells, window.rings[depth], exists)
        if spec.taps:
            self._publish(positions)

    def _publish(self, positions: I64) -> None:
        """A page of group 0 whose last row was computed holds the W-1 ring rows that end there (S18)."""
        size, taps = self.spec.groups[0].page_size, self.spec.taps
        rows, requests = np.nonzero((positions >= 0) & ((positions + 1) % size == 0))
        ends = positions[rows, requests]
        pages = self.layout.tables[0][requests, ends // size % self.layout.cols[0]]
        self._ckpt[:, pages] = self.ideal.ring_rows_at(requests[:, None], ends[:, None] + np.arange(1 - taps, 1))

    # ---- comparing ----------------------------------------------------------------------------------------------

    def _compare_kv(self, kv: list[I64], computed: I64) -> None:
        for depth, cells in enumerate(kv):
            changed = _take_over(self._kv[depth], cells)
            if len(changed) == 0:
                continue
            group = self.spec.group_of(depth)
            size, period = self.spec.groups[group].page_size, self.layout.period(group)
            page = changed // size
            owner = self.layout.page_owner[group][page]
            residue = self.layout.page_col[group][page] * size + changed % size
            last = _last_before(computed[owner], residue, period)
            bad = self._judged(depth, owner, last, self._oldest_read(group, computed[owner]))
            self._fail_cells(owner[bad], last[bad], f"KV of depth {depth}")

    def _compare_ring(self, ring: I64, computed: I64) -> None:
        rows, taps = self.spec.ring_rows, self.spec.taps
        for depth in range(self.spec.steps):
            changed = _take_over(self._ring[depth], ring[depth].reshape(-1))
            if len(changed) == 0:
                continue
            owner = self.layout.slot_owner[changed // rows]
            last = _last_before(computed[owner], changed % rows, rows)
            oldest = np.maximum(computed[owner] + 1 - self.spec.k - taps, 0)
            bad = self._judged(depth, owner, last, oldest)
            self._fail_cells(owner[bad], last[bad], f"conv ring of depth {depth}")

    def _compare_ckpt(self, ckpt: I64, computed: I64) -> None:
        if self.spec.taps == 0:
            return
        size, period = self.spec.groups[0].page_size, self.layout.period(0)
        for depth in range(self.spec.steps):
            changed = _take_over(self._ckpt[depth].reshape(-1), ckpt[depth].reshape(-1)) // self.spec.taps
            if len(changed) == 0:
                continue
            owner = self.layout.page_owner[0][changed]
            last = _last_before(computed[owner], self.layout.page_col[0][changed] * size + size - 1, period)
            bad = self._judged(depth, owner, last, self._oldest_read(0, computed[owner]))
            self._fail_cells(owner[bad], last[bad], f"checkpoint of depth {depth}")

    def _judged(self, depth: int, owner: I64, last: I64, oldest: I64) -> Bools:
        """Which changed cells must not differ: nobody's, and a request's own that a later row reads or hits share."""
        return (owner < 0) | ((last >= oldest) & (last + depth < self._settled[owner]))

    def _oldest_read(self, group: int, computed: I64) -> I64:
        """The lowest position that a later window's rows, C+1-k at the earliest, can still attend to."""
        window = self.spec.groups[group].window
        if window is None:
            return np.zeros_like(computed)
        return np.maximum(computed + 2 - self.spec.k - window, 0)

    def _compare_stash(self, seen: Observed, tokens: Ints, hidden: I64, computed: I64) -> None:
        """Entry i of a slot: hidden h(C-k+1+i), token x[C-k+2+i]; the last min(k-1, C) entries hold (S8, S14)."""
        assert seen.stash_tokens is not None and seen.stash_hidden is not None
        slots, requests = self.layout.slots, np.arange(self.layout.batch)[:, None]
        positions = computed[:, None] - self.spec.k + 1 + np.arange(self.spec.k - 1)
        holds, at = positions >= 0, np.maximum(positions, 0)
        wrong = seen.stash_tokens[slots] != tokens[requests, at + 1]
        channels = digest.to_channels(hidden[requests, at], self.hidden_size)
        wrong |= (seen.stash_hidden[slots] != channels).any(axis=2)
        self._fail_rows((wrong & holds).any(axis=1), "stash")
        if seen.stash_valid is not None:
            self._fail_rows(seen.stash_valid[slots] != holds.sum(axis=1), "valid length of the stash")

    def _fail_rows(self, failed: Bools, what: str) -> None:
        for request in np.flatnonzero(failed):
            self._fail(int(request), what)

    def _fail_cells(self, owner: I64, last: I64, what: str) -> None:
        requests, first = np.unique(owner, return_index=True)
        for request, i in zip(requests, first, strict=True):
            self._fail(int(request), f"{what}, position {last[i]}" if request >= 0 else f"{what}, nobody's cell")

    def _fail(self, request: int, what: str) -> None:
        if request not in self.failed:
            self.failed[request] = what
            self._round_failures.append((request, what))


def _sentinels(kind: int, depth: int, cells: int) -> I64:
    return digest.sentinel(kind, depth, np.arange(cells))


def _store(image: I64, cells: I64, rows: I64, exists: Bools | None) -> None:
    """image[cells] = rows, but for rows at positions below 0 (exists None: there are none)."""
    if exists is None:
        image[cells] = rows
    else:
        image[cells[exists]] = rows[exists]


def _take_over(image: I64, cells: I64) -> I64:
    """Indices at which the cells differ from their image, which then becomes equal: each change is judged once."""
    if np.array_equal(image, cells):
        return np.zeros(0, dtype=np.int64)
    changed = np.flatnonzero(image != cells)
    image[changed] = cells[changed]
    return changed


def _last_before(computed: I64, residue: I64, period: int) -> I64:
    """The last position below C that lies on a cell which holds positions = residue (mod period); below 0 if none."""
    return residue + (computed - 1 - residue) // period * period
