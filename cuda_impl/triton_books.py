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
NOTHING = 1 << 30
# Bytes of a round's hiddens (read, written, stashed) from which on they outgrow a Hopper GPU's 50 MiB of L2.
STREAMING = 48 << 20


class TritonBooks:
    """A stash ring per slot, at fixed addresses (see kernels.py for the layout).

    tokens [slots, k] int32; hidden [slots, k, H]; start, reached [slots] int32: the first position held, NOTHING for
    none, and the frontier (kept for ``stash``). A program moves ``block`` columns of H with ``num_warps`` warps; by
    default (0) each thread has four 16-byte loads of bf16 in flight.
    """

    def __init__(self, config: DraftConfig, block: int = 512, num_warps: int = 0) -> None:
        spec, h = config.spec, config.hidden_size
        self._padded_k = 1 << (spec.k - 1).bit_length()
        self.config, self.block = config, min(block, 1 << (h - 1).bit_length())
        self.num_warps = num_warps or max(1, self._padded_k * self.block // 1024)
        self.chunks = -(-h // self.block)
        device = config.device
        self.tokens = torch.zeros(config.num_slots, spec.k, dtype=torch.int32, device=device)
        self.hidden = torch.zeros(config.num_slots, spec.k, h, dtype=torch_dtype(config), device=device)
        self.start = torch.full((config.num_slots,), NOTHING, dtype=torch.int32, device=device)
        self.reached = torch.zeros(config.num_slots, dtype=torch.int32, device=device)
        # Slots that load_stash set: it is told no frontier, so their rows stand as if that were 0.
        self.loaded = torch.zeros(config.num_slots, dtype=torch.bool, device=device)
        self._any_loaded = False
        self._paged: dict[str, Any] = {"PAGES": tuple(g.page_size for g in spec.groups), "COLS": tuple(config.cols)}
        self._moves: dict[str, Any] = {"K": spec.k, "H": h, "BLOCK": self.block, "CHUNKS": self.chunks}

    def decode(self, buffers: Buffers, bs: int) -> None:
        """One kernel (Books.decode)."""
        b, scale = buffers, buffers.hidden.element_size()
        launch(
            kernels.window_kernel,
            bs * (self.chunks + 1),
            *(b.req_pool_indices, b.seq_lens, b.accept_lengths, b.verify_ids, _words(b.verify_hidden), b.tables),
            *(self.tokens, _words(self.hidden), self.start, self.reached),
            *(b.ids, b.positions, _words(b.hidden), b.locs, b.frontier, b.rows, b.locs.stride(0)),
            **self._paged,
            K=self.config.spec.k,
            WORDS=self.config.hidden_size * scale // 4,
            BLOCK=self.block * scale // 4,
            CHUNKS=self.chunks,
            KP=self._padded_k,
            STEPS=self.config.spec.steps,
            STREAM=3 * bs * self.config.spec.k * self.config.hidden_size * scale > STREAMING,
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
            *(tables, self.start, positions, locs, plan.rows, locs.stride(0), len(batch.extend_lens)),
            **self._paged,
            BLOCK=ROW_BLOCK,
        )
        hidden = batch.hidden
        if plan.reruns:
            hidden = torch.empty(plan.rows, self.config.hidden_size, dtype=batch.hidden.dtype, device=device)
            source = (plan.chunk_starts, batch.hidden, self.hidden, self.start)
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
            *(self.tokens, self.start, ids, plan.rows, depth),
            K=self.config.spec.k,
            STEPS=self.config.spec.steps,
            BLOCK=ROW_BLOCK,
        )
        return ids

    def extend_stash(self, batch: ExtendBatch, plan: ExtendPlan) -> None:
        """One kernel (Books.extend_stash)."""
        launch(
            kernels.extend_stash_kernel,
            len(batch.extend_lens) * (self.chunks + 1),
            *(batch.req_pool_indices, plan.prefix_lens, plan.extend_lens, plan.chunk_starts, plan.is_final),
            *(batch.input_ids, batch.next_ids, batch.sampled_ids, batch.hidden),
            *(self.tokens, self.hidden, self.start, self.reached),
            **self._moves,
            KP=self._padded_k,
            STEPS=self.config.spec.steps,
        )

    def before_decode(self, buffers: Buffers, bs: int) -> None:
        """Nothing, unless a stash was loaded: then its rows go to the places that the frontiers give them."""
        if not self._any_loaded:
            return
        inputs, k = buffers.batch(bs), self.config.spec.k
        slots = inputs.req_pool_indices.long()
        shift = inputs.seq_lens * self.loaded[slots]
        ring = (torch.arange(k, device=shift.device) - shift[:, None]) % k
        self.tokens[slots] = self.tokens[slots].gather(1, ring)
        self.hidden[slots] = self.hidden[slots].gather(1, _expand(ring, self.hidden))
        self.start[slots] += shift
        self.loaded[slots] = False

    def reset(self, slot: int) -> None:
        """No position is held (Books.reset)."""
        self.start[slot] = NOTHING
        self.loaded[slot] = False

    def stash(self) -> StashView:
        """The ring put in order of positions (Books.stash)."""
        k = self.config.spec.k
        ring = (self.reached[:, None] + torch.arange(1, k, device=self.reached.device)) % k
        valid = (self.reached - self.start).clamp(0, k - 1)
        return StashView(self.tokens.gather(1, ring), self.hidden.gather(1, _expand(ring, self.hidden)), valid)

    def load_stash(self, slots: Tensor, tokens: Tensor, hidden: Tensor, valid_lens: Tensor) -> None:
        """The rows stand at positions 1-k..-1 until the slot's next round, a decode, says where (Books.load_stash)."""
        slots = slots.long()
        self.tokens[slots, 1:] = tokens.to(self.tokens.dtype)
        self.hidden[slots, 1:] = hidden
        self.start[slots] = -valid_lens.int()
        self.reached[slots] = 0
        self.loaded[slots] = True
        self._any_loaded = True

    def tensors(self) -> dict[str, Tensor]:
        """Books.tensors."""
        return {f"stash_{name}": value for name, value in vars(self).items() if isinstance(value, Tensor)}


def _words(hidden: Tensor) -> Tensor:
    """The same memory as int32: what is moved is no number to the kernel."""
    return hidden.view(torch.int32)


def _expand(ring: Tensor, hidden: Tensor) -> Tensor:
    return ring[:, :, None].expand(-1, -1, hidden.shape[2])
