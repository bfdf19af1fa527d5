"""Real MTP heads on paged KV, for timing a round: attention, short conv, MLP, and a head over the vocabulary.

Attention is torch's scaled_dot_product_attention over KV gathered through the page table: no paged kernel is needed,
but the gather reads and writes the KV once more. The heads read their ids through a strided view and their sampler
stores the draft where the next depth reads it, so a depth costs the books nothing.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from frontier_oracle.cuda_impl import head_kernels
from frontier_oracle.cuda_impl.buffers import torch_dtype
from frontier_oracle.cuda_impl.conv import ShortConv
from frontier_oracle.cuda_impl.launch import launch
from frontier_oracle.oracle.contract import DraftConfig, ForwardInputs

HEAD_SIZE = 128


class MtpHead:
    """One depth: a transformer block with weights, KV pool and conv state of its own. n = bs * m rows."""

    def __init__(self, config: DraftConfig, kv_heads: int, intermediate: int, head_size: int = HEAD_SIZE) -> None:
        h, options = config.hidden_size, {"dtype": torch_dtype(config), "device": config.device}
        self.config, self.kv_heads, self.head_size = config, kv_heads, head_size
        self.heads = h // head_size
        kv = kv_heads * head_size

        def weight(rows: int, cols: int) -> Tensor:
            return torch.randn(rows, cols, **options) / cols**0.5

        self.w_in, self.w_qkv, self.w_out = weight(h, 2 * h), weight(h + 2 * kv, h), weight(h, h)
        self.w_up, self.w_down = weight(2 * intermediate, h), weight(h, intermediate)
        self.conv = ShortConv(config, weight(config.spec.conv_width, h))
        group = config.spec.groups[0]
        self.pool = torch.zeros(config.num_pages[0], group.page_size, 2, kv, **options)

    def weight_bytes(self) -> int:
        """Bytes of the weights that every call reads."""
        weights = (self.w_in, self.w_qkv, self.w_out, self.w_up, self.w_down)
        return sum(w.numel() * w.element_size() for w in weights)

    def block(self, x: Tensor, inputs: ForwardInputs) -> Tensor:
        """[n, H] from the normed and joined inputs [n, 2H]; masked rows are zero."""
        h, loc = self.config.hidden_size, inputs.out_cache_loc[0]
        x = x @ self.w_in.T
        x = x + self._attention(F.rms_norm(x, (h,)), inputs) @ self.w_out.T
        x = x + self.conv.window(F.rms_norm(x, (h,)), loc, inputs.seq_lens, inputs.conv_slots)
        gate, up = (F.rms_norm(x, (h,)) @ self.w_up.T).chunk(2, -1)
        x = x + (F.silu(gate) * up) @ self.w_down.T
        return x.masked_fill((loc < self.config.spec.groups[0].page_size)[:, None], 0)

    def _attention(self, x: Tensor, inputs: ForwardInputs) -> Tensor:
        kv, bs = self.kv_heads * self.head_size, inputs.seq_lens.shape[0]
        m = x.shape[0] // bs
        q, keys_values = (x @ self.w_qkv.T).split([self.config.hidden_size, 2 * kv], -1)
        self.pool.view(-1, 2, kv).index_copy_(0, inputs.out_cache_loc[0].long(), keys_values.view(-1, 2, kv))
        cached = self.pool[inputs.page_table[0]].view(bs, -1, 2, self.kv_heads, self.head_size)
        keys, values = cached.permute(2, 0, 3, 1, 4)
        extent = inputs.seq_lens[:, None] - torch.arange(m - 1, -1, -1, device=x.device)
        seen = torch.arange(cached.shape[1], device=x.device) < extent.clamp(min=1)[:, :, None]
        # The query heads that share a KV head become rows of it: the masked kernels take no grouped heads.
        shared = self.heads // self.kv_heads
        q = q.view(bs, m, self.kv_heads, shared, self.head_size).permute(0, 2, 3, 1, 4).flatten(2, 3)
        mask = seen[:, None].expand(-1, shared, -1, -1).reshape(bs, 1, shared * m, -1)
        out = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return out.unflatten(2, (shared, m)).permute(0, 3, 1, 2, 4).reshape(x.shape[0], -1)


class MtpHeads:
    """Heads of all depths over one vocabulary. ``forward_into`` is how cuda_impl calls them (InPlaceModel)."""

    def __init__(
        self, config: DraftConfig, vocabulary: int, kv_heads: int, intermediate: int, head_size: int = HEAD_SIZE
    ):
        options = {"dtype": torch_dtype(config), "device": config.device}
        self.config, self.vocabulary = config, vocabulary
        self.embedding = torch.randn(vocabulary, config.hidden_size, **options)
        self.depths = [MtpHead(config, kv_heads, intermediate, head_size) for _ in range(config.spec.steps)]

    def forward_into(self, inputs: ForwardInputs, draft: Tensor) -> Tensor:
        """Run one depth: ids [bs, m] strided, draft [bs] int32 strided, written. Returns O [n, H]."""
        h, bs = self.config.hidden_size, inputs.seq_lens.shape[0]
        ids, n = inputs.input_ids, inputs.positions.shape[0]
        x = torch.empty(n, 2 * h, dtype=inputs.hidden.dtype, device=inputs.hidden.device)
        source = (ids, ids.stride(0), self.embedding, inputs.hidden, x)
        launch(head_kernels.head_input_kernel, n, *source, M=n // bs, H=h, BLOCK=1 << (h - 1).bit_length())
        out = self.depths[inputs.depth].block(x, inputs)
        sampled = F.rms_norm(out.index_select(0, inputs.sample_rows), (h,))
        logits, block = sampled @ self.embedding.T, min(8192, 1 << (self.vocabulary - 1).bit_length())
        launch(head_kernels.argmax_kernel, bs, logits, draft, draft.stride(0), V=self.vocabulary, BLOCK=block)
        return out

    def forward(self, inputs: ForwardInputs) -> tuple[Tensor, Tensor]:
        """contract.DraftModel.forward, decode rounds only: rows of equal number per request."""
        bs = inputs.seq_lens.shape[0]
        draft = torch.empty(bs, dtype=torch.int32, device=inputs.hidden.device)
        return self.forward_into(_rows_of(inputs, bs), draft), draft

    def load_conv_state(self, slot: int, page: int, length: int) -> None:
        """contract.DraftModel.load_conv_state."""
        for head in self.depths:
            head.conv.load_state(slot, page, length)


def _rows_of(inputs: ForwardInputs, bs: int) -> ForwardInputs:
    values = {name: getattr(inputs, name) for name in inputs.__dataclass_fields__}
    return ForwardInputs(**values | {"input_ids": inputs.input_ids.view(bs, -1)})
