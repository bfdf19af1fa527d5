"""Faults of place: positions, write locations, extents, page tables, padded rows (S9, S17, S20)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, ExtendBatch, ForwardInputs
from frontier_oracle.property_tests.mutants.planting import FRONTIER, Watching, planted
from frontier_oracle.reference_impl import window
from frontier_oracle.reference_impl.frontier import Frontier

MASKED = "the published design masks no row: this is its own behaviour"

# ---- positions ------------------------------------------------------------------------------------------------------


@planted("positions_of_verify", "the positions of the verify window, F..F+k-1, are kept", "FO103")
class _PositionsOfVerify(Watching):
    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        if not self.decoding:
            return inputs
        return replace(inputs, positions=window.positions(self.batch.seq_lens + self.k, self.k).flatten())


@planted("positions_advance", "positions advance by one a depth, as a chain drafter's do", "FO103")
class _PositionsAdvance(Watching):
    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        return replace(inputs, positions=inputs.positions + inputs.depth)


@planted("positions_behind", "positions end one before the frontier", "FO103")
class _PositionsBehind(Watching):
    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        return replace(inputs, positions=(inputs.positions - 1).clamp(min=0)) if self.decoding else inputs


@planted("positions_from_chunk", "positions start at 0 in every chunk", "FO103")
class _PositionsFromChunk(Watching):
    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        if self.decoding:
            return inputs
        each = torch.arange(len(inputs.positions), dtype=torch.int32)
        first = inputs.query_start_loc[:-1].repeat_interleave(inputs.query_start_loc.diff())
        return replace(inputs, positions=each - first)


@planted("clamp_left_in", "rows before position 0 are clamped to it, not masked", "FO103", (FRONTIER,), why=MASKED)
class _ClampLeftIn(Frontier):
    def window_positions(self, frontier: Tensor) -> Tensor:
        return super().window_positions(frontier).clamp(min=0)

    def window_valid(self, slots: Tensor, source: Tensor, positions: Tensor) -> Tensor:
        return (slots > 0)[:, None].expand_as(source)


@planted("masked_rows_at_0", "masked rows are written to position 0 instead of the null page", "FO103", (FRONTIER,),
         why="a row before the first position stands nowhere, so its position 0 is the fault; " + MASKED)  # fmt: skip
class _MaskedRowsAt0(Frontier):
    def write_locations(
        self, page_table: tuple[Tensor, ...], request: Tensor, positions: Tensor, valid: Tensor
    ) -> tuple[Tensor, ...]:
        return super().write_locations(page_table, request, positions * valid, torch.ones_like(valid))


# ---- write locations ------------------------------------------------------------------------------------------------


@planted("locations_of_old_frontier", "rows are written where the old frontier's window stood", "FO104")
class _LocationsOfOldFrontier(Watching):
    def window_write_positions(self, frontier: Tensor) -> Tensor:
        return super().window_write_positions(self.batch.seq_lens)


@planted("locations_of_verify", "rows are written to the verify window's locations, F..F+k-1", "FO104")
class _LocationsOfVerify(Watching):
    def window_write_positions(self, frontier: Tensor) -> Tensor:
        return super().window_write_positions(self.batch.seq_lens + self.k)


@planted("locations_of_last_round", "the locations of the round before are still in the buffer", "FO104")
class _LocationsOfLastRound(Watching):
    kept: tuple[Tensor, ...] = ()

    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        if not self.decoding or inputs.depth:
            return inputs
        locs, self.kept = self.kept, inputs.out_cache_loc
        same = bool(locs) and locs[0].shape == inputs.out_cache_loc[0].shape
        return replace(inputs, out_cache_loc=locs) if same else inputs


@planted("locations_of_other_group", "every group's locations come from group 0's table", "FO104")
class _LocationsOfOtherGroup(Frontier):
    def write_locations(
        self, page_table: tuple[Tensor, ...], request: Tensor, positions: Tensor, valid: Tensor
    ) -> tuple[Tensor, ...]:
        locs = super().write_locations(page_table, request, positions, valid)
        return (locs[0],) * len(locs)


@planted("page_size_of_group_0", "group 0's page size is used for every group", "FO104")
class _PageSizeOfGroup0(Frontier):
    def write_locations(
        self, page_table: tuple[Tensor, ...], request: Tensor, positions: Tensor, valid: Tensor
    ) -> tuple[Tensor, ...]:
        locs = list(super().write_locations(page_table, request, positions, valid))
        size = self.spec.groups[0].page_size
        for g, table in enumerate(page_table):
            own = self.spec.groups[g].page_size
            page = table[request, (positions // own % table.shape[1]).long()]
            locs[g] = torch.where(locs[g] > 0, page * own + positions % size % own, locs[g])
        return tuple(locs)


@planted("ring_of_pages_not_wrapped", "a sliding window's table is not taken as a ring", "FO104")
class _RingOfPagesNotWrapped(Frontier):
    def write_locations(
        self, page_table: tuple[Tensor, ...], request: Tensor, positions: Tensor, valid: Tensor
    ) -> tuple[Tensor, ...]:
        locs = list(super().write_locations(page_table, request, positions, valid))
        for g, table in enumerate(page_table):
            size = self.spec.groups[g].page_size
            column = (positions // size).clamp(0, table.shape[1] - 1)
            straight = table[request, column.long()] * size + positions % size
            locs[g] = torch.where(locs[g] > 0, straight, locs[g])
        return tuple(locs)


@planted("written_to_neighbour", "rows are written through the page table row of the next request", "FO204")
class _WrittenToNeighbour(Frontier):
    def write_locations(
        self, page_table: tuple[Tensor, ...], request: Tensor, positions: Tensor, valid: Tensor
    ) -> tuple[Tensor, ...]:
        return super().write_locations(tuple(t.roll(1, 0) for t in page_table), request, positions, valid)


@planted("read_from_neighbour", "attention reads through the page table row of the next request", "FO203")
class _ReadFromNeighbour(Watching):
    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        return replace(inputs, page_table=tuple(table.roll(1, 0) for table in inputs.page_table))


@planted("conv_slot_is_row", "the conv state is taken at the batch row instead of the slot", "FO204")
class _ConvSlotIsRow(Watching):
    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        rows = torch.arange(1, len(inputs.conv_slots) + 1, dtype=torch.int32).clamp(max=self.config.num_slots - 1)
        return replace(inputs, conv_slots=torch.where(inputs.conv_slots > 0, rows, 0))


# ---- extents --------------------------------------------------------------------------------------------------------


@planted("seq_lens_not_reanchored", "seq_lens stay at the old frontier", "FO107")
class _SeqLensNotReanchored(Watching):
    def window_seq_lens(self, frontier: Tensor) -> Tensor:
        return super().window_seq_lens(self.batch.seq_lens)


@planted("seq_lens_of_verify", "seq_lens keep the rejected rows of the verify window", "FO107")
class _SeqLensOfVerify(Watching):
    def window_seq_lens(self, frontier: Tensor) -> Tensor:
        return super().window_seq_lens(self.batch.seq_lens + self.k)


@planted("extent_past_frontier", "the extent is one too long and reads what is past the frontier", "FO107")
class _ExtentPastFrontier(Frontier):
    def window_seq_lens(self, frontier: Tensor) -> Tensor:
        return super().window_seq_lens(frontier) + 1


@planted("seq_lens_advance", "seq_lens advance by one a depth, as a chain drafter's do", "FO107")
class _SeqLensAdvance(Watching):
    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        return replace(inputs, seq_lens=inputs.seq_lens + inputs.depth) if self.decoding else inputs


@planted("chunk_extent_without_prefix", "a chunk's extent leaves out what was computed before it", "FO107")
class _ChunkExtentWithoutPrefix(Frontier):
    def extend_seq_lens(self, batch: ExtendBatch) -> Tensor:
        return torch.tensor(batch.extend_lens, dtype=torch.int32)


# ---- padded rows ----------------------------------------------------------------------------------------------------


@planted("padded_row_in_slot_1", "padded rows are given slot 1", "FO205")
class _PaddedRowInSlot1(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        return super().decode(replace(batch, req_pool_indices=batch.req_pool_indices.clamp(min=1)))


@planted("padded_conv_slot_1", "padded rows keep a live slot's conv state", "FO205")
class _PaddedConvSlot1(Watching):
    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        return replace(inputs, conv_slots=inputs.conv_slots.clamp(min=1))


@planted("padded_row_keeps_pages", "padded rows write through the page table rows of an earlier, bigger batch", "FO205")
class _PaddedRowKeepsPages(Watching):
    kept: tuple[Tensor, ...] = ()

    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        padded = inputs.conv_slots == 0
        if not self.decoding or not self.kept or len(self.kept[0]) < len(padded):
            if self.decoding and inputs.depth == self.steps - 1:
                self.kept = inputs.page_table
            return inputs
        rows = padded.repeat_interleave(self.k)
        locs = []
        for group, loc, table in zip(self.spec.groups, inputs.out_cache_loc, self.kept, strict=True):
            stale = table[: len(padded), :1] * group.page_size + torch.arange(self.k) % group.page_size
            locs.append(torch.where(rows, stale.flatten().int(), loc))
        return replace(inputs, out_cache_loc=tuple(locs))
