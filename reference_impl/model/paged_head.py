"""The MTP chain on paged KV, conv rings and checkpoints: the draft model that every drafter gets injected."""

from __future__ import annotations

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DraftConfig, ForwardInputs
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reference_impl.model.conv_ring import ConvRing
from frontier_oracle.reference_impl.model.layers import rope
from frontier_oracle.reference_impl.model.mtp import MTPChain
from frontier_oracle.reference_impl.model.paged_attention import PagedKV, view
from frontier_oracle.reference_impl.model.target import Target
from frontier_oracle.reference_impl.model.tiles import Rows, equal_rows, ragged_rows


class PagedHead:
    """contract.DraftModel of a trained chain. Drafts are greedy: the sampled row's argmax.

    ``chain`` and ``target`` are used as they stand, in config.dtype on config.device. Raises UsageError where the
    config asks for other depths, windows or sizes than the chain's.
    """

    def __init__(self, config: DraftConfig, chain: MTPChain, target: Target) -> None:
        model, spec = chain.config, config.spec
        if spec.layers > model.depths:
            raise UsageError(f"steps={spec.steps}: the model has {model.depths} draft depths")
        wanted = (model.hidden_size, model.conv_width, model.windows[: spec.layers])
        given = (config.hidden_size, spec.conv_width, tuple(spec.window_of(d) for d in range(spec.layers)))
        if wanted != given:
            raise UsageError(f"hidden size, conv width and windows are {given}, the model's are {wanted}")
        self.config, self.spec, self.chain, self.target = config, spec, chain, target
        self.page_sizes = [group.page_size for group in spec.groups]
        dtype = getattr(torch, config.dtype)
        sizes = (model.kv_heads, model.head_size, dtype, config.device)
        groups = [spec.group_of(d) for d in range(spec.layers)]
        self.kv = [PagedKV(config.num_pages[g], self.page_sizes[g], *sizes) for g in groups]
        self.ring = ConvRing(config, dtype)

    @torch.no_grad()
    def forward(self, inputs: ForwardInputs) -> tuple[Tensor, Tensor]:
        """One depth over n ragged rows. Returns outputs [n, H], zero for masked rows, and drafts [bs] int32."""
        output = self._run(inputs, ragged_rows(len(inputs.input_ids), inputs.query_start_loc, inputs.seq_lens))
        return output, self.sample(output, inputs.sample_rows)

    @torch.no_grad()
    def forward_into(self, inputs: ForwardInputs, draft: Tensor) -> Tensor:
        """The same for [bs, m] ids, m rows of every request, the draft written into ``draft`` [bs] (strided): no host
        value and static shapes, so a graph can hold it. Returns outputs [n, H]."""
        output = self._run(inputs, equal_rows(inputs.input_ids.shape[1], inputs.seq_lens))
        draft.copy_(self.sample(output, inputs.sample_rows))
        return output

    def logits(self, output: Tensor) -> Tensor:
        """Scores of the next draft. O [..., H] -> [..., vocab_size]."""
        return self.chain.logits(output, self.target.embedding.weight)

    def sample(self, output: Tensor, sample_rows: Tensor) -> Tensor:
        """Greedy drafts of the sampled rows. [bs] int32."""
        return self.logits(output.index_select(0, sample_rows)).argmax(-1).int()

    def load_conv_state(self, slot: int, page: int, length: int) -> None:
        """Conv taps of a prefix hit, from group 0's checkpoint (S21)."""
        self.ring.load(slot, page, length)

    def _run(self, inputs: ForwardInputs, rows: Rows) -> Tensor:
        """O [n, H] of one depth. A row is masked if its location is on the null page in every group."""
        group = self.spec.group_of(inputs.depth)
        locs = zip(inputs.out_cache_loc, self.page_sizes, strict=True)
        valid = torch.stack([loc >= page_size for loc, page_size in locs]).any(0)
        sight = view(
            rows, inputs.out_cache_loc[group], inputs.page_table[group], self.page_sizes[group],
            self.spec.window_of(inputs.depth),
        )  # fmt: skip
        output = self.chain.depths[inputs.depth](
            inputs.hidden,
            self.target.embedding(inputs.input_ids.flatten()),
            rope(inputs.positions, self.chain.config, inputs.hidden.dtype),
            self.ring.call(inputs, rows, valid),
            sight.attend(self.kv[inputs.depth]),
        )
        return torch.where(valid[:, None], output, 0)
