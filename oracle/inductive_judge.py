"""Judging one inductive step: whole arrays against the expected image, and each difference given to its case."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.bulk import Observed
from frontier_oracle.oracle.inductive_state import InductiveStep

I64 = NDArray[np.int64]
Bools = NDArray[np.bool_]


def judge_step(step: InductiveStep, seen: Observed) -> list[tuple[int, str]]:
    """Each failing case once, as (row in step.cases, what differs): what comes first of: column 0, each
    depth's KV, ring and checkpoints, the stash, the drafts.

    Row -1: a cell of nobody's, or the idle slot's stash. Garbage that a round may leave, past F' in its own verify
    window or below all that a later row reads, is not compared.
    """
    return _StepJudge(step, seen).failures()


class _StepJudge:
    def __init__(self, step: InductiveStep, seen: Observed) -> None:
        self.step, self.seen, self.layout = step, seen, step.layout
        self.failed: dict[int, str] = {}

    def failures(self) -> list[tuple[int, str]]:
        step, seen = self.step, self.seen
        drafts = seen.returned[:, 1:]
        image, own = step.expected(drafts)
        committed = step.after[np.arange(step.count), step.now]
        self._rows(seen.returned[:, 0] != committed, "column 0 is not the last committed token")
        for depth, (want, got) in enumerate(zip(image.kv, seen.kv, strict=True)):
            g = step.spec.group_of(depth)
            size = step.spec.groups[g].page_size
            changed = np.flatnonzero(want != got)
            self._pages(g, changed // size, changed % size, f"KV of depth {depth}")
            self._ring(np.argwhere(image.ring[depth] != seen.ring[depth]), depth)
            pages = np.flatnonzero((image.ckpt[depth] != seen.ckpt[depth]).any(axis=1))
            last = np.full_like(pages, step.spec.groups[0].page_size - 1)
            self._pages(0, pages, last, f"checkpoint of depth {depth}")
        if seen.stash_tokens is not None:
            self._stash()
        self._rows((drafts != own).any(axis=1), "a draft differs from the ideal's")
        return list(self.failed.items())

    def _pages(self, g: int, page: I64, offset: I64, what: str) -> None:
        """Differences in group g's pages: [n] physical pages and offsets."""
        if len(page) == 0:
            return
        layout, step = self.layout, self.step
        owner = layout.page_owner[g][page]
        position = layout.page_logical[g][page] * step.spec.groups[g].page_size + offset
        frontier, now, k = step.cases.frontier[owner], step.now[owner], step.spec.k
        past = (position >= now) & (position < frontier + k)
        dead = (position >= frontier - k) & (position < layout.first_read(g, step.now)[owner])
        shared = layout.page_shared[g][page]
        bad = (owner < 0) | shared | ~(past | dead)
        for case, p, both in zip(owner[bad].tolist(), position[bad].tolist(), shared[bad].tolist(), strict=True):
            if case < 0:
                self._fail(-1, f"{what}, no one's cell")
                continue
            below = "below the hit, " if p < step.cases.hit[case] else ""
            # Every case that holds a shared page is shown the change: which of them made it, cells cannot tell.
            for row in np.flatnonzero(layout.leader == layout.leader[case]).tolist() if both else [case]:
                self._fail(row, f"{what}, {'shared page, ' * both}{below}position {p}")

    def _ring(self, changed: I64, depth: int) -> None:
        """Differences in ring rows, [n, 2] slot and row. Of a case's own slot only the live rows count (S18)."""
        step, layout = self.step, self.layout
        first = layout.first_ring_row(step.now)
        for slot, row in changed.tolist():
            case = int(layout.slot_owner[slot])
            if case < 0:
                self._fail(-1, f"conv ring of depth {depth}, slot {slot} of no one in the batch")
                continue
            position = row + (int(step.now[case]) - 1 - row) // step.ring_rows * step.ring_rows
            if step.spec.taps and position >= first[case]:
                self._fail(case, f"conv ring of depth {depth}, position {position}")

    def _stash(self) -> None:
        """S8, S14, S19: the last min(k-1, v+a) entries hold; the idle slot's stash is as it was loaded."""
        step, seen, layout, k = self.step, self.seen, self.layout, self.step.spec.k
        assert seen.stash_tokens is not None and seen.stash_hidden is not None
        rows, i = np.arange(step.count)[:, None], np.arange(k - 1)
        at = np.maximum(step.now[:, None] - k + 1 + i, 0)
        valid = np.minimum(k - 1, step.cases.valid + step.cases.accept)
        width = seen.stash_hidden.shape[-1]
        wrong = seen.stash_tokens[layout.slots] != step.after[rows, at + 1]
        channels = digest.to_channels(step.hidden[rows, at], width)
        wrong |= (seen.stash_hidden[layout.slots] != channels).any(axis=2)
        self._rows((wrong & (i >= k - 1 - valid[:, None])).any(axis=1), "stash")
        if seen.stash_valid is not None:
            self._rows(seen.stash_valid[layout.slots] != valid, "valid length of the stash")
        same = np.array_equal(seen.stash_tokens[layout.idle], step.stash_tokens[-1])
        same &= np.array_equal(seen.stash_hidden[layout.idle], digest.to_channels(step.stash_hidden[-1], width))
        if not same or (seen.stash_valid is not None and seen.stash_valid[layout.idle] != k - 1):
            self._fail(-1, "stash of a slot that no one in the batch has")

    def _rows(self, failed: Bools, what: str) -> None:
        for case in np.flatnonzero(failed).tolist():
            self._fail(case, what)

    def _fail(self, case: int, what: str) -> None:
        self.failed.setdefault(case, what)
