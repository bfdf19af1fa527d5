"""The ragged layout of an EXTEND round (S12..S14): which rows run, where each takes its token and hidden from.

A request's rows are its chunk s..s+n-1, with a few rows before s in front of it that are run again from the stash.
All of this follows from host values (prefix and chunk lengths), as schedulers have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

PLACEHOLDER = -1


@dataclass(frozen=True)
class ChunkLayout:
    """N rows of bs requests, each request's rows back to back; C = s+n is where a chunk ends.

    prefix_lens [bs], request [N], ends [bs] (a chunk's last entry among the chunk rows alone) are int64 indices;
    positions [N] and query_start_loc [bs+1] int32. Sources are rows of [bs stashes of k-1 ‖ all chunk rows]:
    source [N] per row, tail_source [bs, k-1] for positions C-k+1..C-1, the next stash (S14).
    The id buffer holds each request's rows and then ``steps`` more tokens: row_at [N] is a row's entry at depth 0,
    last_at [bs] the entry of a request's last row, which holds the token at position C.
    """

    prefix_lens: Tensor
    request: Tensor
    positions: Tensor
    query_start_loc: Tensor
    ends: Tensor
    source: Tensor
    tail_source: Tensor
    row_at: Tensor
    last_at: Tensor
    buffer_len: int

    def to(self, device: str) -> ChunkLayout:
        moved = {name: v.to(device) if isinstance(v, Tensor) else v for name, v in vars(self).items()}
        return ChunkLayout(**moved)


def chunk_layout(
    prefix_lens: Sequence[int], extend_lens: Sequence[int], rerun_lens: Sequence[int], k: int, steps: int
) -> ChunkLayout:
    """Lay out chunks s..s+n-1 with ``rerun_lens`` rows in front of each (at most k-1, and at most s)."""
    prefix, extend, rerun = (torch.tensor(lens, dtype=torch.int64) for lens in (prefix_lens, extend_lens, rerun_lens))
    bs = len(prefix)
    each = torch.arange(bs)
    rows = rerun + extend
    row_ends, chunk_ends = rows.cumsum(0), extend.cumsum(0)
    request = torch.repeat_interleave(each, rows)
    within = torch.arange(len(request)) - (row_ends - rows)[request]
    positions = (prefix - rerun)[request] + within

    def source_of(request: Tensor, positions: Tensor) -> Tensor:
        """Stash entry p-(s-k+1) of the request's own stash below s, else its chunk row p-s."""
        after = positions - prefix[request]
        in_stash = request * (k - 1) + (k - 1) + after
        in_chunk = bs * (k - 1) + (chunk_ends - extend)[request] + after
        return torch.where(after < 0, in_stash, in_chunk)

    tail = (prefix + extend)[:, None] + torch.arange(1 - k, 0)
    return ChunkLayout(
        prefix_lens=prefix,
        request=request,
        positions=positions.int(),
        query_start_loc=torch.cat([torch.zeros(1, dtype=torch.int64), row_ends]).int(),
        ends=chunk_ends - 1,
        source=source_of(request, positions),
        tail_source=source_of(each[:, None], tail),
        row_at=torch.arange(len(request)) + request * steps,
        last_at=row_ends - 1 + each * steps,
        buffer_len=len(request) + bs * steps,
    )


def shift_one(input_ids: Tensor, ends: Tensor) -> Tensor:
    """The shift-1 ids of a chunk batch: row s+i gets token s+i+1, a chunk's last row the placeholder -1 (S13)."""
    shifted = torch.roll(input_ids, -1)
    shifted[ends] = PLACEHOLDER
    return shifted
