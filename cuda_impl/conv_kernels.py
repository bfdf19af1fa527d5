"""The short convolution over a ring of rows (S18): taps from the window or the ring, page checkpoints published.

The ring row of position p is p mod R with R >= (W-1) + k, so a window never overwrites a row that it still reads. Row p
of a causal depthwise convolution is the sum over i < W of weight[i] * x[p - i]; rows before position 0 are zero.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

PLAIN_INTS = ("rows",)


@triton.jit
def conv_window_kernel(
    x, locs, seq_lens, slots, weight, ring, ckpt, y,
    K: tl.constexpr, W: tl.constexpr, R: tl.constexpr, PAGE: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A decode window: one program takes all k rows of a request over BLOCK channels, and may write the ring it reads.

    Row j stands at seq_lens - k + j. A row on the null page (loc < PAGE) is masked: it stores nothing and yields zero.
    """
    chunks: tl.constexpr = (H + BLOCK - 1) // BLOCK
    r = tl.program_id(0) // chunks
    row = r.to(tl.int64) * K
    col = (tl.program_id(0) % chunks) * BLOCK + tl.arange(0, BLOCK)
    inside = col < H
    slot = tl.load(slots + r).to(tl.int64)
    start = tl.load(seq_lens + r) - K
    for j in tl.static_range(K):
        loc = tl.load(locs + row + j)
        live = loc >= PAGE
        ends_page = live & ((start + j + 1) % PAGE == 0)
        total = tl.zeros((BLOCK,), tl.float32)
        for i in tl.static_range(W):
            position = start + j - i
            source = ring + (slot * R + (position + R) % R) * H
            exists = live & (position >= 0)
            if j >= i:  # in the window, unless that row is masked: then the ring has it
                own = tl.load(locs + row + j - i) >= PAGE
                source = tl.where(own, x + (row + j - i) * H, source)
            tap = tl.load(source + col, mask=inside & exists, other=0.0)
            total += tap.to(tl.float32) * tl.load(weight + i * H + col, mask=inside, other=0.0).to(tl.float32)
            if i < W - 1:
                kept = ckpt + ((loc // PAGE).to(tl.int64) * (W - 1) + W - 2 - i) * H
                tl.store(kept + col, tap, mask=inside & ends_page)
        tl.store(y + (row + j) * H + col, total.to(y.dtype.element_ty), mask=inside)
    for j in tl.static_range(K):
        live = tl.load(locs + row + j) >= PAGE
        mine = tl.load(x + (row + j) * H + col, mask=inside & live, other=0.0)
        tl.store(ring + (slot * R + (start + j + R) % R) * H + col, mine, mask=inside & live)


@triton.jit
def conv_extend_kernel(
    x, locs, positions, row_request, query_start_loc, slots, weight, ring, ckpt, y,
    W: tl.constexpr, R: tl.constexpr, PAGE: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row of a ragged EXTEND round: taps from its request's rows before it, in front of those from the ring, which
    holds the chunk before or, after a prefix hit, the page's checkpoint. ``conv_ring_kernel`` must follow."""
    chunks: tl.constexpr = (H + BLOCK - 1) // BLOCK
    n = tl.program_id(0) // chunks
    row = n.to(tl.int64)
    col = (tl.program_id(0) % chunks) * BLOCK + tl.arange(0, BLOCK)
    inside = col < H
    r = tl.load(row_request + n)
    first = tl.load(query_start_loc + r)
    slot = tl.load(slots + r).to(tl.int64)
    loc = tl.load(locs + n)
    p = tl.load(positions + n)
    live = loc >= PAGE
    ends_page = live & ((p + 1) % PAGE == 0)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in tl.static_range(W):
        own = (n - i >= first) & (tl.load(locs + n - i, mask=n - i >= first, other=0) >= PAGE)
        source = tl.where(own, x + (row - i) * H, ring + (slot * R + (p - i + R) % R) * H)
        tap = tl.load(source + col, mask=inside & live & (p - i >= 0), other=0.0)
        total += tap.to(tl.float32) * tl.load(weight + i * H + col, mask=inside, other=0.0).to(tl.float32)
        if i < W - 1:
            kept = ckpt + ((loc // PAGE).to(tl.int64) * (W - 1) + W - 2 - i) * H
            tl.store(kept + col, tap, mask=inside & ends_page)
    tl.store(y + row * H + col, total.to(y.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=PLAIN_INTS)
def conv_ring_kernel(
    x, locs, positions, row_request, query_start_loc, slots, ring, rows,
    R: tl.constexpr, PAGE: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Store an EXTEND round's rows in the ring: of each request its last R, since earlier ones would be overwritten."""
    chunks: tl.constexpr = (H + BLOCK - 1) // BLOCK
    n = tl.program_id(0) // chunks
    col = (tl.program_id(0) % chunks) * BLOCK + tl.arange(0, BLOCK)
    r = tl.load(row_request + n)
    slot = tl.load(slots + r).to(tl.int64)
    last = tl.load(query_start_loc + r + 1)
    keep = (tl.load(locs + n) >= PAGE) & (n >= last - R) & (n < rows)
    mine = tl.load(x + n.to(tl.int64) * H + col, mask=(col < H) & keep, other=0.0)
    tl.store(ring + (slot * R + tl.load(positions + n) % R) * H + col, mine, mask=(col < H) & keep)
