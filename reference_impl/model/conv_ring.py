"""The short convolutions' ring of recent rows per slot, and its checkpoints at page boundaries (S18)."""

from __future__ import annotations

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DraftConfig, ForwardInputs
from frontier_oracle.reference_impl.model.mtp import STREAMS, Taps
from frontier_oracle.reference_impl.model.tiles import Rows


class ConvRing:
    """rows [depths, streams, slots, R, H]: the row of position p stands at p mod R; no cursor.

    checkpoints [depths, streams, pages of group 0, W-1, H]: the last W-1 rows up to a page's end, newest first.
    """

    def __init__(self, config: DraftConfig, dtype: torch.dtype) -> None:
        spec, size = config.spec, config.hidden_size
        self.taps, self.size = spec.taps, spec.ring_rows
        self.page_size = spec.groups[0].page_size
        shape = (spec.layers, STREAMS)
        self.rows = torch.zeros(*shape, config.num_slots, self.size, size, dtype=dtype, device=config.device)
        self.checkpoints = torch.zeros(*shape, config.num_pages[0], self.taps, size, dtype=dtype, device=config.device)

    def call(self, inputs: ForwardInputs, rows: Rows, valid: Tensor) -> Taps:
        """Taps of one depth's call, which also store and publish the call's rows. valid [n]: not masked.

        Taps before a request's first valid row come from the ring as it stood before the call; a long chunk overwrites
        its own first rows, so only those that the ring still holds after the call are stored."""
        request_slots = inputs.conv_slots.long()
        slots, position = request_slots[rows.request], rows.extent - 1
        index = torch.arange(len(slots), device=slots.device)
        ends = inputs.query_start_loc[1:].long()
        count = torch.zeros_like(ends).index_add_(0, rows.request, valid.long())
        first = (ends - count)[rows.request]
        keep = torch.where(valid & (rows.extent > rows.lengths[rows.request] - self.size), slots, 0)
        ends_page = valid & (rows.extent % self.page_size == 0)
        pages = torch.where(ends_page, inputs.out_cache_loc[0].long() // self.page_size, 0)

        def taps(stream: int, x: Tensor) -> Tensor:
            ring, checkpoints = self.rows[inputs.depth, stream], self.checkpoints[inputs.depth, stream]
            history = [x]
            for back in range(1, self.taps + 1):
                before = position - back
                held = torch.where((before >= 0)[:, None], ring[slots, before % self.size], 0)
                here = (index - back >= first)[:, None]
                history.append(torch.where(here, x[(index - back).clamp(min=0)], held))
            newest = torch.stack(history, dim=1)
            ring[keep, position % self.size] = x
            if self.taps:
                checkpoints[pages] = newest[:, : self.taps]
            return newest

        return taps

    def load(self, slot: int, page: int, length: int) -> None:
        """Rows length-(W-1)..length-1 of ``slot``, every depth, from the checkpoint of ``page`` (S21)."""
        for back in range(min(self.taps, length)):
            self.rows[:, :, slot, (length - 1 - back) % self.size] = self.checkpoints[:, :, page, back]
