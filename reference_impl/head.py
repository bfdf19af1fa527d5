"""A small real draft head on the plug-in contract: what the drafters' indices are for.

Depth d, at a row: project [norm(embedding) ‖ norm(hidden)], short causal convolution with residual, attention over
paged KV with rotary positions, MLP. The output is what a chain head's next depth consumes; the shared output head
turns the sampled row's into a draft, greedily. Weights are random, from a seed; every depth has its own block.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from frontier_oracle.oracle.contract import DraftConfig, ForwardInputs
from frontier_oracle.reference_impl.conv_ring import ConvRing
from frontier_oracle.reference_impl.paged_kv import PagedKV

ROTARY_BASE = 10000.0


@dataclass(frozen=True)
class Rows:
    """The rows of one call, worked out on the device. All [n] but ``cached`` [bs].

    request: the batch row; index: 0..n-1; extent: positions a row sees, its own included; valid: not masked;
    first: the request's first valid row; cached: positions of a request that only the cache holds, those before it.
    """

    request: Tensor
    index: Tensor
    extent: Tensor
    valid: Tensor
    first: Tensor
    cached: Tensor


def rows_of(inputs: ForwardInputs, page_sizes: list[int]) -> Rows:
    """Work out the rows of a call. A row is masked if its location is on the null page in every group."""
    n = len(inputs.input_ids)
    ends = inputs.query_start_loc[1:].long()
    index = torch.arange(n, device=ends.device)
    request = torch.searchsorted(ends, index, right=True)
    locs = zip(inputs.out_cache_loc, page_sizes, strict=True)
    valid = torch.stack([loc >= page_size for loc, page_size in locs]).any(0)
    count = torch.zeros_like(ends).index_add_(0, request, valid.long())
    extent = inputs.seq_lens.long()[request] - (ends[request] - 1 - index)
    return Rows(request, index, extent, valid, (ends - count)[request], inputs.seq_lens.long() - count)


def rms_norm(x: Tensor) -> Tensor:
    """Unit root mean square over the last dimension."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def rotary(x: Tensor, positions: Tensor) -> Tensor:
    """Rotate pairs of channels by position. x [n, heads, head_size] with an even head_size, positions [n]."""
    half = x.shape[-1] // 2
    rate = ROTARY_BASE ** (-torch.arange(half, device=x.device, dtype=x.dtype) / half)
    angle = (positions.to(x.dtype)[:, None] * rate)[:, None, :]
    low, high = x[..., :half], x[..., half:]
    return torch.cat([low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()], dim=-1)


class DraftHead:
    """A DraftModel of ``config.spec.steps`` blocks with its own KV, conv rings and checkpoints.

    config.hidden_size is a multiple of 2 * heads. Token ids lie in [0, vocab); masked rows may hold any such id.
    """

    def __init__(self, config: DraftConfig, vocab: int = 64, heads: int = 2, seed: int = 0) -> None:
        self.spec, self.heads = config.spec, heads
        self.page_sizes = [group.page_size for group in config.spec.groups]
        size, dtype = config.hidden_size, getattr(torch, config.dtype)
        generator = torch.Generator().manual_seed(seed)

        def weight(*shape: int) -> Tensor:
            drawn = torch.randn(*shape, generator=generator, dtype=torch.float64) * shape[-1] ** -0.5
            return drawn.to(config.device, dtype)

        self.embedding, self.output_head = weight(vocab, size), weight(vocab, size)
        self.blocks = [
            {
                "project": weight(size, 2 * size),
                "conv": weight(config.spec.conv_width, size),
                "qkv": weight(3 * size, size),
                "attention_out": weight(size, size),
                "up": weight(4 * size, size),
                "down": weight(size, 4 * size),
            }
            for _ in range(config.spec.steps)
        ]
        self.kv = PagedKV(config, heads, dtype)
        self.ring = ConvRing(config, dtype)

    def forward(self, inputs: ForwardInputs) -> tuple[Tensor, Tensor]:
        """One depth over n rows. Returns outputs [n, H], zero for masked rows, and drafts [bs] int32."""
        rows = rows_of(inputs, self.page_sizes)
        block = self.blocks[inputs.depth]
        embedding = rms_norm(self.embedding[inputs.input_ids])
        x = torch.cat([embedding, rms_norm(inputs.hidden)], dim=-1) @ block["project"].T
        x = x + self.short_conv(inputs, rows, x)
        x = x + self.attention(inputs, rows, x)
        x = x + F.silu(rms_norm(x) @ block["up"].T) @ block["down"].T
        x = torch.where(rows.valid[:, None], x, 0)
        logits = rms_norm(x[inputs.sample_rows]) @ self.output_head.T
        return x, logits.argmax(-1).int()

    def load_conv_state(self, slot: int, page: int, length: int) -> None:
        """Conv taps of a prefix hit, from group 0's checkpoint (S21)."""
        self.ring.load(slot, page, length)

    def short_conv(self, inputs: ForwardInputs, rows: Rows, x: Tensor) -> Tensor:
        """Depthwise causal convolution over the last W rows; those before this call come from the ring (S18)."""
        slots = inputs.conv_slots.long()[rows.request]
        position = rows.extent - 1
        history = [x]
        for back in range(1, self.spec.conv_width):
            in_call = rows.index - back >= rows.first
            ring_row = self.ring.before(inputs.depth, slots, position - back)
            history.append(torch.where(in_call[:, None], x[(rows.index - back).clamp(min=0)], ring_row))
        newest = torch.stack(history, dim=1)

        keep = rows.valid & self.survives(inputs, rows, self.spec.ring_rows)
        self.ring.write(inputs.depth, slots, position, x, keep)
        if self.spec.taps:
            self.ring.publish(inputs.depth, inputs.out_cache_loc[0], position, newest[:, : self.spec.taps])
        return torch.einsum("nwh,wh->nh", newest, self.blocks[inputs.depth]["conv"])

    def attention(self, inputs: ForwardInputs, rows: Rows, x: Tensor) -> Tensor:
        """Rows see the cache before this call and the call's own rows up to themselves, within the window."""
        depth, group = inputs.depth, self.spec.group_of(inputs.depth)
        qkv = (rms_norm(x) @ self.blocks[depth]["qkv"].T).unflatten(-1, (3, self.heads, -1))
        query, key, value = rotary(qkv[:, 0], inputs.positions), rotary(qkv[:, 1], inputs.positions), qkv[:, 2]
        old_key, old_value, old_position = self.kv.read(depth, inputs.page_table[group], rows.cached)

        window = self.spec.window_of(depth)
        oldest = torch.zeros_like(rows.extent) if window is None else rows.extent - window
        old_position = old_position[rows.request]
        see_old = (old_position >= 0) & (old_position >= oldest[:, None])
        same = rows.request[:, None] == rows.request
        live = same & rows.valid & (rows.index <= rows.index[:, None]) & (rows.extent - 1 >= oldest[:, None])
        see_new = live | torch.eye(len(x), dtype=torch.bool, device=x.device)

        scores = torch.cat(
            [
                torch.einsum("nhe,nche->nhc", query, old_key[rows.request]),
                torch.einsum("nhe,mhe->nhm", query, key),
            ],
            dim=-1,
        )
        seen = torch.cat([see_old, see_new], dim=-1)[:, None, :]
        weights = (scores * query.shape[-1] ** -0.5).masked_fill(~seen, -torch.inf).softmax(-1)
        span = old_key.shape[1]
        mixed = torch.einsum("nhc,nche->nhe", weights[..., :span], old_value[rows.request])
        mixed = mixed + torch.einsum("nhm,mhe->nhe", weights[..., span:], value)

        keep = rows.valid & self.survives(inputs, rows, span)
        self.kv.write(depth, torch.where(keep, inputs.out_cache_loc[group], 0), key, value)
        return mixed.flatten(1) @ self.blocks[depth]["attention_out"].T

    @staticmethod
    def survives(inputs: ForwardInputs, rows: Rows, span: int) -> Tensor:
        """Rows that a ring of ``span`` rows still holds after the call: a long chunk overwrites its own first ones."""
        return rows.extent > inputs.seq_lens.long()[rows.request] - span
