"""Faults of the decode window: what a row consumes, which row is sampled, what comes back (S1..S8, S10)."""

from __future__ import annotations

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch
from frontier_oracle.property_tests.mutants.planting import Watching, planted
from frontier_oracle.reference_impl import window
from frontier_oracle.reference_impl.frontier import Frontier


def _shift(source: Tensor, by: int, k: int) -> Tensor:
    """History rows ``by`` further on, kept inside the 2k-1 rows there are."""
    return (source + by).clamp(0, 2 * k - 2)


# ---- the window as a whole ------------------------------------------------------------------------------------------


@planted("window_behind", "the window ends one row before the frontier when drafts were accepted", "FO202")
class _WindowBehind(Frontier):
    """The bonus token is not counted: rows F'-k-1..F'-2, and nothing writes F'-1."""

    def new_frontier(self, seq_lens: Tensor, accept_lengths: Tensor) -> Tensor:
        return super().new_frontier(seq_lens, (accept_lengths - 1).clamp(min=1))

    def window_source_rows(self, accept_lengths: Tensor) -> Tensor:
        return super().window_source_rows((accept_lengths - 1).clamp(min=1))


@planted("window_of_verify", "the rows stay at F-k+1..F, as if one token had been accepted", "FO202")
class _WindowOfVerify(Frontier):
    def new_frontier(self, seq_lens: Tensor, accept_lengths: Tensor) -> Tensor:
        return super().new_frontier(seq_lens, torch.ones_like(accept_lengths))

    def window_source_rows(self, accept_lengths: Tensor) -> Tensor:
        return super().window_source_rows(torch.ones_like(accept_lengths))


@planted("frontier_without_bonus", "rows are placed for a frontier that leaves the bonus token out", "FO202",
         why="position, location and extent agree, so rows stand one place early and none at F'-1")  # fmt: skip
class _FrontierWithoutBonus(Frontier):
    def new_frontier(self, seq_lens: Tensor, accept_lengths: Tensor) -> Tensor:
        return super().new_frontier(seq_lens, accept_lengths) - 1


@planted("window_one_row_short", "a window of k-1 rows leaves a hole behind a full accept", "FO202")
class _WindowOneRowShort(Frontier):
    def window_valid(self, slots: Tensor, source: Tensor, positions: Tensor) -> Tensor:
        return super().window_valid(slots, source, positions) & (torch.arange(self.k) > 0)


# ---- depth 0: ids and hiddens ---------------------------------------------------------------------------------------


@planted("rows_before", "ids and hiddens are spliced one row early", "FO101")
class _RowsBefore(Frontier):
    def window_source_rows(self, accept_lengths: Tensor) -> Tensor:
        return _shift(super().window_source_rows(accept_lengths), -1, self.k)


@planted("ids_at_accept", "ids are spliced at accept instead of accept-1", "FO101")
class _IdsAtAccept(Frontier):
    def window_ids(self, slots: Tensor, verify_ids: Tensor, source: Tensor) -> Tensor:
        return super().window_ids(slots, verify_ids, _shift(source, 1, self.k))


@planted("hidden_at_accept", "hiddens are spliced at accept instead of accept-1", "FO102")
class _HiddenAtAccept(Frontier):
    def window_hidden(self, slots: Tensor, verify_hidden: Tensor, source: Tensor) -> Tensor:
        return super().window_hidden(slots, verify_hidden, _shift(source, 1, self.k))


@planted("hidden_row_before", "each row gets the hidden of the row before", "FO102")
class _HiddenRowBefore(Frontier):
    def window_hidden(self, slots: Tensor, verify_hidden: Tensor, source: Tensor) -> Tensor:
        return super().window_hidden(slots, verify_hidden, _shift(source, -1, self.k))


@planted("hidden_of_last_verify_row", "the sampled row is seeded by the last verify hidden, not by accept-1", "FO203")
class _HiddenOfLastVerifyRow(Frontier):
    def window_hidden(self, slots: Tensor, verify_hidden: Tensor, source: Tensor) -> Tensor:
        last = torch.full_like(source[:, -1:], 2 * self.k - 2)
        return super().window_hidden(slots, verify_hidden, torch.cat([source[:, :-1], last], dim=1))


@planted("junk_past_accept", "the last row consumes v[a], which is past the accepted prefix", "FO203")
class _JunkPastAccept(Frontier):
    def window_ids(self, slots: Tensor, verify_ids: Tensor, source: Tensor) -> Tensor:
        source = torch.cat([source[:, :-1], _shift(source[:, -1:], 1, self.k)], dim=1)
        return super().window_ids(slots, verify_ids, source)


@planted("accept_of_first_row", "the splice uses the accept length of batch row 0 for every request", "FO101")
class _AcceptOfFirstRow(Frontier):
    def window_ids(self, slots: Tensor, verify_ids: Tensor, source: Tensor) -> Tensor:
        return super().window_ids(slots, verify_ids, source[:1].expand_as(source))


@planted("accepts_baked", "the splice keeps the first round's accept lengths, as a captured host value would", "FO101")
class _AcceptsBaked(Frontier):
    source: Tensor | None = None

    def window_ids(self, slots: Tensor, verify_ids: Tensor, source: Tensor) -> Tensor:
        if self.source is None or self.source.shape != source.shape:
            self.source = source
        return super().window_ids(slots, verify_ids, self.source)


@planted("stash_read_rolled", "ids come from a stash that was rolled before the round read it", "FO101")
class _StashReadRolled(Frontier):
    def window_ids(self, slots: Tensor, verify_ids: Tensor, source: Tensor) -> Tensor:
        rolled = torch.cat([self._stash.tokens[slots][:, 1:], verify_ids[:, :1]], dim=1)
        return window.gather_history(rolled, verify_ids, source)


@planted("stash_read_by_row", "the stash is read at the batch row instead of the slot", "FO101")
class _StashReadByRow(Frontier):
    def window_ids(self, slots: Tensor, verify_ids: Tensor, source: Tensor) -> Tensor:
        rows = torch.arange(1, len(slots) + 1).clamp(max=len(self._stash.tokens) - 1)
        return super().window_ids(rows, verify_ids, source)


# ---- deeper depths --------------------------------------------------------------------------------------------------


@planted("ids_not_rolled", "every depth is given depth 0's ids", "FO101")
class _IdsNotRolled(Frontier):
    def depth_ids(self, buffer: Tensor, depth: int) -> Tensor:
        return super().depth_ids(buffer, 0)


@planted("ids_rolled_by_two", "ids are rolled by two a depth", "FO101")
class _IdsRolledByTwo(Frontier):
    def depth_ids(self, buffer: Tensor, depth: int) -> Tensor:
        return super().depth_ids(torch.cat([buffer, buffer], dim=1), 2 * depth)


@planted("draft_one_column_early", "a draft overwrites the last committed id instead of following it", "FO101")
class _DraftOneColumnEarly(Frontier):
    def append_draft(self, buffer: Tensor, depth: int, tokens: Tensor) -> None:
        super().append_draft(buffer, depth - 1, tokens)


@planted("draft_of_depth_0", "every depth is given depth 0's draft as its last token", "FO101")
class _DraftOfDepth0(Frontier):
    def append_draft(self, buffer: Tensor, depth: int, tokens: Tensor) -> None:
        super().append_draft(buffer, depth, buffer[:, self.k] if depth else tokens)


@planted("hidden_semantic", "chain heads get the target's hiddens, and target heads the outputs below", "FO102")
class _HiddenSemantic(Frontier):
    def depth_hidden(self, depth: int, target: Tensor, previous: Tensor) -> Tensor:
        return super().depth_hidden(depth, previous, target)


@planted("hidden_of_depth_0", "depths from 2 on read depth 0's output instead of the depth below", "FO102")
class _HiddenOfDepth0(Frontier):
    lowest: Tensor

    def depth_hidden(self, depth: int, target: Tensor, previous: Tensor) -> Tensor:
        self.lowest = previous if depth <= 1 else self.lowest
        return super().depth_hidden(depth, target, self.lowest)


@planted("hidden_of_other_row", "a depth reads the output of the row before", "FO102")
class _HiddenOfOtherRow(Frontier):
    def depth_hidden(self, depth: int, target: Tensor, previous: Tensor) -> Tensor:
        return super().depth_hidden(depth, target, previous.roll(1, 0) if depth else previous)


# ---- what is sampled and returned -----------------------------------------------------------------------------------


@planted("sample_accept_row", "the sampled row is the accept row a-1, as in a verify window", "FO105")
class _SampleAcceptRow(Watching):
    def sample_rows(self, bs: int) -> Tensor:
        return super().sample_rows(bs) - self.k + self.batch.accept_lengths


@planted("sample_first_request", "every request samples from the first one's last row", "FO105")
class _SampleFirstRequest(Frontier):
    def sample_rows(self, bs: int) -> Tensor:
        return super().sample_rows(bs)[:1].expand(bs)


@planted("column0_after_accept", "column 0 is v[a]", "FO106")
class _Column0AfterAccept(Frontier):
    def column0(self, verify_ids: Tensor, accept_lengths: Tensor) -> Tensor:
        return super().column0(verify_ids, (accept_lengths + 1).clamp(max=self.k))


@planted("column0_last", "column 0 is the last v, whatever was accepted", "FO106")
class _Column0Last(Frontier):
    def column0(self, verify_ids: Tensor, accept_lengths: Tensor) -> Tensor:
        return verify_ids[:, -1]


@planted("column0_first", "column 0 is v[0]", "FO106")
class _Column0First(Frontier):
    def column0(self, verify_ids: Tensor, accept_lengths: Tensor) -> Tensor:
        return verify_ids[:, 0]


@planted("drafts_reversed", "the drafts are returned deepest first", "FO108")
class _DraftsReversed(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        result = super().decode(batch)
        return torch.cat([result[:, :1], result[:, 1:].flip(1)], dim=1)


@planted("drafts_of_bigger_batch", "after a bigger batch, its result buffer is returned once more", "FO108")
class _DraftsOfBiggerBatch(Frontier):
    last: Tensor | None = None

    def decode(self, batch: DecodeBatch) -> Tensor:
        result, before = super().decode(batch), self.last
        self.last = result
        if before is None or len(before) <= len(result):
            return result
        return torch.cat([result[:, :1], before[: len(result), 1:]], dim=1)
