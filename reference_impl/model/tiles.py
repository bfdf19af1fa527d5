"""The rows of one call, and their tiling for attention, worked out on the device: static shapes, no host value.

Attention gathers a request's whole cache. Doing that once a row would cost the most, so rows are laid out in tiles,
each of one request: exactly one a request where every request has as many rows, else fixed tiles whose number is
bounded by shapes alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

TILE = 16


@dataclass(frozen=True)
class Rows:
    """n rows of bs requests in T tiles of M places. All int64.

    request [n]: the batch row. extent [n]: positions a row sees, its own included (a design may pass fewer than 1).
    lengths [bs]: extent of a request's last row, at least 1. tile_request [T]; place [n]: tile * M + place in it;
    tile_extent [T, M]: at least 1, and places without a row see what the last row sees, so that no softmax is empty.
    """

    request: Tensor
    extent: Tensor
    lengths: Tensor
    tile_request: Tensor
    place: Tensor
    tile_extent: Tensor

    def spread(self, x: Tensor) -> Tensor:
        """[n, ...] -> [T, M, ...], zero where there is no row."""
        out = x.new_zeros(self.tile_extent.numel(), *x.shape[1:])
        return out.index_copy(0, self.place, x).unflatten(0, self.tile_extent.shape)

    def collect(self, x: Tensor) -> Tensor:
        """[T, M, ...] -> [n, ...]."""
        return x.flatten(0, 1).index_select(0, self.place)


class EqualRows(Rows):
    """A tile a request, every place a row: laying out costs nothing."""

    def spread(self, x: Tensor) -> Tensor:
        return x.unflatten(0, self.tile_extent.shape)

    def collect(self, x: Tensor) -> Tensor:
        return x.flatten(0, 1)


def equal_rows(m: int, seq_lens: Tensor) -> Rows:
    """m rows of each request. seq_lens [bs]."""
    lengths = seq_lens.long().clamp(min=1)
    bs, device = len(lengths), lengths.device
    back = torch.arange(m - 1, -1, -1, device=device)
    extent = seq_lens.long()[:, None] - back
    tile = torch.arange(bs, device=device)
    request = tile.repeat_interleave(m, output_size=bs * m)
    place = torch.arange(bs * m, device=device)
    return EqualRows(request, extent.flatten(), lengths, tile, place, extent.clamp(min=1))


def ragged_rows(n: int, query_start_loc: Tensor, seq_lens: Tensor) -> Rows:
    """Rows query_start_loc[r]..query_start_loc[r+1]-1 of request r; n rows in all. seq_lens [bs].

    With m_r rows each, sum of ceil(m_r / M) tiles are used, at most (n + bs (M-1)) // M; the others repeat the last
    request's cache and hold no row."""
    starts, ends = query_start_loc[:-1].long(), query_start_loc[1:].long()
    bs, device = len(ends), ends.device
    index = torch.arange(n, device=device)
    request = torch.searchsorted(ends, index, right=True)
    extent = seq_lens.long()[request] - (ends[request] - 1 - index)
    lengths = seq_lens.long().clamp(min=1)

    tiles = min(n, (n + bs * (TILE - 1)) // TILE)
    last_tile = ((ends - starts + TILE - 1) // TILE).cumsum(0)
    tile_request = torch.searchsorted(last_tile, torch.arange(tiles, device=device), right=True).clamp(max=bs - 1)
    first_tile = torch.cat([last_tile.new_zeros(1), last_tile[:-1]])
    place = first_tile[request] * TILE + index - starts[request]
    tile_extent = lengths[tile_request][:, None].repeat(1, TILE).flatten().index_copy(0, place, extent.clamp(min=1))
    return Rows(request, extent, lengths, tile_request, place, tile_extent.view(tiles, TILE))
