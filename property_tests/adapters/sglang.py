"""SGLang's multi-layer drafter with its boundary fix, around the engine's own kernels.

``kernels/ops/speculative/multi_layer_eagle.py`` runs as it stands (tried in release 0.5.23, 2026-10-30): the widened
window's ids, hiddens, positions and locations, the stash, and the rotation between depths are the engine's. The worker
around them needs the whole engine, so the order of the calls is ours. Set SGLANG_PATH to a checkout or an unpacked
wheel; on a CPU the kernels run in Triton's interpreter, slowly: set TRITON_INTERPRET=1 too.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, ExtendBatch
from frontier_oracle.property_tests.adapters.interpreted import need_triton
from frontier_oracle.property_tests.adapters.kernel_drafter import KernelDrafter, chunk_rows
from frontier_oracle.property_tests.adapters.loading import Engine

ENGINE = Engine("sglang", "SGLANG_PATH", "sgl-project/sglang", "release 0.5.23")
KERNELS = "sglang.kernels.ops.speculative.multi_layer_eagle"
MOST_POSITIONS = 1 << 16


@cache
def kernels(root: Path) -> ModuleType:
    """The engine's kernels file. Told that it is on neither a CPU nor an NPU: what runs is its GPU code."""
    need_triton("sglang")
    supplied = {"sglang.srt.utils": {"is_cpu": lambda: False, "is_npu": lambda: False}}
    return ENGINE.load({KERNELS: f"{KERNELS.replace('.', '/')}.py"}, supplied, root)[KERNELS]


class SglangMultiLayer(KernelDrafter):
    """contract.System. A conv ring must be deep enough for rows in front of and past the window (R in a scenario)."""

    prefix_policy: ClassVar[str] = "bigram"
    declares: ClassVar[str] = "sglang_boundary_fix"

    def __init__(self, config: DraftConfig, model: DraftModel) -> None:
        super().__init__(config, model, kernels(ENGINE.root()), "sglang")
        # One depth leaves nothing behind to repair: the engine then has no front.
        self.warmup = config.spec.taps if self.steps > 1 else 0
        self.front = self.steps - 1 + self.warmup
        shape, device = (config.num_slots, self.front), config.device
        self.stash = (
            torch.zeros(shape, dtype=torch.int64, device=device),
            torch.zeros(*shape, config.hidden_size, dtype=self.dtype, device=device),
            torch.zeros(config.num_slots, dtype=torch.int32, device=device),
        )
        # The engine's table of locations: position p is at p + 1, so that 0, its sacrificial one, stays apart.
        self.req_to_token = torch.arange(1, MOST_POSITIONS + 1, device=device).expand(config.num_slots, MOST_POSITIONS)

    @torch.no_grad()
    def decode(self, batch: DecodeBatch) -> Tensor:
        """One round after its verification. Returns [bs, steps+1] int32."""
        bs, device, k = len(batch.seq_lens), batch.seq_lens.device, self.k
        slots, width = batch.req_pool_indices.long(), self.front + self.k
        locs, positions = self.ops.compute_widened_draft_extend_locs_positions_triton(
            batch.seq_lens, slots, self.req_to_token, self.stash[2], k, self.front, self.warmup
        )
        ids, hidden = batch.verify_ids.flatten().clone(), batch.hidden
        if self.front:
            ids = torch.zeros(bs * width, dtype=torch.int32, device=device)
            hidden = torch.zeros(bs * width, hidden.shape[1], dtype=hidden.dtype, device=device)
            self.ops.fill_widened_draft_extend_inputs_triton(
                ids, hidden, batch.verify_ids.flatten(), batch.hidden, *self.stash, batch.seq_lens, slots, k
            )
            ends = torch.arange(bs, device=device) * k + batch.accept_lengths
            self._append(batch.verify_ids.flatten(), batch.hidden, ends, batch.accept_lengths, slots, set_valid=False)
        starts = torch.arange(bs + 1, device=device, dtype=torch.int32) * width
        sample = starts[:-1] + self.front + batch.accept_lengths - 1
        first = batch.verify_ids.gather(1, batch.accept_lengths.long()[:, None] - 1)
        return self._depths(batch, ids, hidden, positions, locs, starts, batch.seq_lens + k, sample, first, sample)

    @torch.no_grad()
    def extend(self, batch: ExtendBatch) -> Tensor:
        """Prompt chunks. Returns [bs, steps+1] int32."""
        lengths, starts, positions = chunk_rows(batch)
        ids, slots = batch.input_ids.clone(), batch.req_pool_indices.long()
        self.ops.rotate_input_ids(ids, starts[:-1], lengths, batch.sampled_ids)
        if self.front:
            self._append(ids, batch.hidden, starts[1:].long(), lengths, slots, set_valid=True)
        first, sample, locs = batch.sampled_ids[:, None], starts[1:] - 1, positions + 1
        return self._depths(batch, ids, batch.hidden, positions, locs, starts, batch.seq_lens, sample, first, None)

    def _append(self, tokens: Tensor, hidden: Tensor, ends: Tensor, rows: Tensor, slots: Tensor, **valid: bool) -> None:
        self.ops.stash_append_boundary_state_triton(tokens, hidden, ends, rows, slots, *self.stash, **valid)

    def _depths(
        self,
        batch: DecodeBatch | ExtendBatch,
        ids: Tensor,
        hidden: Tensor,
        positions: Tensor,
        locs: Tensor,
        starts: Tensor,
        seq_lens: Tensor,
        sample: Tensor,
        first: Tensor,
        select: Tensor | None,
    ) -> Tensor:
        """Every depth on the same rows, its ids the ones before rotated left, the draft going in at ``select``."""
        drafts = [first]
        cells = tuple(torch.where(locs > 0, cell, 0) for cell in self.cells(batch, starts, (locs - 1).clamp(min=0)))
        for depth in range(self.steps):
            hidden, tokens = self.call(batch, depth, ids, positions, hidden, cells, starts, seq_lens, sample)
            drafts.append(tokens[:, None])
            self.ops.rotate_input_ids(ids, starts[:-1], starts[1:] - starts[:-1], tokens, select)
        return torch.cat(drafts, dim=1)


def make(config: DraftConfig, model: DraftModel) -> SglangMultiLayer:
    """The plug-in entry point, system ``sglang``."""
    return SglangMultiLayer(config, model)
