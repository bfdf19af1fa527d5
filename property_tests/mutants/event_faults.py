"""Faults that show when a serving engine does more than decode: late rows, resumes, media ids (S16, S19, S20, S26)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, ExtendBatch
from frontier_oracle.property_tests.mutants.planting import FRONTIER, Watching, planted
from frontier_oracle.reference_impl.frontier import Frontier

NO_MEDIA = "the published design is held to text prompts"


class _Rows(Frontier):
    """Remembers, row by row, what the last decode round was given."""

    last: DecodeBatch | None = None

    def before(self, batch: DecodeBatch) -> DecodeBatch:
        """The batch of the round before, ``batch`` itself where that had another size."""
        before, self.last = self.last, batch
        return batch if before is None or len(before.seq_lens) != len(batch.seq_lens) else before


@planted("idle_row_keeps_its_slot", "a masked row keeps the slot that its row had in the round before", "FO205")
class _IdleRowKeepsItsSlot(_Rows):
    def decode(self, batch: DecodeBatch) -> Tensor:
        before = self.before(batch)
        slots = torch.where(batch.req_pool_indices > 0, batch.req_pool_indices, before.req_pool_indices)
        return super().decode(replace(batch, req_pool_indices=slots))


@planted("idle_row_keeps_its_pages", "a masked row writes through the page table of the round before", "FO205")
class _IdleRowKeepsItsPages(_Rows):
    """Persistent buffers, of which only the live rows are filled again."""

    def decode(self, batch: DecodeBatch) -> Tensor:
        before = self.before(batch)
        idle = batch.req_pool_indices == 0
        tables = zip(batch.page_table, before.page_table, strict=True)
        stale = replace(
            batch,
            req_pool_indices=torch.where(idle, before.req_pool_indices, batch.req_pool_indices),
            seq_lens=torch.where(idle, before.seq_lens, batch.seq_lens),
            page_table=tuple(torch.where(idle[:, None], old, new) for new, old in tables),
        )
        return super().decode(stale)


@planted("dummy_takes_no_rows", "a dummy row has no inputs of its own, so the rows behind it get those before", "FO101")
class _DummyTakesNoRows(Frontier):
    """A dummy of prompt length 0 is counted as no tokens where the inputs are packed."""

    def decode(self, batch: DecodeBatch) -> Tensor:
        packed = ((batch.req_pool_indices > 0).cumsum(0) - 1).clamp(min=0)
        hidden = batch.hidden.view(len(packed), self.k, -1)[packed].flatten(0, 1)
        return super().decode(replace(batch, verify_ids=batch.verify_ids[packed], hidden=hidden))


@planted("accepts_of_last_rows", "accept lengths are those of the same row in the round before", "FO202",
         why="a count that is too small ends the window before the frontier")  # fmt: skip
class _AcceptsOfLastRows(_Rows):
    """Row order changed in between: counts belong to requests, not to rows."""

    def decode(self, batch: DecodeBatch) -> Tensor:
        before = self.before(batch)
        return super().decode(replace(batch, accept_lengths=before.accept_lengths))


@planted("idle_accepts_nothing", "a masked row counts as accept length 0, so it gathers row -1", "FO205")
class _IdleAcceptsNothing(Watching):
    """The last live row takes the place of a row that is not there."""

    def decode(self, batch: DecodeBatch) -> Tensor:
        idle = batch.req_pool_indices == 0
        last = batch.req_pool_indices.amax().expand_as(batch.req_pool_indices)
        return super().decode(replace(batch, req_pool_indices=torch.where(idle, last, batch.req_pool_indices)))


@planted("mid_chunk_not_run", "a chunk that samples nothing is not run through the draft heads", "FO202")
class _MidChunkNotRun(Frontier):
    def extend(self, batch: ExtendBatch) -> Tensor:
        if any(batch.is_final):
            return super().extend(batch)
        return batch.sampled_ids.new_zeros(len(batch.extend_lens), self.steps + 1)


@planted("dummy_drafts_for_all", "one request past the drafter's longest sequence, and the whole batch gets dummies",
         "FO108")  # fmt: skip
class _DummyDraftsForAll(Frontier):
    """They are verified and counted like real ones."""

    def decode(self, batch: DecodeBatch) -> Tensor:
        result = super().decode(batch)
        result[:, 1:] *= (batch.seq_lens < 12).all()
        return result


@planted("media_ids_kept", "content hashes reach the draft heads", "FO101", (FRONTIER,), why=NO_MEDIA)
class _MediaIdsKept(Frontier):
    def in_vocabulary(self, ids: Tensor) -> Tensor:
        return ids


@planted("media_ids_of_one_modality", "every content hash gets the first modality's id", "FO101", (FRONTIER,),
         why=NO_MEDIA)  # fmt: skip
class _MediaIdsOfOneModality(Frontier):
    def in_vocabulary(self, ids: Tensor) -> Tensor:
        media = self.config.media
        return ids if media is None else torch.where(ids >= media.vocab_size, media.substitutes[0][2], ids)


@planted("media_placeholder_replaced", "the placeholder -1 is taken for media, as if it were a hash", "FO101",
         (FRONTIER,), why=NO_MEDIA)  # fmt: skip
class _MediaPlaceholderReplaced(Frontier):
    def in_vocabulary(self, ids: Tensor) -> Tensor:
        media = self.config.media
        ids = super().in_vocabulary(ids)
        return ids if media is None else torch.where(ids < 0, media.substitutes[0][2], ids)


@planted("lookahead_not_in_vocabulary", "content hashes behind a chunk are not replaced", "FO101", (FRONTIER,),
         why=NO_MEDIA)  # fmt: skip
class _LookaheadNotInVocabulary(Frontier):
    def extend_next(self, batch: ExtendBatch, i: int, own: Tensor) -> Tensor:
        if i == self.steps:
            return own
        return torch.where(batch.next_ids[:, i] >= 0, batch.next_ids[:, i], own)
