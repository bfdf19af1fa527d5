"""Faults of what stays between rounds: stash, slots, conv ring, checkpoints, shared pages (S8, S18, S19, S21)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, ForwardInputs
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.mutants.planting import FRONTIER, Watching, planted
from frontier_oracle.reference_impl.frontier import Frontier
from frontier_oracle.reference_impl.stash import Stash

NO_RESET = "the published design resets no slot and keeps no valid length"

# ---- stash ----------------------------------------------------------------------------------------------------------


@planted("stash_not_rolled", "the stash is not rolled after a round", "FO206")
class _StashNotRolled(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        tokens, hidden = self._stash.tokens.clone(), self._stash.hidden.clone()
        result = super().decode(batch)
        self._stash.tokens.copy_(tokens)
        self._stash.hidden.copy_(hidden)
        return result


@planted("stash_rolled_by_k", "the stash is rolled by k, as if everything had been accepted", "FO206")
class _StashRolledByK(Watching):
    def next_stash(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        verify = self.batch.hidden.view(len(ids), self.k, -1)
        return self.batch.verify_ids[:, 1:], verify[:, 1:]


@planted("stash_tokens_one_behind", "the stash keeps the window's first k-1 tokens, not its last", "FO206")
class _StashTokensOneBehind(Frontier):
    def next_stash(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return ids[:, :-1], hidden[:, 1:]


@planted("stash_hidden_one_behind", "the stash keeps the window's first k-1 hiddens, not its last", "FO206")
class _StashHiddenOneBehind(Frontier):
    def next_stash(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return ids[:, 1:], hidden[:, :-1]


@planted("stash_written_by_row", "the stash is written at the batch row instead of the slot", "FO206")
class _StashWrittenByRow(Frontier):
    def __init__(self, config: DraftConfig, model: DraftModel) -> None:
        super().__init__(config, model)
        self._stash.__class__ = _StashByRow


class _StashByRow(Stash):
    def write(self, slots: Tensor, tokens: Tensor, hidden: Tensor, valid_lens: Tensor) -> None:
        rows = torch.arange(1, len(slots) + 1).clamp(max=len(self.tokens) - 1)
        super().write(torch.where(slots > 0, rows, 0), tokens, hidden, valid_lens)


@planted("valid_length_ignored", "the stash's valid length is not looked at", "FO209", (FRONTIER,),
         why="rows that the stash cannot vouch for lie below the hit, on shared pages; " + NO_RESET)  # fmt: skip
class _ValidLengthIgnored(Frontier):
    def window_valid(self, slots: Tensor, source: Tensor, positions: Tensor) -> Tensor:
        return (positions >= 0) & (slots > 0)[:, None]


@planted("valid_length_lost", "the stash's valid length counts the last round only", "FO206", (FRONTIER,), why=NO_RESET)
class _ValidLengthLost(Frontier):
    def next_valid_lens(self, slots: Tensor, advance: Tensor) -> Tensor:
        return torch.where(slots > 0, advance.clamp(max=self.k - 1), 0)


@planted("valid_length_one_long", "the stash's valid length is one too long", "FO206", (FRONTIER,), why=NO_RESET)
class _ValidLengthOneLong(Frontier):
    def next_valid_lens(self, slots: Tensor, advance: Tensor) -> Tensor:
        return super().next_valid_lens(slots, advance + 1)


# ---- slots ----------------------------------------------------------------------------------------------------------


@planted("slot_not_reset", "a new request finds the last owner's valid length", "FO206", (FRONTIER,), why=NO_RESET)
class _SlotNotReset(Frontier):
    def reset_slot(self, slot: int | Tensor) -> None:
        pass


@planted("slot_not_reset_after_hit", "a request with a prefix hit finds the last owner's valid length", "FO206",
         (FRONTIER,), why=NO_RESET)  # fmt: skip
class _SlotNotResetAfterHit(Frontier):
    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        kept = self._stash.valid_lens[slot].clone()
        super().adopt(slot, pages, length)
        self._stash.valid_lens[slot] = kept


@planted("release_clears_next_slot", "a release clears the stash of the slot behind its own", "FO206")
class _ReleaseClearsNextSlot(Frontier):
    def release(self, slot: int) -> None:
        super().release(slot)
        self._stash.tokens[slot + 1 :] = 0
        self._stash.hidden[slot + 1 :] = 0


@planted("padding_clears_slot_1", "padded rows write their empty stash to slot 1", "FO206")
class _PaddingClearsSlot1(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        result = super().decode(batch)
        padded = (batch.req_pool_indices == 0).any()
        self._stash.tokens[1] *= ~padded
        self._stash.hidden[1] *= ~padded
        return result


# ---- conv ring and checkpoints --------------------------------------------------------------------------------------


def _two_rows_short(spec: Spec) -> int:
    return max(1, spec.taps + spec.k - 2)


@planted("ring_two_rows_short", "the conv ring is two rows short", "FO207", ring_rows=_two_rows_short,
         why="one row short is never seen: a window's first tap lies (W-1)+k-1 rows behind its last row")  # fmt: skip
class _RingTwoRowsShort(Frontier):
    pass


@planted("ring_not_restored", "after a prefix hit the conv ring is not restored", "FO207")
class _RingNotRestored(Frontier):
    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        self.reset_slot(slot)


@planted("ring_restored_from_first_page", "after a prefix hit the conv ring comes from the first page", "FO207")
class _RingRestoredFromFirstPage(Frontier):
    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        super().adopt(slot, [pages[0]] * len(pages), length)


@planted("ring_restored_one_early", "after a prefix hit the conv ring is restored one row early", "FO207")
class _RingRestoredOneEarly(Frontier):
    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        self.reset_slot(slot)
        self.model.load_conv_state(slot, pages[(length - 1) // self.spec.groups[0].page_size], length - 1)


@planted("checkpoint_published_once", "a page's checkpoint is not published again when its rows are run again", "FO208")
class _CheckpointPublishedOnce(Frontier):
    """A window that reaches a page's end publishes this round's drafts; later windows must correct that."""

    def __init__(self, config: DraftConfig, model: DraftModel) -> None:
        super().__init__(config, _PublishesOnce(model))


class _PublishesOnce:
    def __init__(self, model: Any) -> None:
        self._model, self._fresh = model, model.ckpt.clone()
        self.load_conv_state = model.load_conv_state

    def forward(self, inputs: ForwardInputs) -> tuple[Any, Any]:
        before = self._model.ckpt.clone()
        result = self._model.forward(inputs)
        published = before != self._fresh
        self._model.ckpt.copy_(torch.where(published, before, self._model.ckpt))
        return result


# ---- shared pages ---------------------------------------------------------------------------------------------------


@planted("pages_keyed_by_tokens", "prefix pages are keyed by their own tokens, not by the successors too", "FO201",
         (FRONTIER,), why="the published policy; what is stale is the donor's continuation")  # fmt: skip
class _PagesKeyedByTokens(Frontier):
    prefix_policy: ClassVar[str] = "tokens"


@planted("pages_keyed_by_bigrams", "prefix pages are keyed by one token behind them, however many depths", "FO201",
         (FRONTIER,), why="the policy of one-layer drafters: deeper ones keep the donor's continuation")  # fmt: skip
class _PagesKeyedByBigrams(Frontier):
    prefix_policy: ClassVar[str] = "bigram"


@planted("last_page_dropped", "the last matched page is run again, though it may be smaller than steps", "FO201",
         (FRONTIER,), why="of pages smaller than steps one is too little")  # fmt: skip
class _LastPageDropped(Frontier):
    prefix_policy: ClassVar[str] = "drop_last"


@planted("pages_finalized_only", "a donor gives out what it will not rewrite, keyed by its own tokens", "FO201",
         (FRONTIER,), why="what is final for the donor is still the donor's continuation")  # fmt: skip
class _PagesFinalizedOnly(Frontier):
    prefix_policy: ClassVar[str] = "finalized"


@planted("stash_assumed_after_hit", "after a prefix hit all k-1 stash entries are taken as valid", "FO206", (FRONTIER,),
         why=NO_RESET)  # fmt: skip
class _StashAssumedAfterHit(Frontier):
    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        super().adopt(slot, pages, length)
        self._stash.valid_lens[slot] = self.k - 1
