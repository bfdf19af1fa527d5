"""The short convolution's ring of recent rows per slot, and its checkpoints at page boundaries (S18)."""

from __future__ import annotations

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DraftConfig


class ConvRing:
    """rows [steps, slots, R, H]: the row of position p stands at p mod R; no cursor.

    checkpoints [steps, pages of group 0, W-1, H]: the last W-1 rows up to a page's end, newest first.
    """

    def __init__(self, config: DraftConfig, dtype: torch.dtype) -> None:
        spec, size = config.spec, config.hidden_size
        self.taps, self.size = spec.taps, spec.ring_rows
        self.page_size = spec.groups[0].page_size
        make = {"dtype": dtype, "device": config.device}
        self.rows = torch.zeros(spec.steps, config.num_slots, self.size, size, **make)
        self.checkpoints = torch.zeros(spec.steps, config.num_pages[0], self.taps, size, **make)

    def before(self, depth: int, slots: Tensor, positions: Tensor) -> Tensor:
        """Rows of ``positions`` [n] as the ring holds them; zero below position 0. -> [n, H]."""
        rows = self.rows[depth, slots, positions % self.size]
        return torch.where((positions >= 0)[:, None], rows, 0)

    def write(self, depth: int, slots: Tensor, positions: Tensor, rows: Tensor, keep: Tensor) -> None:
        """Store ``rows`` [n, H] where ``keep`` [n]; the others land in slot 0, which no request reads."""
        self.rows[depth, torch.where(keep, slots, 0), positions % self.size] = rows

    def publish(self, depth: int, locs: Tensor, positions: Tensor, newest: Tensor) -> None:
        """A written row that ends a page publishes the W-1 rows up to it.

        locs [n] in group 0, positions [n], newest [n, W-1, H]. Rows that end no page land on the null page.
        """
        ends_page = (positions + 1) % self.page_size == 0
        self.checkpoints[depth, torch.where(ends_page, locs // self.page_size, 0)] = newest

    def load(self, slot: int, page: int, length: int) -> None:
        """Rows length-(W-1)..length-1 of ``slot``, every depth, from the checkpoint of ``page`` (S21)."""
        for back in range(min(self.taps, length)):
            self.rows[:, slot, (length - 1 - back) % self.size] = self.checkpoints[:, page, back]
