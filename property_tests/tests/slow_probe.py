"""The probe once more as a plain loop over rows and dicts, from the text of DESIGN and SEMANTICS S17, S18."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.contract import DraftConfig


def one(array: np.ndarray) -> int:
    return int(array[0])


def arr(value: int) -> np.ndarray:
    return np.array([value], dtype=np.int64)


def wrapped_sum(parts: list[int]) -> int:
    return (sum(parts) + 2**63) % 2**64 - 2**63


class SlowProbe:
    """Cells live in dicts; a cell that was never written is its sentinel."""

    def __init__(self, config: DraftConfig, ring_rows: int) -> None:
        self.config, self.spec, self.ring_rows = config, config.spec, ring_rows
        self.kv: dict[tuple[int, int], int] = {}
        self.ring: dict[tuple[int, int, int], int] = {}
        self.ckpt: dict[tuple[int, int, int], int] = {}

    def read_kv(self, depth: int, cell: int) -> int:
        return self.kv.get((depth, cell), one(digest.sentinel(1, depth, arr(cell))))

    def read_ring(self, depth: int, slot: int, row: int) -> int:
        cell = slot * self.ring_rows + row
        return self.ring.get((depth, slot, row), one(digest.sentinel(2, depth, arr(cell))))

    def read_ckpt(self, depth: int, page: int, i: int) -> int:
        return self.ckpt.get((depth, page, i), one(digest.sentinel(3, depth, arr(page * self.spec.taps + i))))

    def forward(self, call: dict[str, Any]) -> tuple[list[int], list[int]]:
        depth, spec = call["depth"], self.spec
        group = spec.group_of(depth)
        starts = call["query_start_loc"]
        rows = []  # (row, request, extent, masked, C)
        for r in range(len(call["seq_lens"])):
            m = starts[r + 1] - starts[r]
            for j in range(m):
                row = starts[r] + j
                masked = all(loc[row] < g.page_size for loc, g in zip(call["out_cache_loc"], spec.groups, strict=True))
                c = one(digest.ring_row(depth, arr(call["input_ids"][row]), arr(call["hidden"][row])))
                rows.append((row, r, call["seq_lens"][r] - (m - 1 - j), masked, c))
        entries = {row: self._entry(call, rows, item) for item in rows for row in [item[0]]}
        self._write(call, group, rows, entries)
        outputs = []
        for row, r, extent, masked, _ in rows:
            attended = self._attended(depth, group, call["page_table"][group][r], extent)
            position = arr(call["positions"][row])
            outputs.append(0 if masked else one(digest.output(position, arr(entries[row][0]), arr(attended))))
        tokens = [int(digest.draft_token(arr(outputs[s]))[0]) for s in call["sample_rows"]]
        return outputs, tokens

    def _row_before(self, rows: list[Any], item: Any, slot: int, depth: int, back: int) -> int:
        row, request, extent, _, _ = item
        at = extent - 1 - back
        if at < 0:
            return 0
        for other, other_request, _, masked, c in rows:
            if other == row - back and other_request == request and not masked:
                return int(c)
        return self.read_ring(depth, slot, at % self.ring_rows)

    def _entry(self, call: dict[str, Any], rows: list[Any], item: Any) -> tuple[int, list[int]]:
        row, request = item[0], item[1]
        slot = call["conv_slots"][request]
        earlier = [self._row_before(rows, item, slot, call["depth"], i) for i in range(1, self.spec.conv_width)]
        taps = wrapped_sum([one(digest.tap(i, arr(c))) for i, c in enumerate(earlier, start=1)])
        position, token, hidden = (arr(call[name][row]) for name in ("positions", "input_ids", "hidden"))
        return one(digest.entry(call["depth"], position, token, hidden, arr(taps))), earlier

    def _write(self, call: dict[str, Any], group: int, rows: list[Any], entries: dict[int, Any]) -> None:
        depth, size = call["depth"], self.spec.groups[0].page_size
        for row, request, extent, masked, c in rows:
            if masked:
                continue
            self.kv[depth, call["out_cache_loc"][group][row]] = entries[row][0]
            self.ring[depth, call["conv_slots"][request], (extent - 1) % self.ring_rows] = c
            if self.spec.taps and extent % size == 0:
                tail = [*reversed(entries[row][1][: self.spec.taps - 1]), c if extent > 0 else 0]
                for i, value in enumerate(tail):
                    self.ckpt[depth, call["out_cache_loc"][0][row] // size, i] = value

    def _attended(self, depth: int, group: int, table: list[int], extent: int) -> int:
        g = self.spec.groups[group]
        start = 0 if g.window is None else max(0, extent - g.window)
        end = extent if g.window else min(extent, len(table) * g.page_size)
        shares = []
        for q in range(start, end):
            cell = table[q // g.page_size % len(table)] * g.page_size + q % g.page_size
            shares.append(one(digest.keyed(arr(q), arr(self.read_kv(depth, cell)))))
        return wrapped_sum(shares)
