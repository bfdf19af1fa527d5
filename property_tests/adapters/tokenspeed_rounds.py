"""The part of TokenSpeed's executor that its drafters see: a round's input buffers filled, the entry point called."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, ExtendBatch
from frontier_oracle.oracle.errors import DataParallelUnsupported, HiddenSemanticUnsupported
from frontier_oracle.property_tests.adapters.tokenspeed_parts import ENGINE, Metadata, Surroundings, drafter_module


class EngineRounds:
    """contract.System over a drafter class of the engine. Subclasses say which, and what it can do.

    Raises HiddenSemanticUnsupported for heads that the drafter does not serve, DataParallelUnsupported where the engine
    refuses (S15), UsageError where the engine's file is not there.
    """

    serves: ClassVar[tuple[str, ...]]
    engine_class: ClassVar[tuple[str, str]]
    runner_type: ClassVar[type[Surroundings]]

    def __init__(self, config: DraftConfig, model: DraftModel) -> None:
        spec = config.spec
        if spec.hidden not in self.serves:
            raise HiddenSemanticUnsupported(
                f"hidden={spec.hidden}: this drafter serves {' or '.join(self.serves)} heads; a scenario names them"
            )
        self.config, self.model, self.k = config, model, spec.k
        self.runner = self.runner_type(config, model)
        seq_lens = torch.ones(config.max_batch, dtype=torch.int32, device=config.device)
        self.buffers = SimpleNamespace(max_bs=config.max_batch, seq_lens_buf=seq_lens)
        self.valid_lengths = torch.zeros(config.num_slots, dtype=torch.int32, device=config.device)
        file, name = self.engine_class
        try:
            self.drafter: Any = getattr(drafter_module(ENGINE.root(), file), name)(
                spec_num_tokens=spec.k,
                spec_num_steps=spec.steps,
                draft_model_runner=self.runner,
                cache_view=self.runner,
                attn_backend=self.runner,
                runtime_states=SimpleNamespace(valid_cache_lengths=self.valid_lengths),
                input_buffers=self.buffers,
            )
        except NotImplementedError as refusal:
            raise DataParallelUnsupported(str(refusal)) from refusal

    @torch.no_grad()
    def decode(self, batch: DecodeBatch) -> Tensor:
        """One round after its verification. Returns [bs, steps+1] int32."""
        bs, device, slots = len(batch.seq_lens), batch.seq_lens.device, batch.req_pool_indices.long()
        ends = torch.arange(0, bs * self.k + 1, self.k, dtype=torch.int32, device=device)
        window_end = batch.seq_lens + self.k  # what attention sees, until the drafter's hook moves it
        self.runner.begin(Metadata(ends, window_end, batch.page_table, batch.req_pool_indices))
        self.valid_lengths[slots] = batch.seq_lens
        request = torch.arange(bs, device=device)[:, None]
        positions = batch.seq_lens[:, None].long() + torch.arange(self.k, device=device)
        self._fill(slots, window_end, positions.flatten(), self.runner.locations(request, positions).flatten())
        return self._run(batch.hidden, batch.verify_ids.flatten(), batch.accept_lengths, num_extends=0)

    @torch.no_grad()
    def extend(self, batch: ExtendBatch) -> Tensor:
        """Prompt chunks. Returns [bs, steps+1] int32."""
        device, bs = batch.input_ids.device, len(batch.extend_lens)
        lengths = torch.tensor(batch.extend_lens, dtype=torch.int32, device=device)
        request = torch.arange(bs, device=device).repeat_interleave(lengths)
        ends = lengths.cumsum(0)
        starts = torch.tensor(batch.prefix_lens, device=device) + lengths - ends
        positions = torch.arange(len(request), device=device) + starts[request]
        query_start_loc = torch.nn.functional.pad(ends, (1, 0)).int()
        self.runner.begin(Metadata(query_start_loc, batch.seq_lens, batch.page_table, batch.req_pool_indices))
        shifted = batch.input_ids.roll(-1)
        shifted[ends - 1] = batch.next_ids[:, 0]  # -1 behind the prompt's end: the placeholder of a final chunk
        slots = batch.req_pool_indices.long()
        self._fill(slots, batch.seq_lens, positions, self.runner.locations(request, positions))
        self.buffers.input_lengths_buf, self.buffers.shifted_prefill_ids_buf = lengths, shifted
        self.buffers.all_extends_mid_chunk = not any(batch.is_final)
        return self._run(batch.hidden, batch.sampled_ids, torch.ones_like(lengths), num_extends=bs)

    def _fill(self, slots: Tensor, seq_lens: Tensor, positions: Tensor, locations: Tensor) -> None:
        self.buffers.req_pool_indices_buf, self.buffers.seq_lens_buf = slots, seq_lens
        self.buffers.positions_buf, self.buffers.out_cache_loc_buf = positions, locations
        self.buffers.all_extends_mid_chunk = False

    def _run(self, hidden: Tensor, output_tokens: Tensor, accept_lengths: Tensor, num_extends: int) -> Tensor:
        """The engine's entry point, as its executor calls it."""
        ctx = SimpleNamespace(
            bs=len(accept_lengths),
            num_extends=num_extends,
            input_num_tokens=len(hidden),
            forward_mode="extend" if num_extends else "decode",
            global_num_tokens=None,
            global_bs=None,
            all_decode_or_idle=num_extends == 0,
            dsa_prefill_topk=None,
            dsa_decode_topk=None,
        )
        drafts: Tensor = self.drafter.run(ctx, SimpleNamespace(hidden_states=hidden), output_tokens, accept_lengths)
        return drafts

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        """A prefix hit: the engine restores the conv taps, and leaves the drafter as it is."""
        self.model.load_conv_state(slot, pages[(length - 1) // self.config.spec.groups[0].page_size], length)

    def release(self, slot: int) -> None:
        """The engine tells its drafter nothing."""
