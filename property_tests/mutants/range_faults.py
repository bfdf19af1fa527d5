"""Faults that small numbers never show: large pages, far positions, late owners, full batches, deep heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DraftConfig, DraftModel, ForwardInputs
from frontier_oracle.property_tests.mutants.planting import FRONTIER, Watching, planted
from frontier_oracle.reference_impl import window
from frontier_oracle.reference_impl.frontier import Frontier

NO_RESET = "the published design resets no slot and keeps no valid length"


@planted("offset_of_16", "the offset in a page is taken modulo 16, whatever the page size", "FO104")
class _OffsetOf16(Frontier):
    def write_locations(
        self, page_table: tuple[Tensor, ...], request: Tensor, positions: Tensor, valid: Tensor
    ) -> tuple[Tensor, ...]:
        locs = super().write_locations(page_table, request, positions, valid)
        sizes = [group.page_size for group in self.spec.groups]
        return tuple(loc - loc % size + loc % size % 16 for loc, size in zip(locs, sizes, strict=True))


@planted("positions_in_a_byte", "positions are kept in 8 bits", "FO103")
class _PositionsInAByte(Watching):
    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        return replace(inputs, positions=torch.where(inputs.positions < 0, inputs.positions, inputs.positions % 256))


@planted("fourth_owner_not_reset", "a slot's generation is counted modulo 4: the fourth owner is taken for the first",
         "FO206", (FRONTIER,), why=NO_RESET)  # fmt: skip
class _FourthOwnerNotReset(Frontier):
    def __init__(self, config: DraftConfig, model: DraftModel) -> None:
        super().__init__(config, model)
        self.owners = torch.zeros(config.num_slots, dtype=torch.int64)

    def reset_slot(self, slot: int | Tensor) -> None:
        slots = torch.as_tensor(slot).reshape(-1)
        self.owners[slots] += 1
        super().reset_slot(slots[self.owners[slots] % 4 > 0])


@planted("fourth_hit_not_reset", "likewise, counting prefix hits alone", "FO206", (FRONTIER,), why=NO_RESET)
class _FourthHitNotReset(Frontier):
    hits = 0

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        kept = self._stash.valid_lens[slot].clone()
        super().adopt(slot, pages, length)
        self.hits += 1
        if self.hits % 4 == 0:
            self._stash.valid_lens[slot] = kept


@planted("deep_hidden_of_batched_chunks", "in a batch of chunks, depths from 2 on get the target's hidden", "FO102")
class _DeepHiddenOfBatchedChunks(Watching):
    def depth_hidden(self, depth: int, target: Tensor, previous: Tensor) -> Tensor:
        batched = not self.decoding and len(self.batch.prefix_lens) > 1
        return target if depth >= 2 and batched else super().depth_hidden(depth, target, previous)


@planted("valid_length_after_write", "the valid length is read after the round's stash was written", "FO209",
         (FRONTIER,), why="it vouches for rows below the hit, on shared pages; " + NO_RESET)  # fmt: skip
class _ValidLengthAfterWrite(Watching):
    def window_valid(self, slots: Tensor, source: Tensor, positions: Tensor) -> Tensor:
        written = self.next_valid_lens(slots, self.batch.accept_lengths)
        return window.within_stash(source, written, self.k) & (positions >= 0) & (slots > 0)[:, None]


@planted("ids_of_six_rows", "rows behind the sixth of a batch take their ids from the sixth's stash", "FO101")
class _IdsOfSixRows(Frontier):
    def window_ids(self, slots: Tensor, verify_ids: Tensor, source: Tensor) -> Tensor:
        return super().window_ids(slots[torch.arange(len(slots)).clamp(max=5)], verify_ids, source)
