"""The digest mixes again, in torch: written anew, so that numpy and torch check each other bit for bit.

Everything is int64 two's complement, runs on CPU and CUDA and reads nothing on the host. Functions that end in ``_``
work in place on a scratch tensor of the caller.
"""

from __future__ import annotations

import torch
from torch import Tensor

from frontier_oracle.oracle.digest import FIN1, FIN2, KEYS, SHIFTS, TAG_KEY, TOKEN_SPACE

TAG_POISON = 0x5BE0CD19137E2179
LOGICAL = tuple((1 << (64 - shift)) - 1 for shift in SHIFTS)
BYTES = 8


def wrap(value: int) -> int:
    """A Python int as the int64 that has the same low 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def finalize_(z: Tensor, scratch: Tensor) -> Tensor:
    """The finalizer, in place. ``scratch`` has z's shape and is overwritten."""
    for shift, mask, factor in zip(SHIFTS, LOGICAL, (FIN1, FIN2, None), strict=True):
        torch.bitwise_right_shift(z, shift, out=scratch)
        z.bitwise_xor_(scratch.bitwise_and_(mask))
        if factor is not None:
            z.mul_(factor)
    return z


def mix(tag: int, *args: Tensor | int) -> Tensor:
    """``oracle.digest.mix`` on int64 tensors and ints; at least one argument is a tensor. Arguments broadcast."""
    constant = wrap(tag + sum(arg * key for key, arg in zip(KEYS, args, strict=False) if isinstance(arg, int)))
    total: Tensor | None = None
    for key, arg in zip(KEYS, args, strict=False):
        if isinstance(arg, Tensor):
            total = arg * key if total is None else torch.add(total, arg, alpha=key)
    assert total is not None, "mix needs a tensor: an all-int digest is the oracle's business"
    total = total.add_(constant)
    return finalize_(total, torch.empty_like(total))


def keyed_(cells: Tensor, key_terms: Tensor, scratch: Tensor) -> Tensor:
    """``digest.keyed`` in place of ``cells``; ``key_terms`` = ``key_terms_of(q)`` of the positions read at."""
    return finalize_(cells.mul_(KEYS[1]).add_(key_terms), scratch)


def key_terms_of(positions: Tensor) -> Tensor:
    """The position's share of ``keyed``, so that constant positions are folded once."""
    return positions * KEYS[0] + TAG_KEY


def draft_token(out: Tensor) -> Tensor:
    """int32 token of an output digest. TOKEN_SPACE is a power of two, so the remainder is a mask for every sign."""
    return out.bitwise_and(TOKEN_SPACE - 1).to(torch.int32)


def encode(digest: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """[n] int64 -> [n, width] channels: block b of 8 carries (byte + b) & 255. width is a multiple of 8."""
    low = digest.contiguous().view(torch.uint8).view(-1, 1, BYTES)
    blocks = torch.arange(width // BYTES, dtype=torch.uint8, device=digest.device)
    return (low + blocks[:, None]).view(-1, width).to(dtype)


def decode(channels: Tensor) -> Tensor:
    """[n, width] channels -> [n] int64. Every block is verified.

    A row of zeros (what masked rows yield) is digest 0 at every width. A row that no digest encodes to, torn blocks or
    values that are no bytes, gives a poison: a mix of all its blocks under a tag of its own.
    """
    count = channels.shape[1] // BYTES
    low = channels.nan_to_num(nan=0.0).clamp(0, 255).to(torch.uint8)
    foreign = (low.to(channels.dtype) != channels).sum(1)
    if count == 1:
        first = low.view(torch.int64).squeeze(-1)
        return torch.where(foreign != 0, mix(TAG_POISON, first, foreign), first)
    shifts = torch.arange(count, dtype=torch.uint8, device=channels.device)
    blocks = (low.view(-1, count, BYTES) - shifts[:, None]).view(torch.int64).squeeze(-1)
    first = blocks[:, 0]
    weights = torch.arange(count, device=channels.device) * KEYS[2] + KEYS[3]
    poison = mix(TAG_POISON, (blocks * (weights | 1)).sum(1), foreign)
    empty = (low == 0).all(1)
    torn = (blocks != first[:, None]).any(1) & ~empty
    return torch.where(torn | (foreign != 0), poison, first.masked_fill(empty, 0))
