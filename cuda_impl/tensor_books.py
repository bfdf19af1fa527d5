"""The same books as a plain sequence of tensor operations: the baseline that the kernels are compared with, and what
runs on a CPU. The stash is kept in order, [slots, k-1], and rolled by a gather."""

from __future__ import annotations

import torch
from torch import Tensor

from frontier_oracle.cuda_impl.books import ExtendRows
from frontier_oracle.cuda_impl.buffers import Buffers, torch_dtype
from frontier_oracle.cuda_impl.extend_plan import ExtendPlan
from frontier_oracle.oracle.contract import DraftConfig, ExtendBatch, StashView


class TensorBooks:
    """tokens [slots, k-1] int32; hidden [slots, k-1, H]; first [slots] int64: the first stash row that holds, k-1 for
    none. A round sees [stash | verify | a zero row] of each request; a row before ``first`` reads the zero row."""

    def __init__(self, config: DraftConfig) -> None:
        spec, device = config.spec, config.device
        self.config, k = config, spec.k
        self.tokens = torch.zeros(config.num_slots, k - 1, dtype=torch.int32, device=device)
        self.hidden = torch.zeros(config.num_slots, k - 1, config.hidden_size, dtype=torch_dtype(config), device=device)
        self.first = torch.full((config.num_slots,), k - 1, device=device)
        self.first[0] = 2 * k  # padded rows hold nothing, verify rows included
        self._window = torch.arange(k, device=device)
        self._no_row = torch.full((), 2 * k - 1, device=device)
        self._row_base = torch.arange(config.max_batch, device=device)[:, None] * (2 * k)
        self._zero_token = torch.zeros(config.max_batch, 1, dtype=torch.int32, device=device)
        # One a request, and contiguous: a concatenation with an expanded row takes a kernel per part.
        self._zero_row = torch.zeros(config.max_batch, 1, config.hidden_size, dtype=self.hidden.dtype, device=device)

    def before_decode(self, buffers: Buffers, bs: int) -> None:
        """Books.before_decode."""

    def decode(self, buffers: Buffers, bs: int) -> None:
        """29 kernels on a GPU (Books.decode)."""
        k, inputs, window = self.config.spec.k, buffers.batch(bs), buffers.window(bs)
        slots = inputs.req_pool_indices
        grown = inputs.accept_lengths * slots.clamp(max=1)
        torch.add(inputs.seq_lens, grown, out=window.frontier)
        source = grown[:, None] + (self._window - 1)
        position = window.frontier[:, None] + (self._window - k)
        first = self.first.index_select(0, slots)
        keep = source >= first[:, None]
        source = torch.where(keep, source, self._no_row)

        tokens = torch.cat([self.tokens.index_select(0, slots), inputs.verify_ids, self._zero_token[:bs]], 1)
        ids = torch.gather(tokens, 1, source, out=window.ids[:, :k])
        rows = [self.hidden.index_select(0, slots), inputs.hidden.view(bs, k, -1), self._zero_row[:bs]]
        flat = (source + self._row_base[:bs]).view(-1)
        torch.ops.aten.index.Tensor_out(torch.cat(rows, 1).view(bs * 2 * k, -1), [flat], out=window.hidden)

        torch.mul(position, keep, out=window.positions.view(bs, k))
        for group, table, loc in zip(self.config.spec.groups, inputs.page_table, window.locs, strict=True):
            column = position // group.page_size % table.shape[1]
            located = torch.add(position % group.page_size, table.gather(1, column), alpha=group.page_size)
            torch.mul(located, keep, out=loc.view(bs, k))

        self.tokens.index_copy_(0, slots, ids[:, 1:])
        self.hidden.index_copy_(0, slots, window.hidden.view(bs, k, -1)[:, 1:])
        self.first.index_copy_(0, slots, (first - grown).clamp_(min=0))

    def extend_rows(self, batch: ExtendBatch, plan: ExtendPlan) -> ExtendRows:
        """Books.extend_rows."""
        k, request, offset = self.config.spec.k, plan.row_request.long(), plan.row_offset.long()
        slots = batch.req_pool_indices.long()
        position = plan.prefix_lens[request] + offset
        keep = self._kept(batch, plan)
        locs = []
        for group, table in zip(self.config.spec.groups, batch.page_table, strict=True):
            page = table[request, position // group.page_size % table.shape[1]]
            locs.append(((page * group.page_size + position % group.page_size) * keep).int())
        hidden = batch.hidden
        if plan.reruns:
            chunk_row = (plan.chunk_starts[request] + offset).clamp(min=0)
            stashed = self.hidden[slots[request], (k - 1 + offset).clamp(max=k - 2)]
            hidden = torch.where((offset >= 0)[:, None], batch.hidden[chunk_row], stashed).masked_fill(
                ~keep[:, None], 0
            )
        return ExtendRows(hidden, (position * keep).int(), tuple(locs))

    def extend_ids(self, batch: ExtendBatch, plan: ExtendPlan, depth: int, drafts: Tensor) -> Tensor:
        """Books.extend_ids."""
        k, request = self.config.spec.k, plan.row_request.long()
        ahead = plan.row_offset.long() + depth + 1
        past = ahead - plan.extend_lens[request]
        known = batch.next_ids.clone()
        known[:, 0] = torch.where(plan.is_final != 0, batch.sampled_ids, known[:, 0])
        guesses = torch.cat([torch.zeros_like(drafts[:, :1]), drafts[:, :-1]], 1)
        following = torch.where(known < 0, guesses, known)[request, past.clamp(min=0)]
        last = batch.input_ids.shape[0] - 1
        inside = batch.input_ids[(plan.chunk_starts[request] + ahead).clamp(0, last)]
        before = self.tokens[batch.req_pool_indices.long()[request], (k - 2 + ahead).clamp(max=k - 2)]
        return torch.where(ahead < 0, before, torch.where(past < 0, inside, following)) * self._kept(batch, plan)

    def extend_stash(self, batch: ExtendBatch, plan: ExtendPlan) -> None:
        """The last k-1 rows of [stash | chunk] (Books.extend_stash)."""
        k, slots = self.config.spec.k, batch.req_pool_indices.long()
        n, last = plan.extend_lens[:, None], batch.input_ids.shape[0] - 1
        row = n - (k - 1) + torch.arange(k - 1, device=n.device)
        at = plan.chunk_starts[:, None] + row
        inside = torch.where(row < n - 1, batch.input_ids[(at + 1).clamp(0, last)], self._after(batch, plan)[:, None])
        kept = (row + k - 1).clamp(max=k - 2)
        tokens, hidden = self.tokens[slots[:, None], kept], self.hidden[slots[:, None], kept]
        self.tokens[slots] = torch.where(row >= 0, inside, tokens)
        self.hidden[slots] = torch.where((row >= 0)[:, :, None], batch.hidden[at.clamp(0, last)], hidden)
        self.first[slots] = (self._first(batch, plan) - plan.extend_lens).clamp(min=0)

    def _first(self, batch: ExtendBatch, plan: ExtendPlan) -> Tensor:
        """[bs] first stash row that holds, none before position 0."""
        return torch.maximum(self.first[batch.req_pool_indices.long()], self.config.spec.k - 1 - plan.prefix_lens)

    def _kept(self, batch: ExtendBatch, plan: ExtendPlan) -> Tensor:
        request = plan.row_request.long()
        return (plan.row_offset + self.config.spec.k - 1 >= self._first(batch, plan)[request]) & (
            batch.req_pool_indices[request] > 0
        )

    @staticmethod
    def _after(batch: ExtendBatch, plan: ExtendPlan) -> Tensor:
        """[bs] the token behind each chunk."""
        return torch.where(plan.is_final != 0, batch.sampled_ids, batch.next_ids[:, 0])

    def reset(self, slot: int) -> None:
        """Books.reset."""
        self.first[slot] = self.config.spec.k - 1

    def stash(self) -> StashView:
        """Books.stash."""
        valid = (self.config.spec.k - 1 - self.first).clamp(min=0).int()
        return StashView(self.tokens.clone(), self.hidden.clone(), valid)

    def load_stash(self, slots: Tensor, tokens: Tensor, hidden: Tensor, valid_lens: Tensor) -> None:
        """Books.load_stash."""
        slots = slots.long()
        self.tokens[slots] = tokens.to(self.tokens.dtype)
        self.hidden[slots] = hidden
        self.first[slots] = self.config.spec.k - 1 - valid_lens.long()

    def tensors(self) -> dict[str, Tensor]:
        """Books.tensors."""
        return {"stash_tokens": self.tokens, "stash_hidden": self.hidden, "stash_first": self.first}
