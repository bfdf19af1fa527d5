"""Which rows a probe call holds, and what their attention reads through the system's own page table (S17)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DraftConfig
from frontier_oracle.property_tests.probe_inputs import CleanInputs
from frontier_oracle.property_tests.torch_digest import key_terms_of, keyed_


@dataclass(frozen=True)
class Rows:
    """[n] tensors: row number, its request, the request's first row, the extent it sees, whether it is masked.

    start [bs]: the extent of each request's first row.
    """

    index: Tensor
    request: Tensor
    first: Tensor
    extent: Tensor
    masked: Tensor
    start: Tensor


def rows_of(call: CleanInputs, page_sizes: tuple[int, ...]) -> Rows:
    """Rows are masked when every group's location is on the null page, or when no request owns them."""
    n, bs = call.input_ids.shape[0], call.seq_lens.shape[0]
    index = torch.arange(n, device=call.input_ids.device)
    starts, ends = call.query_start_loc[:-1], call.query_start_loc[1:]
    owner = torch.searchsorted(ends.contiguous(), index, right=True)
    request = owner.clamp(max=bs - 1)
    first = starts[request]
    masked = (owner == bs) | (index < first)
    on_null = call.out_cache_loc[0] < page_sizes[0]
    for loc, size in zip(call.out_cache_loc[1:], page_sizes[1:], strict=True):
        on_null = on_null & (loc < size)
    extent = (call.seq_lens - ends + 1)[request] + index
    return Rows(index, request, first, extent, masked | on_null, call.seq_lens - ends + 1 + starts)


class Attention:
    """Sums of keyed cells. The request's first row is summed over its table; every later row adds the position it sees
    beyond the row before and takes off the one that left its window, so ragged rows cost one cumulative sum in all."""

    def __init__(self, config: DraftConfig, device: torch.device) -> None:
        self.groups, self.num_pages, self.max_batch = config.spec.groups, config.num_pages, config.max_batch
        spans = [g.window or cols * g.page_size for g, cols in zip(self.groups, config.cols, strict=True)]
        self.capacity = [cols * g.page_size for g, cols in zip(self.groups, config.cols, strict=True)]
        self._axis = [torch.arange(span, device=device) for span in spans]
        self._terms = [key_terms_of(axis) for axis in self._axis]
        # Kept for good: a captured graph goes on using them, and fresh pages would be faulted in on every call.
        self._work = torch.empty(2, config.max_batch * max(spans), dtype=torch.int64, device=device)

    def attended(self, group: int, kv: Tensor, table: Tensor, rows: Rows) -> Tensor:
        """[n] int64: for each row the wrapping sum of keyed(q, cell at q) over q in [max(0, extent - window), extent).

        A full-history table is not read beyond its own extent. ``kv`` holds the cells of the depth's layer.
        """
        window = self.groups[group].window
        table = table.clamp(0, self.num_pages[group] - 1)
        base = self._windowed if window else self._full
        newest = rows.extent - 1
        step = self._at(group, kv, table, rows.request, newest)
        if window:
            step -= self._at(group, kv, table, rows.request, newest - window)
        step.masked_fill_(rows.index == rows.first, 0)
        running = step.cumsum(0)
        # At a request's first row the running sum holds the earlier requests' share only.
        first = rows.first.clamp(0, rows.index.shape[0] - 1)
        return base(group, kv, table, rows.start)[rows.request] + running - running[first]

    def _at(self, group: int, kv: Tensor, table: Tensor, request: Tensor, position: Tensor) -> Tensor:
        """keyed(q, cell at q) for one position of each row; 0 where there is no such position."""
        cell = kv[self._location(group, table, request, position)]
        share = keyed_(cell, key_terms_of(position), torch.empty_like(cell))
        outside = position < 0
        if not self.groups[group].window:
            outside |= position >= self.capacity[group]
        return share.masked_fill_(outside, 0)

    def _location(self, group: int, table: Tensor, request: Tensor, position: Tensor) -> Tensor:
        size = self.groups[group].page_size
        column = torch.div(position, size, rounding_mode="floor") % table.shape[1]
        return table[request, column] * size + position % size

    def _buffers(self, rows: int, span: int) -> tuple[Tensor, Tensor]:
        if rows > self.max_batch:
            work = torch.empty(2, rows * span, dtype=torch.int64, device=self._work.device)
        else:
            work = self._work[:, : rows * span]
        return work[0].view(rows, span), work[1].view(rows, span)

    def _full(self, group: int, kv: Tensor, table: Tensor, start: Tensor) -> Tensor:
        """[bs] sums over q < start, whole pages at a time: the position of a table's cell never changes."""
        size, (bs, cols) = self.groups[group].page_size, table.shape
        cells, scratch = self._buffers(bs, cols * size)
        torch.index_select(kv.view(-1, size), 0, table.reshape(-1), out=cells.view(-1, size))
        keyed_(cells, self._terms[group], scratch)
        return cells.masked_fill_(self._axis[group] >= start[:, None], 0).sum(1)

    def _windowed(self, group: int, kv: Tensor, table: Tensor, start: Tensor) -> Tensor:
        """[bs] sums over the window that ends at start, through the ring of pages."""
        axis = self._axis[group]
        bs, span = start.shape[0], axis.shape[0]
        cells, scratch = self._buffers(bs, span)
        positions = axis + (start - span)[:, None]
        request = torch.arange(bs, device=axis.device)[:, None]
        torch.index_select(kv, 0, self._location(group, table, request, positions).view(-1), out=cells.view(-1))
        keyed_(cells, key_terms_of(positions), scratch)
        return cells.masked_fill_(positions < 0, 0).sum(1)
