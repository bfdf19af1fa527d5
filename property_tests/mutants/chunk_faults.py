"""Faults of prompt chunks: the shift by one, chunk boundaries, lookahead, re-run rows (S12..S14)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import ExtendBatch, ForwardInputs
from frontier_oracle.property_tests.mutants.planting import FRONTIER, Watching, planted
from frontier_oracle.reference_impl.extend import PLACEHOLDER, ChunkLayout
from frontier_oracle.reference_impl.frontier import Frontier

NO_LOOKAHEAD = "the published design is given the next token only"

# ---- ids ------------------------------------------------------------------------------------------------------------


@planted("ids_not_shifted", "a chunk's rows consume their own tokens, not the next ones", "FO101")
class _IdsNotShifted(Frontier):
    def extend_ids(self, batch: ExtendBatch, layout: ChunkLayout) -> Tensor:
        return batch.input_ids


@planted("placeholder_consumed", "the placeholder -1 at a prompt's end is consumed", "FO101")
class _PlaceholderConsumed(Frontier):
    def extend_ids(self, batch: ExtendBatch, layout: ChunkLayout) -> Tensor:
        final = torch.tensor(batch.is_final)
        ids = super().extend_ids(batch, layout)
        ids[layout.ends] = torch.where(final, PLACEHOLDER, ids[layout.ends])
        return ids


@planted("placeholder_at_boundary", "the placeholder -1 at the end of a chunk within the prompt is consumed", "FO101")
class _PlaceholderAtBoundary(Frontier):
    def extend_ids(self, batch: ExtendBatch, layout: ChunkLayout) -> Tensor:
        final = torch.tensor(batch.is_final)
        ids = super().extend_ids(batch, layout)
        ids[layout.ends] = torch.where(final, ids[layout.ends], PLACEHOLDER)
        return ids


@planted("sample_at_boundary", "a chunk within the prompt ends with the discarded sample, not the next token", "FO101")
class _SampleAtBoundary(Frontier):
    def extend_next(self, batch: ExtendBatch, i: int, own: Tensor) -> Tensor:
        return own if i == 0 else super().extend_next(batch, i, own)


@planted("lookahead_off_by_one", "the lookahead starts one token late", "FO101")
class _LookaheadOffByOne(Frontier):
    def extend_next(self, batch: ExtendBatch, i: int, own: Tensor) -> Tensor:
        late = torch.cat([batch.next_ids[:, 1:], batch.next_ids[:, -1:]], dim=1)
        return super().extend_next(replace(batch, next_ids=late), i, own)


@planted("lookahead_one_token", "deeper depths read drafts where the prompt goes on", "FO101", (FRONTIER,),
         why=NO_LOOKAHEAD)  # fmt: skip
class _LookaheadOneToken(Frontier):
    def extend_next(self, batch: ExtendBatch, i: int, own: Tensor) -> Tensor:
        return super().extend_next(batch, i, own) if i == 0 else own


@planted("lookahead_of_neighbour", "a chunk's lookahead is that of the next request in the batch", "FO101")
class _LookaheadOfNeighbour(Frontier):
    def extend_next(self, batch: ExtendBatch, i: int, own: Tensor) -> Tensor:
        return super().extend_next(replace(batch, next_ids=batch.next_ids.roll(1, 0)), i, own)


@planted("chunk_ids_not_rolled", "every depth of a chunk is given depth 0's ids", "FO101")
class _ChunkIdsNotRolled(Frontier):
    def extend_depth_ids(self, buffer: Tensor, layout: ChunkLayout, depth: int) -> Tensor:
        return super().extend_depth_ids(buffer, layout, 0)


@planted("chunk_ids_rolled_into_neighbour", "a roll over the whole batch takes the next request's first token", "FO101")
class _ChunkIdsRolledIntoNeighbour(Frontier):
    def extend_depth_ids(self, buffer: Tensor, layout: ChunkLayout, depth: int) -> Tensor:
        return buffer[layout.row_at].roll(-depth)


@planted("chunk_draft_not_appended", "a chunk's draft never reaches the next depth", "FO101")
class _ChunkDraftNotAppended(Frontier):
    def extend_append(
        self, buffer: Tensor, layout: ChunkLayout, batch: ExtendBatch, depth: int, tokens: Tensor
    ) -> None:
        pass


# ---- hiddens and rows -----------------------------------------------------------------------------------------------


@planted("chunk_hidden_row_before", "a chunk's rows get the hidden of the row before", "FO102")
class _ChunkHiddenRowBefore(Frontier):
    def extend(self, batch: ExtendBatch) -> Tensor:
        return super().extend(replace(batch, hidden=batch.hidden.roll(1, 0)))


@planted("first_chunk_row_dropped", "the first row of a chunk is not run", "FO202")
class _FirstChunkRowDropped(Frontier):
    def extend_valid(self, slots: Tensor, layout: ChunkLayout) -> Tensor:
        return super().extend_valid(slots, layout) & (layout.positions != layout.prefix_lens[layout.request])


@planted("chunk_runs_depth_0_only", "the prompt is run through depth 0 only", "FO202")
class _ChunkRunsDepth0Only(Watching):
    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        if self.decoding or inputs.depth == 0:
            return inputs
        return replace(inputs, out_cache_loc=tuple(torch.zeros_like(loc) for loc in inputs.out_cache_loc))


@planted("layer_0_only", "every depth runs layer 0", "FO202")
class _Layer0Only(Watching):
    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        return replace(inputs, depth=0)


@planted("no_rerun", "a final chunk shorter than the depths re-runs no row before it", "FO201", (FRONTIER,),
         why="the published design re-runs none")  # fmt: skip
class _NoRerun(Frontier):
    def extend_rerun_lens(self, batch: ExtendBatch) -> list[int]:
        return [0] * len(batch.prefix_lens)


@planted("rerun_one_row_short", "a short final chunk re-runs one row too few", "FO201", (FRONTIER,),
         why="the published design re-runs none")  # fmt: skip
class _RerunOneRowShort(Frontier):
    def extend_rerun_lens(self, batch: ExtendBatch) -> list[int]:
        return [max(rows - 1, 0) for rows in super().extend_rerun_lens(batch)]


@planted("chunk_sample_first_row", "a chunk is sampled at its first row", "FO105")
class _ChunkSampleFirstRow(Frontier):
    def extend_sample_rows(self, layout: ChunkLayout) -> Tensor:
        return layout.query_start_loc[:-1]


# ---- the stash behind a chunk ---------------------------------------------------------------------------------------


@planted("short_chunk_leaves_stash", "a chunk shorter than the stash does not update it", "FO206")
class _ShortChunkLeavesStash(Frontier):
    def extend_stash(self, tokens: Tensor, hidden: Tensor, layout: ChunkLayout) -> tuple[Tensor, Tensor]:
        bs, m = layout.tail_source.shape
        kept = torch.arange(bs * m).view(bs, m)
        short = layout.tail_source[:, :1] < bs * m
        source = torch.where(short, kept, layout.tail_source)
        return tokens[source], hidden[source]


@planted("short_chunk_borrows_nothing", "a chunk shorter than the stash fills it up with zeros", "FO206")
class _ShortChunkBorrowsNothing(Frontier):
    def extend_stash(self, tokens: Tensor, hidden: Tensor, layout: ChunkLayout) -> tuple[Tensor, Tensor]:
        own = layout.tail_source >= layout.tail_source.numel()
        tokens, hidden = super().extend_stash(tokens, hidden, layout)
        return tokens * own, hidden * own[..., None]


@planted("short_chunk_borrows_from_neighbour", "a short chunk borrows from the row before it in the batch", "FO206")
class _ShortChunkBorrowsFromNeighbour(Frontier):
    def extend_stash(self, tokens: Tensor, hidden: Tensor, layout: ChunkLayout) -> tuple[Tensor, Tensor]:
        bs, m = layout.tail_source.shape
        source = bs * m + layout.ends[:, None] + torch.arange(1 - m, 1)
        return tokens[source], hidden[source]


@planted("stash_keeps_placeholder", "the stash of a chunk ends with the placeholder -1", "FO206")
class _StashKeepsPlaceholder(Frontier):
    def extend_stash(self, tokens: Tensor, hidden: Tensor, layout: ChunkLayout) -> tuple[Tensor, Tensor]:
        kept, rows = super().extend_stash(tokens, hidden, layout)
        return torch.cat([kept[:, :-1], torch.full_like(kept[:, -1:], PLACEHOLDER)], dim=1), rows


@planted("stash_hidden_of_last_owner", "a new request resets the stash's tokens and keeps its hiddens", "FO206")
class _StashHiddenOfLastOwner(Watching):
    def extend_stash(self, tokens: Tensor, hidden: Tensor, layout: ChunkLayout) -> tuple[Tensor, Tensor]:
        rows, kept = super().extend_stash(tokens, hidden, layout)
        starts = (layout.prefix_lens == 0)[:, None, None]
        return rows, torch.where(starts, self._stash.hidden[self.batch.req_pool_indices.long()], kept)
