"""Paged keys and values of one cache group's layers, and attention over them (S17)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from frontier_oracle.reference_impl.model.layers import Attend
from frontier_oracle.reference_impl.model.tiles import Rows


class PagedKV:
    """One layer's cache: keys, values [num_pages, page_size, kv_heads, head_size]; page 0 is the null page."""

    def __init__(
        self, num_pages: int, page_size: int, kv_heads: int, head_size: int, dtype: torch.dtype, device: str
    ) -> None:
        shape = (num_pages, page_size, kv_heads, head_size)
        self.keys, self.values = (torch.zeros(shape, dtype=dtype, device=device) for _ in range(2))

    def write(self, locs: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store rows [n, kv_heads, head_size] at their locations [n]; a location occurs once, but for the null page,
        which nobody reads unmasked."""
        self.keys.flatten(0, 1).index_copy_(0, locs, keys)
        self.values.flatten(0, 1).index_copy_(0, locs, values)

    def read(self, tables: Tensor) -> tuple[Tensor, Tensor]:
        """Every cell that the tables [T, cols] reach: two of [T, cols * page_size, kv_heads, head_size]."""
        shape = (tables.shape[0], tables.shape[1] * self.keys.shape[1], *self.keys.shape[2:])
        pages = tables.flatten()
        return self.keys.index_select(0, pages).view(shape), self.values.index_select(0, pages).view(shape)


@dataclass(frozen=True)
class View:
    """What the layers of one cache group share in a call: locs [n] int64, tables [T, cols], seen [T, M, span] bool."""

    rows: Rows
    locs: Tensor
    tables: Tensor
    seen: Tensor

    def attend(self, cache: PagedKV) -> Attend:
        """Write the call's rows, then let each see the cache up to its extent: S17's rings hold all of a call's rows.
        Takes and returns [n, heads, head_size]."""

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            cache.write(self.locs, k, v)
            keys, values = cache.read(self.tables)
            shared = q.shape[1] // k.shape[1]
            tiles, m, span = self.seen.shape
            # The query heads that share a KV head become rows of it: the masked kernels take no grouped heads.
            query = self.rows.spread(q).unflatten(2, (-1, shared)).permute(0, 2, 3, 1, 4).flatten(2, 3)
            mask = self.seen[:, None, None].expand(-1, -1, shared, -1, -1).reshape(tiles, 1, shared * m, span)
            mixed = F.scaled_dot_product_attention(query, keys.transpose(1, 2), values.transpose(1, 2), attn_mask=mask)
            return self.rows.collect(mixed.unflatten(2, (shared, m)).permute(0, 3, 1, 2, 4).flatten(2, 3))

        return attend


def view(rows: Rows, locs: Tensor, page_table: Tensor, page_size: int, window: int | None) -> View:
    """A group's view. locs [n], page_table [bs, cols]. The cell that position p falls on is p mod span, so a cell holds
    the latest position below the request's length that falls on it; none if that is negative."""
    tables = page_table.index_select(0, rows.tile_request)
    span = tables.shape[1] * page_size
    newest = rows.lengths[rows.tile_request][:, None] - 1
    position = (newest - (newest - torch.arange(span, device=locs.device)) % span)[:, None]
    extent = rows.tile_extent[..., None]
    seen = (position >= 0) & (position < extent)
    if window is not None:
        seen = seen & (position >= extent - window)
    return View(rows, locs.long(), tables, seen)
