"""Digests instead of activations: 64-bit mixes in numpy. The truth every other implementation is compared with.

``mix(tag, a, b, ...)`` = fin(tag + a*K0 + b*K1 + ...) in int64 two's complement, fin being a splitmix-style finalizer
with arithmetic shifts masked to logical ones. Arrays only: numpy scalars warn on overflow. Digests travel as 8 channels
of one byte each, exact in bf16, fp16 and fp32; block b of 8 channels carries (byte + b) & 255.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]

TAG_RING = 0x1F3D5B79A2C4E687
TAG_TAP = 0x2E8B5D1C6F4A3B97
TAG_ENTRY = 0x3C6EF372FE94F82B
TAG_KEY = 0x4A7C15F39CC0D1E5
TAG_OUT = 0x510E527FADE682D1
TAG_TARGET = 0x6A09E667F3BCC909
TAG_HIDDEN = 0x7137449123EF65CD
TAG_TOKEN = 0x0B5C0FBCFEC4D3B2
TAG_SENTINEL = 0x19A4C116B8D2D0C9

KEYS = (
    -0x61C8864680B583EB,
    -0x4B47D0C5A2B8F1D3,
    0x27D4EB2F165667C5,
    -0x3D4D51C2D82B14B1,
    0x165667B19E3779F9,
)
FIN1 = -0x40A7B892E31B1A47
FIN2 = -0x6B2FB644ECCEEE15
SHIFTS = (30, 27, 31)
TOKEN_SPACE = 1 << 30


def _fin(z: I64) -> I64:
    z = z ^ ((z >> SHIFTS[0]) & ((1 << (64 - SHIFTS[0])) - 1))
    z = z * FIN1
    z = z ^ ((z >> SHIFTS[1]) & ((1 << (64 - SHIFTS[1])) - 1))
    z = z * FIN2
    return z ^ ((z >> SHIFTS[2]) & ((1 << (64 - SHIFTS[2])) - 1))


def mix(tag: int, *args: I64 | int) -> I64:
    """Digest of up to five values under ``tag``. Arguments broadcast; returns int64 of at least one dimension."""
    total: I64 = np.full(1, tag, dtype=np.int64)
    for key, arg in zip(KEYS, args, strict=False):
        total = total + np.atleast_1d(np.asarray(arg, dtype=np.int64)) * key
    return _fin(total)


def ring_row(depth: int, token: I64, hidden: I64) -> I64:
    """C(d,p) = mix(d, token, hidden): what the short conv's ring holds for one row."""
    return mix(TAG_RING, depth, token, hidden)


def tap(i: int, row: I64) -> I64:
    """The i-th tap's share (i >= 1) of an entry; a row before position 0 reads as zero."""
    return mix(TAG_TAP, i, row)


def entry(depth: int, position: I64, token: I64, hidden: I64, taps: I64) -> I64:
    """E(d,p): what the KV cell of layer d at p holds. ``taps`` is the wrapping sum of ``tap`` over i = 1..W-1."""
    return mix(TAG_ENTRY, depth, position, token, hidden, taps)


def keyed(position: I64, cell: I64) -> I64:
    """One attended cell's share of an output, keyed by the position it is read at."""
    return mix(TAG_KEY, position, cell)


def output(position: I64, own: I64, attended: I64) -> I64:
    """O(d,p). ``attended`` is the wrapping sum of ``keyed`` over the positions the row sees."""
    return mix(TAG_OUT, position, own, attended)


def draft_token(out: I64) -> NDArray[np.int32]:
    """The token sampled from an output, in [0, 2^30)."""
    return ((out & 0x7FFFFFFFFFFFFFFF) % TOKEN_SPACE).astype(np.int32)


def target_state(before: I64, token: I64) -> I64:
    """The target's chain state after one more token (state before position 0 is 0)."""
    return mix(TAG_TARGET, before, token)


def target_hidden(state: I64, position: I64) -> I64:
    """h(p): depends on tokens 0..p through the chain state."""
    return mix(TAG_HIDDEN, state, position)


def scripted_token(kind: int, request: I64 | int, position: I64 | int, salt: I64 | int = 0) -> NDArray[np.int32]:
    """A token no drafter can draw, in [2^30, 2^31): drafts lie below 2^30."""
    low = mix(TAG_TOKEN, kind, request, position, salt) & (TOKEN_SPACE - 1)
    return (low + TOKEN_SPACE).astype(np.int32)


def sentinel(kind: int, depth: int, cell: I64) -> I64:
    """What a cell holds before anything was written to it: distinct everywhere."""
    return mix(TAG_SENTINEL, kind, depth, cell)


def to_channels(digest: I64, width: int) -> NDArray[np.uint8]:
    """[..., width] bytes of a digest, little endian, block b shifted by b. ``width`` is a multiple of 8."""
    low = np.ascontiguousarray(digest)[..., None].view(np.uint8)
    blocks = np.arange(width // 8, dtype=np.uint8)
    tiled = low[..., None, :] + blocks[:, None]
    return tiled.reshape(*digest.shape, width)
