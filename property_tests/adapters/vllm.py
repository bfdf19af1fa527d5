"""vLLM's multi-module MTP drafter, around the engine's own kernels.

``v1/worker/gpu/spec_decode/multi_module_mtp/speculator.py`` runs as it stands (tried in release 0.33.0, 2026-11-01):
ids, positions, seq_lens, hiddens, cached inputs, padding and shifts are the engine's; the order of the calls and the
slot mapping (rows below position 0 are masked) are ours. Set VLLM_PATH to a checkout or an unpacked wheel; on a CPU the
kernels run in Triton's interpreter, slowly: set TRITON_INTERPRET=1 too.
"""

from __future__ import annotations

import enum
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, ExtendBatch
from frontier_oracle.oracle.errors import SpecError
from frontier_oracle.property_tests.adapters.interpreted import need_triton
from frontier_oracle.property_tests.adapters.kernel_drafter import KernelDrafter, chunk_rows
from frontier_oracle.property_tests.adapters.loading import Engine

ENGINE = Engine("vllm", "VLLM_PATH", "vllm-project/vllm", "release 0.33.0", below=("",))
GPU = "vllm.v1.worker.gpu"
SPECULATOR = f"{GPU}.spec_decode.multi_module_mtp.speculator"
PAD_SLOT_ID = -1
# module:name, what the file only mentions, for its class and its annotations.
MENTIONED = """vllm.compilation.breakable_cudagraph:is_breakable_cudagraph_enabled vllm.config:VllmConfig
vllm.forward_context:BatchDescriptor vllm.forward_context:set_forward_context GPU.dp_utils:DPSyncState
GPU.attn_utils:build_slot_mappings_by_layer GPU.dp_utils:dispatch_cg_and_sync_dp GPU.input_batch:InputBatch
GPU.input_batch:InputBuffers GPU.spec_decode.eagle.utils:load_eagle_model
GPU.spec_decode.speculator:DraftModelSpeculator vllm.v1.worker.utils:get_uniform_decode_token_count
GPU.spec_decode.target_dependent_ar.cudagraph_utils:SpeculatorCudaGraphManager""".replace("GPU", GPU)


@cache
def kernels(root: Path) -> ModuleType:
    """The engine's speculator file."""
    need_triton("vllm")
    import triton
    import triton.language as tl

    supplied: dict[str, dict[str, Any]] = {}
    for mentioned in MENTIONED.split():
        module, name = mentioned.split(":")
        supplied.setdefault(module, {})[name] = type(name, (), {})
    supplied["vllm.config.compilation"] = {"CUDAGraphMode": enum.Enum("CUDAGraphMode", ["NONE", "PIECEWISE", "FULL"])}
    supplied["vllm.logger"] = {"init_logger": lambda name: None}
    supplied["vllm.triton_utils"] = {"tl": tl, "triton": triton}
    supplied["vllm.v1.attention.backends.utils"] = {"PAD_SLOT_ID": PAD_SLOT_ID}
    return ENGINE.load({SPECULATOR: f"{SPECULATOR.replace('.', '/')}.py"}, supplied, root)[SPECULATOR]


class VllmMultiModule(KernelDrafter):
    """contract.System. Raises SpecError unless steps = k-1."""

    prefix_policy: ClassVar[str] = "successor"
    declares: ClassVar[str] = "vllm_multi_module"

    def __init__(self, config: DraftConfig, model: DraftModel) -> None:
        super().__init__(config, model, kernels(ENGINE.root()), "vllm")
        if self.steps != self.k - 1:
            raise SpecError(f"steps={self.steps}: this drafter drafts k-1 = {self.k - 1} tokens")
        shape, device = (config.num_slots, max(self.steps - 1, 1)), config.device
        self.cached_ids = torch.zeros(shape, dtype=torch.int64, device=device)
        self.cached_hidden = torch.zeros(*shape, config.hidden_size, dtype=self.dtype, device=device)

    @torch.no_grad()
    def decode(self, batch: DecodeBatch) -> Tensor:
        """One round after its verification. Returns [bs, steps+1] int32."""
        bs, k, accepts = len(batch.seq_lens), self.k, batch.accept_lengths
        positions = batch.seq_lens[:, None].long() + torch.arange(k, device=accepts.device)
        # The verified candidates: accepted drafts are what was verified, the others are not read.
        ids = torch.nn.functional.pad(batch.verify_ids[:, :-1], (1, 0))
        starts = torch.arange(bs + 1, dtype=torch.int32, device=accepts.device) * k
        last = batch.verify_ids.gather(1, accepts.long()[:, None] - 1)
        ahead = torch.full((bs, self.steps), -1, dtype=torch.int32, device=accepts.device)
        seen = SimpleNamespace(input_ids=ids.flatten(), positions=positions.flatten(), seq_lens=batch.seq_lens + k)
        return self._round(batch, seen, starts, accepts, k - accepts, last, ahead, k)

    @torch.no_grad()
    def extend(self, batch: ExtendBatch) -> Tensor:
        """Prompt chunks, each with the next ``steps`` prompt tokens. Returns [bs, steps+1] int32."""
        lengths, starts, positions = chunk_rows(batch)
        sampled = torch.tensor(batch.is_final, dtype=torch.int32, device=lengths.device)
        seen = SimpleNamespace(input_ids=batch.input_ids, positions=positions, seq_lens=batch.seq_lens)
        last, none, longest = batch.sampled_ids[:, None], torch.zeros_like(lengths), max(batch.extend_lens)
        return self._round(batch, seen, starts, sampled, none, last, batch.next_ids, longest)

    def _round(
        self,
        batch: DecodeBatch | ExtendBatch,
        seen: SimpleNamespace,
        starts: Tensor,
        sampled: Tensor,
        rejected: Tensor,
        last: Tensor,
        ahead: Tensor,
        longest: int,
    ) -> Tensor:
        """The engine's steps in its order. Its tables by request state are by slot here."""
        bs, slots, hidden = len(sampled), batch.req_pool_indices, torch.zeros_like(batch.hidden)
        seen.idx_mapping = slots
        buffers = SimpleNamespace(
            input_ids=torch.zeros_like(seen.input_ids),
            positions=torch.zeros_like(seen.positions),
            seq_lens=torch.zeros_like(seen.seq_lens),
            query_start_loc=starts,
        )
        overrides = self.cached_ids.new_full((bs, self.cached_ids.shape[1]), -1)
        rows = torch.zeros(bs, dtype=torch.int64, device=slots.device)
        last_sampled = torch.zeros(self.config.num_slots, dtype=torch.int32, device=slots.device)
        last_sampled[slots.long()] = last[:, 0]
        prefill = last_sampled.new_zeros(self.steps, self.config.num_slots)
        prefill[:, slots.long()] = ahead.T
        state = (self.cached_ids, sampled, rejected, last_sampled, prefill, overrides)
        self.ops.prepare_input_buffers(bs, seen, *state, buffers, rows, bs, self.steps)
        self.ops.prepare_input_hidden_states_and_embeddings(
            bs, longest, hidden, batch.hidden, self.cached_hidden, None, None, seen, buffers, rejected, self.steps
        )
        self.ops.cache_inputs(
            buffers, None, hidden, self.cached_ids, None, self.cached_hidden, rows, slots, bs, self.steps, False
        )
        mapping = torch.stack(self.cells(batch, starts, buffers.positions.clamp(min=0)))
        mapping.masked_fill_(buffers.positions < 0, PAD_SLOT_ID)
        self.ops.pad_trailing_draft_slots(mapping, starts, rows, bs)
        cells, drafts = tuple(mapping.clamp(min=0)), [last]  # padded slots: the null page
        for depth in range(self.steps):
            hidden, tokens = self.call(
                batch, depth, buffers.input_ids, buffers.positions, hidden, cells, starts, buffers.seq_lens, rows
            )
            drafts.append(tokens[:, None])
            if depth < self.steps - 1:
                following = torch.where(overrides[:, depth] >= 0, overrides[:, depth], tokens)
                self.ops.update_draft_inputs(following, None, buffers, None, rows, slots, bs)
        return torch.cat(drafts, dim=1).int()


def make(config: DraftConfig, model: DraftModel) -> VllmMultiModule:
    """The plug-in entry point, system ``vllm``."""
    return VllmMultiModule(config, model)
