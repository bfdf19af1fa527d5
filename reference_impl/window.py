"""The decode window: k rows that end at the new frontier F' = F + a (S5..S9).

History is what the round can look back on: the stash's k-1 rows, then the k verify rows. History row c stands at
position F-k+1+c, so window row j, at position F'-k+j, is history row a-1+j. Everything here is a gather by an index
that is computed from accept lengths on the device: no host value, no data-dependent shape.
"""

from __future__ import annotations

import torch
from torch import Tensor


def source_rows(accept_lengths: Tensor, k: int) -> Tensor:
    """History row a-1+j of every window row j (S5, S6). accept_lengths [bs] -> [bs, k] int64."""
    j = torch.arange(k, device=accept_lengths.device)
    return accept_lengths.long()[:, None] - 1 + j


def gather_history(stash: Tensor, verify: Tensor, source: Tensor) -> Tensor:
    """Rows ``source`` [bs, m] of [stash ‖ verify]. stash [bs, k-1, ...], verify [bs, k, ...] -> [bs, m, ...]."""
    history = torch.cat([stash, verify], dim=1)
    request = torch.arange(len(source), device=source.device)
    return history[request[:, None], source]


def positions(frontier: Tensor, k: int) -> Tensor:
    """Position F'-k+j of every window row (S9). frontier [bs] int32 -> [bs, k] int32; below 0 for short prompts."""
    return frontier[:, None] - k + torch.arange(k, device=frontier.device, dtype=frontier.dtype)


def within_stash(source: Tensor, valid_lens: Tensor, k: int) -> Tensor:
    """Whether a window row's source holds: a verify row, or one of the stash's last ``valid_lens`` rows (S19)."""
    return source >= k - 1 - valid_lens.long()[:, None]


def query_start_loc(bs: int, k: int, device: torch.device) -> Tensor:
    """Row offsets of bs windows of k rows: [bs+1] int32."""
    return torch.arange(bs + 1, device=device, dtype=torch.int32) * k


def sample_rows(bs: int, k: int, device: torch.device) -> Tensor:
    """The sampled row is always the window's last, r*k + k-1, whatever was accepted (S9). [bs] int32."""
    return torch.arange(bs, device=device, dtype=torch.int32) * k + k - 1


def id_buffer(window_ids: Tensor, steps: int) -> Tensor:
    """Depth 0's ids with room for the drafts: [bs, k+steps]. Draft d+1 goes to column k+d (S7)."""
    bs, k = window_ids.shape
    buffer = window_ids.new_zeros(bs, k + steps)
    buffer[:, :k] = window_ids
    return buffer


def mask_rows(values: Tensor, valid: Tensor) -> Tensor:
    """``values`` where ``valid``, zero elsewhere. valid: the leading shape of values."""
    return torch.where(valid.reshape(*valid.shape, *[1] * (values.ndim - valid.ndim)), values, 0)
