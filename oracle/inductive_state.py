"""One inductive step as data: the state before the round, the round's batch, and the image that it must leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.bulk import KIND_CKPT, KIND_KV, KIND_RING
from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig
from frontier_oracle.oracle.held_ideal import HeldIdeal
from frontier_oracle.oracle.inductive import CaseLayout, Cases, symbols
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.target import target_rows

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Bools = NDArray[np.bool_]


@dataclass
class Image:
    """Every cell. kv[d] [cells] int64; ring [steps, slots, R]; ckpt [steps, pages of group 0, W-1]."""

    kv: list[I64]
    ring: I64
    ckpt: I64


class InductiveStep:
    """A batch of cases: its state, its DECODE round, and the image that this must leave.

    ring_rows: rows of the ring that is really there (another number than spec.ring_rows is a planted fault); padded:
    rows of slot 0 at the batch's end (S20); relabel: seed of the symbols; seed: of the layout.
    Public: config, before (Image), the stash to load (stash_slots [b], stash_tokens [b, k-1], stash_hidden [b, k-1]
    digests, stash_valid [b], the idle slot last), ``batch`` (numpy, hidden as digests), now [B] = F', and the line of
    tokens ``after`` [B, T], of which x[0..F'] is committed.
    """

    def __init__(
        self,
        spec: Spec,
        cases: Cases,
        ring_rows: int | None = None,
        padded: int = 0,
        hidden_size: int = 8,
        relabel: int = 0,
        seed: int = 0,
    ) -> None:
        self.spec, self.cases, self.relabel = spec, cases, relabel
        self.layout = layout = CaseLayout(spec, cases, seed)
        self.count, self.now = len(cases), cases.frontier + cases.accept
        self.ring_rows = spec.ring_rows if ring_rows is None else ring_rows
        self.config = DraftConfig(
            spec,
            layout.num_slots,
            self.count + padded,
            tuple(layout.num_pages),
            layout.cols,
            hidden_size,
        )
        self._rows = np.arange(self.count)[:, None]
        self._positions = np.arange(layout.max_positions)
        self._length = layout.max_positions + spec.steps + 1
        self._stride = self._length + 2 * spec.k
        self.tokens = self._line()
        self.drafts = self.tokens[self._rows, cases.frontier[:, None] + np.arange(1, spec.steps + 1)]
        self.hidden = self._target()
        self.ideal = HeldIdeal(spec, self.count, layout.max_positions)
        self.ideal.update(self.tokens, self.hidden, cases.frontier, self.drafts, int(cases.frontier.max()))
        self.before = self._image(self._sentinels(), cases.frontier)
        self._load_stash()
        self.batch = self._batch(padded)
        self.ideal.floor = cases.hit

    # ---- the state before -----------------------------------------------------------------------------------------

    def _own(self, offset: I64 | int) -> I64:
        """Symbols of each case's own (and of the idle slot, last), behind its line of tokens. [B+1, n]."""
        return symbols(np.arange(self.count + 1)[:, None] * self._stride + self._length + offset, self.relabel)

    def _line(self) -> I64:
        """[B, T] x[0..F], then the current drafts, all distinct; what entries on shared pages consumed is shared."""
        positions = np.arange(self._length)
        shared = positions < self.layout.shared_tokens()[:, None]
        owner = np.where(shared, self.layout.leader[:, None], self._rows)
        return symbols(owner * self._stride + positions, self.relabel)

    def _target(self) -> I64:
        """[B, max_positions] h: of x[0..F-1], then of the verify round's candidates x[F], draft 1, .. draft k-1; a
        candidate that no depth drafts is -1."""
        line = self.tokens[:, : self.layout.max_positions].copy()
        line[self._positions > (self.cases.frontier + self.spec.steps)[:, None]] = -1
        return target_rows(np.zeros(self.count, dtype=np.int64), line, 0)[1]

    def _sentinels(self) -> Image:
        spec, config = self.spec, self.config
        groups = [spec.group_of(d) for d in range(spec.steps)]
        kv = [_sentinels(KIND_KV, d, config.num_pages[g] * spec.groups[g].page_size) for d, g in enumerate(groups)]
        ring = [_sentinels(KIND_RING, d, config.num_slots * self.ring_rows) for d in range(spec.steps)]
        ckpt = [_sentinels(KIND_CKPT, d, config.num_pages[0] * spec.taps) for d in range(spec.steps)]
        shape = (spec.steps, config.num_pages[0], spec.taps)
        return Image(kv, np.stack(ring).reshape(spec.steps, -1, self.ring_rows), np.stack(ckpt).reshape(shape))

    def _image(self, image: Image, computed: I64) -> Image:
        """Store all that the invariant at ``computed`` [B] speaks of here: live cells, ring rows, checkpoints."""
        spec, layout, positions = self.spec, self.layout, self._positions
        done = positions < computed[:, None]
        places = []
        for g in range(len(spec.groups)):
            live = done & (positions >= layout.first_read(g, computed)[:, None])
            places.append((live, layout.cells(g, positions)[live]))
        for depth in range(spec.steps):
            live, cells = places[spec.group_of(depth)]
            image.kv[depth][cells] = self.ideal.entries[depth, :, 1:][live]
        cases, at = np.nonzero(done & (positions >= layout.first_ring_row(computed)[:, None]))
        image.ring[:, layout.slots[cases], at % self.ring_rows] = self.ideal.rings[:, cases, at + 1]
        cases, ends = np.nonzero(done & ((positions + 1) % spec.groups[0].page_size == 0))
        pages = layout.tables[0][cases, ends // spec.groups[0].page_size % layout.cols[0]]
        kept = layout.page_logical[0][pages] == ends // spec.groups[0].page_size
        cases, ends, pages = cases[kept], ends[kept], pages[kept]
        rows = ends[:, None] + np.arange(1 - spec.taps, 1)
        image.ckpt[:, pages] = self.ideal.rings.reshape(spec.steps, -1)[:, self.ideal.at(cases[:, None], rows)]
        return image

    def _load_stash(self) -> None:
        """Entry i: x[F-k+2+i] and h(F-k+1+i), where v lets it hold; elsewhere, and in the idle slot, garbage."""
        i = np.arange(self.spec.k - 1)
        at = self.cases.frontier[:, None] - self.spec.k + 1 + i
        tokens = self._own(i)
        hidden = digest.mix(digest.TAG_HIDDEN, tokens, -1)
        holds = i >= self.spec.k - 1 - self.cases.valid[:, None]
        tokens[:-1] = np.where(holds, self.tokens[self._rows, np.maximum(at, -1) + 1], tokens[:-1])
        hidden[:-1] = np.where(holds, self.hidden[self._rows, np.maximum(at, 0)], hidden[:-1])
        self.stash_slots = np.append(self.layout.slots, self.layout.idle).astype(np.int32)
        self.stash_tokens, self.stash_hidden = tokens.astype(np.int32), hidden
        self.stash_valid = np.append(self.cases.valid, self.spec.k - 1).astype(np.int32)

    def _batch(self, padded: int) -> DecodeBatch:
        """v: the current drafts up to a-1, then fresh symbols: one that commits, and garbage. Padded rows last."""
        k, frontier, j = self.spec.k, self.cases.frontier[:, None], np.arange(self.spec.k)
        used = min(k, self.spec.steps)
        verified = self._own(k + j)
        accepted = j[:used] < self.cases.accept[:, None] - 1
        verified[:-1, :used] = np.where(accepted, self.drafts[:, :used], verified[:-1, :used])
        self.after = self.tokens.copy()
        self.after[self._rows, frontier + 1 + j] = verified[:-1]
        hidden = np.append(self.hidden[self._rows, frontier + j], np.repeat(self.stash_hidden[-1:, :1], k, 1), axis=0)
        rows = np.append(np.arange(self.count), np.full(padded, self.count))

        def with_padding(values: I64, pad: int) -> I32:
            return np.append(values, np.full((padded, *values.shape[1:]), pad), axis=0).astype(np.int32)

        return DecodeBatch(
            req_pool_indices=with_padding(self.layout.slots, 0),
            seq_lens=with_padding(self.cases.frontier, 1),
            accept_lengths=with_padding(self.cases.accept, 1),
            verify_ids=verified[rows].astype(np.int32),
            hidden=hidden[rows].reshape(-1),
            page_table=tuple(with_padding(table, 0) for table in self.layout.tables),
        )

    # ---- the state after ------------------------------------------------------------------------------------------

    def expected(self, drafts: NDArray[np.integer]) -> tuple[Image, I32]:
        """The image at F' under x[0..F'] and the ``drafts`` [B, steps] that were returned, and the ideal's own drafts
        [B, steps]. All that the invariant says nothing of is as before. To be called once."""
        changed = int(self.cases.accept.max()) + self.spec.steps - 1
        own = self.ideal.update(self.after, self.hidden, self.now, drafts, changed)
        before = self.before
        image = Image([cells.copy() for cells in before.kv], before.ring.copy(), before.ckpt.copy())
        return self._image(image, self.now), own


def _sentinels(kind: int, depth: int, cells: int) -> I64:
    return digest.sentinel(kind, depth, np.arange(cells))[:cells]
