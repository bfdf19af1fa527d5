"""The books kept by Triton kernels: one launch for a decode round. Runs on a GPU, or in Triton's interpreter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from frontier_oracle.cuda_impl import kernels
from frontier_oracle.cuda_impl.books import ExtendRows
from frontier_oracle.cuda_impl.buffers import Buffers, torch_dtype
from frontier_oracle.cuda_impl.extend_plan import ExtendPlan
from frontier_oracle.cuda_impl.launch import launch
from frontier_oracle.oracle.contract import DraftConfig, ExtendBatch, StashView

ROW_BLOCK = 128


class TritonBooks:
    """Stash ring and cursor state per slot, at fixed addresses (see kernels.py for the layout).

    tokens [slots, k] int32; hidden [slots, k, H]; state [slots, chunks+1] int32. A program moves ``block`` columns of H
    with ``num_warps`` warps; by default (0) what bench_window.tune found fastest on an H200: 1024 columns where they
    divide a wide H, else 512, and four 16-byte loads of bf16 in flight per thread.
    """

    def __init__(self, config: DraftConfig, block: int = 0, num_warps: int = 0) -> None:
        spec, h = config.spec, config.hidden_size
        block = block or (1024 if h >= 4096 and h % 1024 == 0 else 512)
        self._padded_k = 1 << (spec.k - 1).bit_length()
        self.config, self.block = config, min(block, 1 << (h - 1).bit_length())
        self.num_warps = num_warps or max(1, self._padded_k * self.block // 1024)
        self.chunks = -(-h // self.block)
        device = config.device
        self.tokens = torch.zeros(config.num_slots, spec.k, dtype=torch.int32, device=device)
        self.hidden = torch.zeros(config.num_slots, spec.k, h, dtype=torch_dtype(config), device=device)
        self.state = torch.zeros(config.num_slots, self.chunks + 1, dtype=torch.int32, device=device)
        groups = {"PAGES": tuple(g.page_size for g in spec.groups), "COLS": tuple(config.cols)}
        self._paged: dict[str, Any] = {"K": spec.k, "CHUNKS": self.chunks, **groups}
        self._moves: dict[str, Any] = {"K": spec.k, "H": h, "BLOCK": self.block, "CHUNKS": self.chunks}

    def decode(self, buffers: Buffers, bs: int) -> None:
        """One kernel (Books.decode)."""
        b = buffers
        launch(
            kernels.window_kernel,
            bs * (self.chunks + 1),
            *(b.req_pool_indices, b.seq_lens, b.accept_lengths, b.verify_ids, b.verify_hidden, b.tables),
            *(self.tokens, self.hidden, self.state),
            *(b.ids, b.positions, b.hidden, b.locs, b.frontier, b.rows, b.locs.stride(0)),
            **self._moves | self._paged,
            KP=self._padded_k,
            STEPS=self.config.spec.steps,
            num_warps=self.num_warps,
        )

    def extend_rows(self, batch: ExtendBatch, plan: ExtendPlan) -> ExtendRows:
        """Two kernels, the second only where rows are re-run (Books.extend_rows)."""
        device, groups = self.config.device, len(self.config.cols)
        positions = torch.empty(plan.rows, dtype=torch.int32, device=device)
        locs = torch.empty(groups, plan.rows, dtype=torch.int32, device=device)
        tables = torch.cat([table.reshape(-1) for table in batch.page_table])
        where = (plan.row_request, plan.row_offset, batch.req_pool_indices, plan.prefix_lens)
        launch(
            kernels.extend_rows_kernel,
            -(-plan.rows // ROW_BLOCK),
            *where,
            *(tables, self.state, positions, locs, plan.rows, locs.stride(0), len(batch.extend_lens)),
            **self._paged,
            BLOCK=ROW_BLOCK,
        )
        hidden = batch.hidden
        if plan.reruns:
            hidden = torch.empty(plan.rows, self.config.hidden_size, dtype=batch.hidden.dtype, device=device)
            source = (plan.chunk_starts, batch.hidden, self.hidden, self.state)
            launch(kernels.extend_hidden_kernel, plan.rows * self.chunks, *where, *source, hidden, **self._moves)
        return ExtendRows(hidden, positions, tuple(locs))

    def extend_ids(self, batch: ExtendBatch, plan: ExtendPlan, depth: int, drafts: Tensor) -> Tensor:
        """One kernel (Books.extend_ids)."""
        ids = torch.empty(plan.rows, dtype=torch.int32, device=self.config.device)
        launch(
            kernels.extend_ids_kernel,
            -(-plan.rows // ROW_BLOCK),
            *(plan.row_request, plan.row_offset, batch.req_pool_indices),
            *(plan.prefix_lens, plan.extend_lens, plan.chunk_starts, plan.is_final),
            *(batch.input_ids, batch.next_ids, batch.sampled_ids, drafts),
            *(self.tokens, self.state, ids, plan.rows, depth),
            K=self.config.spec.k,
            STEPS=self.config.spec.steps,
            BLOCK=ROW_BLOCK,
            CHUNKS=self.chunks,
        )
        return ids

    def extend_stash(self, batch: ExtendBatch, plan: ExtendPlan) -> None:
        """One kernel (Books.extend_stash)."""
        launch(
            kernels.extend_stash_kernel,
            len(batch.extend_lens) * (self.chunks + 1),
            *(batch.req_pool_indices, plan.prefix_lens, plan.extend_lens, plan.chunk_starts, plan.is_final),
            *(batch.input_ids, batch.next_ids, batch.sampled_ids, batch.hidden),
            *(self.tokens, self.hidden, self.state),
            **self._moves,
            KP=self._padded_k,
            STEPS=self.config.spec.steps,
        )

    def reset(self, slot: int) -> None:
        """Nothing valid, cursor 0 (Books.reset)."""
        self.state[slot].zero_()

    def stash(self) -> StashView:
        """The ring put in order of positions (Books.stash)."""
        k = self.config.spec.k
        state = self.state[:, :1].long()
        ring = (state % k + torch.arange(1, k, device=state.device)) % k
        hidden = self.hidden.gather(1, ring[:, :, None].expand(-1, -1, self.config.hidden_size))
        return StashView(self.tokens.gather(1, ring), hidden, (state // k).squeeze(1).int())

    def load_stash(self, slots: Tensor, tokens: Tensor, hidden: Tensor, valid_lens: Tensor) -> None:
        """The rows become ring rows 1..k-1, the cursor 0 (Books.load_stash)."""
        slots = slots.long()
        self.tokens[slots, 1:] = tokens.to(self.tokens.dtype)
        self.hidden[slots, 1:] = hidden
        self.state[slots] = (valid_lens.int() * self.config.spec.k)[:, None]

    def tensors(self) -> dict[str, Tensor]:
        """Books.tensors."""
        return {"stash_tokens": self.tokens, "stash_hidden": self.hidden, "stash_state": self.state}
