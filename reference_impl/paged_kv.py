"""Paged keys and values of every depth: several cache groups, rings of pages for sliding windows (S17)."""

from __future__ import annotations

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DraftConfig
from frontier_oracle.reference_impl.pages import locations


class PagedKV:
    """One layer per depth. keys[d], values[d] [num_pages_g * page_g, heads, head_size]; page 0 is the null page."""

    def __init__(self, config: DraftConfig, heads: int, dtype: torch.dtype) -> None:
        spec = config.spec
        self.spec = spec
        groups = [spec.group_of(d) for d in range(spec.steps)]
        shape = (heads, config.hidden_size // heads)
        self.keys, self.values = (
            [
                torch.zeros(config.num_pages[g] * spec.groups[g].page_size, *shape, dtype=dtype, device=config.device)
                for g in groups
            ]
            for _ in range(2)
        )

    def read(self, depth: int, page_table: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """All cells that a request's table reaches, when ``lengths`` [bs] positions have been written.

        page_table [bs, cols] of the depth's group. Returns keys and values [bs, span, heads, head_size] and the
        position of each cell [bs, span]: the latest one below the length that falls on it, negative if there is none.
        """
        page_size = self.spec.groups[self.spec.group_of(depth)].page_size
        bs, cols = page_table.shape
        span = cols * page_size
        cells = torch.arange(span, device=page_table.device)
        request = torch.arange(bs, device=page_table.device)[:, None]
        locs = locations(page_table, page_size, request, cells.expand(bs, span))
        newest = lengths.long()[:, None] - 1
        return self.keys[depth][locs], self.values[depth][locs], newest - (newest - cells) % span

    def write(self, depth: int, locs: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store rows at their locations [n]; a location occurs once, but for those on the null page."""
        self.keys[depth][locs] = keys
        self.values[depth][locs] = values
