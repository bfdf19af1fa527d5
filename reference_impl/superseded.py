"""Primitives that the frontier's window replaced, kept as checked equivalents (S11).

Same arguments and shapes as the window functions; each does with branches or strides what the window does with one
gather or one slice. tests/test_superseded.py holds them equal for all accept lengths.
"""

from __future__ import annotations

import torch
from torch import Tensor

from frontier_oracle.reference_impl.window import gather_history


def regather_stash(stash: Tensor, fresh: Tensor, accept_lengths: Tensor) -> Tensor:
    """Accept-indexed re-gather: the next stash is the last k-1 rows of [stash ‖ fresh[:a]].

    stash [bs, k-1, ...], fresh [bs, k, ...] (verify tokens or hiddens), accept_lengths [bs] -> [bs, k-1, ...].
    Equals the tail [:, 1:] of the frontier's depth-0 window (S8).
    """
    i = torch.arange(stash.shape[1], device=stash.device)
    return gather_history(stash, fresh, accept_lengths.long()[:, None] + i)


def splice_ids(stash: Tensor, verify: Tensor, drafts: Tensor, accept_lengths: Tensor, depth: int) -> Tensor:
    """Three-source splice of one depth's ids: committed before the round, committed by it, drafted in it.

    Window row j of depth d needs the token at F'-k+j+d+1, which is number i = a-k+j+d after F+1: v[i] if 0 <= i < a,
    stash token i+k-1 below, draft i-a+1 above. stash [bs, k-1], verify [bs, k], drafts [bs, >= depth] -> [bs, k].
    """
    k = verify.shape[1]
    accept = accept_lengths.long()[:, None]
    i = accept - k + depth + torch.arange(k, device=verify.device)
    ids = torch.where(
        i < 0,
        stash.gather(1, (i + k - 1).clamp(0, k - 2)),
        verify.gather(1, i.clamp(0, k - 1)),
    )
    if depth == 0:
        return ids
    return torch.where(i < accept, ids, drafts.gather(1, (i - accept).clamp(0, drafts.shape[1] - 1)))


def strided_ids(scratch: Tensor, bs: int, k: int, steps: int, depth: int) -> Tensor:
    """Strided slices of one scratch id buffer: depth d's ids without a copy. scratch [>= bs*(k+steps)] -> [bs, k].

    Request r's k window ids and then its drafts stand at r*(k+steps). Equals ``buffer[:, d:d+k]`` (S7).
    """
    return scratch.as_strided((bs, k), (k + steps, 1), scratch.storage_offset() + depth)


def roll_ids(ids: Tensor, drafts: Tensor) -> Tensor:
    """Depth d+1's ids from depth d's: rolled one left, the draft [bs] appended (S7). ids [bs, k] -> [bs, k]."""
    return torch.cat([ids[:, 1:], drafts[:, None]], dim=1)
