"""Two kernels around a real MTP head: its input out of the id rows, and a sampler that stores the draft in them."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def head_input_kernel(
    ids, id_stride, embedding, hidden, out, M: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """One row: [rms_norm(embedding of its id) | rms_norm(its hidden)]. ids [bs, M] may be a strided view."""
    n = tl.program_id(0)
    token = tl.load(ids + (n // M).to(tl.int64) * id_stride + n % M).to(tl.int64)
    col = tl.arange(0, BLOCK)
    inside = col < H
    e = tl.load(embedding + token * H + col, mask=inside, other=0.0).to(tl.float32)
    h = tl.load(hidden + n.to(tl.int64) * H + col, mask=inside, other=0.0).to(tl.float32)
    e *= tl.rsqrt(tl.sum(e * e) / H + 1e-6)
    h *= tl.rsqrt(tl.sum(h * h) / H + 1e-6)
    row = out + n.to(tl.int64) * 2 * H
    tl.store(row + col, e.to(out.dtype.element_ty), mask=inside)
    tl.store(row + H + col, h.to(out.dtype.element_ty), mask=inside)


@triton.jit
def argmax_kernel(logits, draft, draft_stride, V: tl.constexpr, BLOCK: tl.constexpr):
    """Greedy sampling of one request: the lowest id of the largest logit, stored where the next depth reads it."""
    r = tl.program_id(0)
    best = tl.full((), float("-inf"), tl.float32)
    token = tl.full((), 0, tl.int32)
    for start in tl.static_range(0, V, BLOCK):
        col = start + tl.arange(0, BLOCK)
        row = tl.load(logits + r.to(tl.int64) * V + col, mask=col < V, other=float("-inf")).to(tl.float32)
        top, index = tl.max(row, 0, return_indices=True)
        token = tl.where(top > best, start + index, token)
        best = tl.maximum(best, top)
    tl.store(draft + r.to(tl.int64) * draft_stride, token)
