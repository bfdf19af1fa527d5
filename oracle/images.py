"""Whole-state checks: every cell of KV, ring, checkpoint and stash against its expected image after a round.

What no logged row explains must not have changed. What a later window can read of ring, checkpoints and stash must be
the ideal's; where the entry of the same row is itself at fault, the entry is reported and not its shadow here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.contract import DraftConfig
from frontier_oracle.oracle.evidence import Evidence, StashImage
from frontier_oracle.oracle.incremental import IncrementalIdeal
from frontier_oracle.oracle.local import Found
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.timeline import Adopted, Request, Round, View

I64 = NDArray[np.int64]
KIND_KV, KIND_RING, KIND_CKPT = 1, 2, 3


class Images:
    """The state as the last round left it."""

    def __init__(self, config: DraftConfig) -> None:
        spec = config.spec
        self.spec = spec
        self.kv: list[I64] = []
        for depth in range(spec.steps):
            group = spec.group_of(depth)
            cells = np.arange(config.num_pages[group] * spec.groups[group].page_size)
            self.kv.append(digest.sentinel(KIND_KV, depth, cells))
        self.ring: I64 | None = None
        self.ckpt = np.zeros((spec.steps, config.num_pages[0], spec.taps), dtype=np.int64)
        if spec.taps:
            cells = np.arange(config.num_pages[0] * spec.taps)
            for depth in range(spec.steps):
                self.ckpt[depth] = digest.sentinel(KIND_CKPT, depth, cells).reshape(self.ckpt.shape[1:])
        self.stash: StashImage | None = None
        self._adopted_slots: set[int] = set()

    def adopted(self, step: Adopted) -> None:
        """An adopted slot's ring is loaded from a checkpoint before the request's first round, whenever that is."""
        self._adopted_slots.add(step.request.slot)

    def changed_cells(self, evidence: Evidence) -> set[tuple[int, int]]:
        """(depth, location) of every KV cell that changed in this round."""
        out: set[tuple[int, int]] = set()
        for depth, (now, before) in enumerate(zip(evidence.kv, self.kv, strict=True)):
            out.update((depth, location) for location in np.flatnonzero(now != before).tolist())
        return out

    def check_rest(
        self, step: Round, evidence: Evidence, changed: set[tuple[int, int]], found: Found, live: dict[str, Request]
    ) -> list[Finding]:
        """Changes that no logged row explains, and the stash of requests that were not in the batch."""
        out = []
        for depth, location in sorted(changed - found.written):
            detail = {"because": f"KV cell {location} changed and no row of this round wrote it"}
            out.append(Finding("FO204", step.index, "", depth, -1, detail))
        out += self._check_ring_changes(step, evidence, found)
        out += self._check_idle_stash(step, evidence, live)
        self._adopted_slots -= {view.request.slot for view in step.views}
        return out

    def keep(self, evidence: Evidence) -> None:
        """What the next round's changes are counted from."""
        self.kv = list(evidence.kv)
        self.ring, self.ckpt, self.stash = evidence.ring, evidence.ckpt, evidence.stash

    def _check_ring_changes(self, step: Round, evidence: Evidence, found: Found) -> list[Finding]:
        if self.ring is None or self.ring.shape != evidence.ring.shape:
            steps, slots, rows = evidence.ring.shape
            cells = np.arange(slots * rows)
            fresh = [digest.sentinel(KIND_RING, d, cells).reshape(slots, rows) for d in range(steps)]
            self.ring = np.stack(fresh) if cells.size else evidence.ring
        out = []
        for depth, slot, row in np.argwhere(evidence.ring != self.ring).tolist():
            if slot not in self._adopted_slots and (depth, slot, row) not in found.ring_rows:
                detail = {"because": f"ring row {row} of slot {slot} changed and no row of this round wrote it"}
                out.append(Finding("FO204", step.index, "", depth, -1, detail))
        return out

    def _check_idle_stash(self, step: Round, evidence: Evidence, live: dict[str, Request]) -> list[Finding]:
        if evidence.stash is None or self.stash is None:
            return []
        now, before = evidence.stash, self.stash
        in_batch = {view.request.name for view in step.views}
        out = []
        for name, request in live.items():
            slot = request.slot
            same = np.array_equal(now.tokens[slot], before.tokens[slot])
            same &= np.array_equal(now.hidden[slot], before.hidden[slot])
            if now.valid is not None and before.valid is not None:
                same &= bool(now.valid[slot] == before.valid[slot])
            if name not in in_batch and not same:
                detail = {"because": f"the stash of slot {slot} changed in a round that {name} was not in"}
                out.append(Finding("FO206", step.index, name, -1, -1, detail))
        return out

    def check_request(
        self, step: Round, view: View, evidence: Evidence, ideal: IncrementalIdeal, good: set[tuple[int, int]]
    ) -> list[Finding]:
        """Ring, checkpoints and stash of a request in the batch. good: (d, p) whose entries equal the ideal's."""
        out = self._check_ring(step, view, evidence, ideal, good)
        out += self._check_checkpoints(step, view, evidence, ideal, good)
        return out + _check_stash(step, view, evidence, self.spec.k)

    def _check_ring(
        self, step: Round, view: View, evidence: Evidence, ideal: IncrementalIdeal, good: set[tuple[int, int]]
    ) -> list[Finding]:
        """S18: every row whose taps a later window can read."""
        spec, c, slot = self.spec, view.computed, view.request.slot
        if spec.taps == 0:
            return []
        first = max(0, view.request.hit - spec.taps, c + 2 - spec.k - spec.conv_width)
        positions = np.arange(first, c)
        held = evidence.ring[:, slot, positions % evidence.ring.shape[2]]
        wrong = np.argwhere(held != ideal.rings[:, 0, first:c])
        out = []
        for depth, i in wrong.tolist():
            p = first + i
            if (depth, p) in good:
                because = f"ring row {p % evidence.ring.shape[2]} of slot {slot} is not C({depth},{p})"
                out.append(Finding("FO207", step.index, view.request.name, depth, p, {"because": because}))
        return out

    def _check_checkpoints(
        self, step: Round, view: View, evidence: Evidence, ideal: IncrementalIdeal, good: set[tuple[int, int]]
    ) -> list[Finding]:
        """S18: the last W-1 ring rows before each page boundary the request has crossed."""
        table, taps = view.request.tables[0], self.spec.taps
        size = table.pool.group.page_size
        logical = np.arange(max(0, table.reached - table.cols), view.computed // size)
        if taps == 0 or len(logical) == 0:
            return []
        pages = table.pages[logical % table.cols]
        logical, pages = logical[pages > 0], pages[pages > 0]
        rows = (logical[:, None] + 1) * size - taps + np.arange(taps)
        wrong = evidence.ckpt[:, pages] != ideal.ring_rows_at(np.zeros_like(rows), rows)
        out = []
        for depth, i in np.argwhere(wrong.any(axis=2)).tolist():
            if all((depth, p) in good for p in rows[i].tolist() if p >= 0):
                detail = {"because": f"the checkpoint of page {int(pages[i])} is not the last {taps} ring rows"}
                out.append(Finding("FO208", step.index, view.request.name, depth, int(rows[i, -1]), detail))
        return out


def _check_stash(step: Round, view: View, evidence: Evidence, k: int) -> list[Finding]:
    """S8, S14, S19: the last k-1 committed tokens and the hiddens one behind them; nothing of a former owner."""
    if evidence.stash is None:
        return []
    name, slot, c = view.request.name, view.request.slot, view.computed
    valid = min(k - 1, c - view.request.hit)
    claimed = k - 1 if evidence.stash.valid is None else int(evidence.stash.valid[slot])
    if claimed > valid and evidence.stash.valid is not None or claimed < valid:
        detail = {"expected": valid, "got": claimed, "because": "the stash's valid length is off"}
        return [Finding("FO206", step.index, name, -1, -1, detail)]
    first = max(k - 1 - claimed, k - 1 - c)  # a stash that claims no length may hold anything before position 0
    for i in range(first, k - 1):
        p = c - k + 1 + i
        token, hidden = int(evidence.stash.tokens[slot, i]), int(evidence.stash.hidden[slot, i])
        want = (int(view.tokens[p + 1]), int(view.hidden[p]))
        if (token, hidden) != want:
            detail = {"expected": list(want), "got": [token, hidden], "entry": i}
            return [Finding("FO206", step.index, name, -1, p, detail)]
    return []
