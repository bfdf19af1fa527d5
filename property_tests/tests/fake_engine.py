"""A package of our own in the shape of TokenSpeed's, small: what the adapters' tests load where no checkout is."""

from __future__ import annotations

from pathlib import Path

BASE = """
from tokenspeed.runtime.execution.model_runner import ModelRunner


class BaseDrafter:
    def __init__(self, spec_num_tokens, spec_num_steps, draft_model_runner: ModelRunner, cache_view=None,
                 attn_backend=None, runtime_states=None, input_buffers=None):
        self.k, self.steps, self.runner, self.view = spec_num_tokens, spec_num_steps, draft_model_runner, cache_view
        self.backend, self.states, self.buffers = attn_backend, runtime_states, input_buffers
        if draft_model_runner.mapping.attn.dp_size > 1:
            raise NotImplementedError("one rank only")
"""

MTP = """
from dataclasses import dataclass

import torch
from tokenspeed_kernel.ops.conv import seq_idx_from_cu_seqlens

from tokenspeed.runtime.execution.context import ForwardContext
from tokenspeed.runtime.execution.drafter.base import BaseDrafter
from tokenspeed.runtime.utils.nvtx import nvtx_range


@dataclass
class Rows:
    ids: torch.Tensor
    hidden: torch.Tensor
    positions: torch.Tensor
    locations: torch.Tensor
    last: torch.Tensor


class Mtp(BaseDrafter):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        slots, config = len(self.states.valid_cache_lengths), self.runner.model_config
        shape, device = (slots, self.k - 1), self.runner.device
        self._stash_tokens_buf = torch.zeros(shape, dtype=torch.int32, device=device)
        self._stash_hidden_buf = torch.zeros(*shape, config.hidden_size, dtype=config.dtype, device=device)

    @nvtx_range("run")
    def run(self, base_ctx, logits_output, output_tokens, accept_lengths):
        slots = self.buffers.req_pool_indices_buf
        before = self._stash_tokens_buf[slots], self._stash_hidden_buf[slots]
        if base_ctx.num_extends:
            rows, drafts = self.chunk(slots, before, logits_output.hidden_states, output_tokens)
        else:
            rows, drafts = self.window(slots, before, logits_output.hidden_states, output_tokens, accept_lengths)
        for depth in range(self.steps):
            ctx = ForwardContext(bs=len(slots), gather_ids=rows.last)
            out = self.runner.forward(ctx=ctx, input_ids=rows.ids, positions=rows.positions,
                                      out_cache_loc=rows.locations, captured_hidden_states=rows.hidden,
                                      spec_step_idx=depth)
            rows.hidden, rows.ids = out.hidden_states, rows.ids.roll(-1)
            rows.ids[rows.last] = out.next_token_ids
            drafts = torch.cat([drafts, out.next_token_ids[:, None]], dim=1)
        return drafts

    def window(self, slots, before, hidden, tokens, accept):
        bs, k = len(slots), self.k
        first = accept[:, None] - 1 + torch.arange(k, device=accept.device)
        ids = torch.cat([before[0], tokens.view(bs, k)], dim=1).gather(1, first)
        hiddens = torch.cat([before[1], hidden.view(bs, k, -1)], dim=1)[torch.arange(bs)[:, None], first]
        frontier = self.buffers.positions_buf.view(bs, k)[:, 0] + accept
        start = (frontier - k).clamp(min=0)
        locations = torch.empty(bs * k, dtype=torch.int32, device=accept.device)
        self.view.out_cache_loc_uniform(out=locations, cache_start=start, num_tokens=k)
        self.backend.update_draft_forward_metadata(frontier.int())
        self._stash_tokens_buf[slots], self._stash_hidden_buf[slots] = ids[:, 1:], hiddens[:, 1:]
        positions = (frontier[:, None] - k + torch.arange(k, device=accept.device)).clamp(min=0)
        last = torch.arange(bs, device=accept.device) * k + k - 1
        rows = Rows(ids.flatten(), hiddens.flatten(0, 1), positions.flatten(), locations, last)
        return rows, tokens.view(bs, k).gather(1, accept[:, None].long() - 1)

    def chunk(self, slots, before, hidden, sampled):
        ids, lengths = self.buffers.shifted_prefill_ids_buf, self.buffers.input_lengths_buf
        ends = lengths.cumsum(0)
        ids[ends - 1] = torch.where(ids[ends - 1] == -1, sampled, ids[ends - 1])
        request = seq_idx_from_cu_seqlens(torch.nn.functional.pad(ends, (1, 0)), len(ids))
        for r, slot in enumerate(slots.tolist()):
            mine = request == r
            self._stash_tokens_buf[slot] = torch.cat([before[0][r], ids[mine]])[1 - self.k:]
            self._stash_hidden_buf[slot] = torch.cat([before[1][r], hidden[mine]])[1 - self.k:]
        rows = Rows(ids.clone(), hidden, self.buffers.positions_buf, self.buffers.out_cache_loc_buf, ends - 1)
        return rows, sampled[:, None]
"""

EAGLE = """
import torch

from tokenspeed.runtime.execution.context import ForwardContext
from tokenspeed.runtime.execution.drafter.base import BaseDrafter


class Eagle(BaseDrafter):
    def run(self, base_ctx, logits_output, output_tokens, accept_lengths):
        b, bs = self.buffers, base_ctx.bs
        if base_ctx.num_extends:
            ids, last, start = b.shifted_prefill_ids_buf, b.input_lengths_buf.cumsum(0) - 1, b.seq_lens_buf.clone()
            ids[last] = torch.where(ids[last] == -1, output_tokens, ids[last])
            first = output_tokens
        else:
            ids, last = output_tokens, torch.arange(bs) * self.k + accept_lengths - 1
            start = self.states.valid_cache_lengths[b.req_pool_indices_buf] + accept_lengths
            first = output_tokens[last]
        out = self.call(bs, ids, b.positions_buf, b.out_cache_loc_buf, logits_output.hidden_states, 0, last)
        drafts = [first, out.next_token_ids]
        if b.all_extends_mid_chunk or self.steps == 1:
            return torch.stack(drafts + [first] * (self.steps - 1), dim=1)
        locations = torch.empty(bs * (self.steps - 1), dtype=torch.int32)
        self.view.out_cache_loc_uniform(out=locations, cache_start=start, num_tokens=self.steps - 1)
        with self.backend.override_num_extends(0):
            for i in range(1, self.steps):
                self.backend.advance_draft_forward_metadata(start + i)
                here = locations.view(bs, -1)[:, i - 1].contiguous()
                out = self.call(bs, drafts[-1], start + i - 1, here, out.hidden_states, i)
                drafts.append(out.next_token_ids)
        return torch.stack(drafts, dim=1)

    def call(self, bs, ids, positions, locations, hidden, step, last=None):
        ctx = ForwardContext(bs=bs) if last is None else ForwardContext(bs=bs, gather_ids=last)
        return self.runner.forward(ctx=ctx, input_ids=ids, positions=positions, out_cache_loc=locations,
                                   captured_hidden_states=hidden, spec_step_idx=step)
"""

HOOK = """
from dataclasses import replace

import torch
from tokenspeed_kernel.ops.kvcache.triton import compute_group_decode_locs

from tokenspeed.runtime.utils.common import ceil_div


class CacheGroupsMixin:
    def update_draft_forward_metadata(self, frontier):
        size, k, now = self.group_block_granularities["all"], self.spec_num_tokens, self.forward_decode_metadata
        positions = (frontier[:, None] - k + torch.arange(k, device=frontier.device)).clamp(min=0)
        pages = now.page_tables["all"].gather(1, positions // size)
        self.forward_decode_metadata = replace(
            now, seq_lens=frontier, out_cache_locs={"all": (pages * size + positions % size).flatten().int()}
        )
"""

DRAFTERS = "tokenspeed/runtime/execution/drafter"
FILES = {
    f"{DRAFTERS}/base.py": BASE,
    f"{DRAFTERS}/mtp.py": MTP,
    f"{DRAFTERS}/eagle.py": EAGLE,
    "tokenspeed/runtime/layers/attention/backends/cache_groups.py": HOOK,
}


def write_checkout(folder: Path, changes: dict[str, tuple[str, str]] | None = None) -> Path:
    """A checkout below ``folder``. changes: file name -> (text, what to put in its place). Returns the folder."""
    for name, text in FILES.items():
        path = folder / "python" / name
        old, new = (changes or {}).get(path.name, ("", ""))
        assert old in text
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(old, new) if old else text)
    return folder
