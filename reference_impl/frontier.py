"""The frontier drafter: after every verification, all depths re-run the k rows that end at the new frontier.

A verify round commits a tokens, so the frontier moves from F to F' = F + a. The rows F'-k..F'-1 then run through
every depth: depth d at position p consumes the token at p+d+1, which is committed up to F' and this round's own draft
beyond (S1, S5..S9). Only accepted tokens enter the window, so nothing garbage is ever written; and with steps <= k no
row leaves the window while it still holds a draft that may be rejected (S4). What the window needs from before F, the
last k-1 tokens and target hiddens, stands in the stash.

Each index term is a method of its own: to read, and to be replaced by a planted fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import (
    DecodeBatch,
    DraftConfig,
    DraftModel,
    ExtendBatch,
    ForwardInputs,
    StashView,
)
from frontier_oracle.oracle.errors import DataParallelUnsupported, HiddenSemanticUnsupported, MixedBatchUnsupported
from frontier_oracle.reference_impl import window
from frontier_oracle.reference_impl.chunk_terms import ChunkTerms
from frontier_oracle.reference_impl.extend import ChunkLayout, chunk_layout, shift_one
from frontier_oracle.reference_impl.media import check_substitutes, substitute_
from frontier_oracle.reference_impl.pages import locations
from frontier_oracle.reference_impl.stash import Stash


class Frontier(ChunkTerms):
    """The exact drafter: prompt lookahead, re-run rows, masked rows, stash with valid lengths.

    Raises HiddenSemanticUnsupported for ``shifted`` heads, which k rows cannot keep exact (S1), DataParallelUnsupported
    for a data-parallel size above 1 (S15), MediaSubstituteMissing for media ids that it cannot replace (S16).
    """

    capabilities: ClassVar[frozenset[str]] = frozenset(
        {"extend", "adopt", "padding", "stash", "load_stash", "device_only", "media", "refusals"}
    )
    prefix_policy: ClassVar[str] = "successor"

    def __init__(self, config: DraftConfig, model: DraftModel) -> None:
        spec = config.spec
        if spec.hidden not in ("chain", "target"):
            raise HiddenSemanticUnsupported(f"hidden={spec.hidden}: k rows are exact for chain and target (S1, S4)")
        if config.dp_size > 1:
            raise DataParallelUnsupported(f"dp_size={config.dp_size}: one drafter serves one rank's requests (S15)")
        check_substitutes(config.media)
        self.config, self.model, self.spec = config, model, spec
        self.k, self.steps = spec.k, spec.steps
        dtype = getattr(torch, config.dtype)
        self._stash = Stash(config.num_slots, spec.k, config.hidden_size, dtype, config.device)

    def init_forward_metadata(self, mode: str) -> None:
        """Raises MixedBatchUnsupported for extend and decode rows in one forward (S15)."""
        if mode == "mixed":
            raise MixedBatchUnsupported("mixed batch: run its extend rows and its decode rows in rounds of their own")

    # ---- decode -------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def decode(self, batch: DecodeBatch) -> Tensor:
        """One round after its verification. Returns [bs, steps+1] int32: v[a-1], then the drafts (S10)."""
        bs = len(batch.seq_lens)
        slots = batch.req_pool_indices.long()
        frontier = self.new_frontier(batch.seq_lens, batch.accept_lengths)
        source = self.window_source_rows(batch.accept_lengths)
        positions = self.window_positions(frontier)
        valid = self.window_valid(slots, source, positions)

        ids = window.mask_rows(self.window_ids(slots, batch.verify_ids, source), valid)
        hidden = window.mask_rows(self.window_hidden(slots, batch.hidden.view(bs, self.k, -1), source), valid)
        valid_lens = self.next_valid_lens(slots, batch.accept_lengths)
        self._stash.write(slots, *self.next_stash(ids, hidden), valid_lens)

        request = torch.arange(bs, device=slots.device)[:, None]
        locs = self.write_locations(batch.page_table, request, self.window_write_positions(frontier), valid)
        buffer = window.id_buffer(ids, self.steps)
        drafts = self.run_depths(
            ForwardInputs(
                depth=0,
                input_ids=ids.flatten(),
                positions=window.mask_rows(positions, valid).flatten(),
                hidden=hidden.flatten(0, 1),
                out_cache_loc=tuple(loc.flatten() for loc in locs),
                query_start_loc=window.query_start_loc(bs, self.k, slots.device),
                seq_lens=self.window_seq_lens(frontier),
                page_table=batch.page_table,
                conv_slots=batch.req_pool_indices,
                sample_rows=self.sample_rows(bs),
            ),
            depth_ids=lambda d: window.mask_rows(self.depth_ids(buffer, d), valid).flatten(),
            append=lambda d, tokens: self.append_draft(buffer, d, tokens),
        )
        return torch.cat([self.column0(batch.verify_ids, batch.accept_lengths)[:, None], drafts], dim=1)

    def new_frontier(self, seq_lens: Tensor, accept_lengths: Tensor) -> Tensor:
        """F' = F + a: position of the last token that the round committed. [bs] int32."""
        return seq_lens + accept_lengths

    def window_source_rows(self, accept_lengths: Tensor) -> Tensor:
        """Row a-1+j of [stash ‖ verify] for window row j (S5, S6). [bs, k] int64."""
        return window.source_rows(accept_lengths, self.k)

    def window_ids(self, slots: Tensor, verify_ids: Tensor, source: Tensor) -> Tensor:
        """Depth 0's ids x[F'-k+j+1] (S5). verify_ids [bs, k] -> [bs, k] int32."""
        return window.gather_history(self._stash.tokens[slots], verify_ids, source)

    def window_hidden(self, slots: Tensor, verify_hidden: Tensor, source: Tensor) -> Tensor:
        """Depth 0's hiddens h(F'-k+j) (S6). verify_hidden [bs, k, H] -> [bs, k, H]."""
        return window.gather_history(self._stash.hidden[slots], verify_hidden, source)

    def window_positions(self, frontier: Tensor) -> Tensor:
        """Positions F'-k+j (S9). [bs, k] int32, below 0 where the request is shorter than the window."""
        return window.positions(frontier, self.k)

    def window_write_positions(self, frontier: Tensor) -> Tensor:
        """The positions whose cache locations the rows write: their own (S9)."""
        return self.window_positions(frontier)

    def window_valid(self, slots: Tensor, source: Tensor, positions: Tensor) -> Tensor:
        """Rows that run: of a live slot, at a position >= 0, from a source that the stash can vouch for. [bs, k].

        The others are masked: after a prefix hit they would rewrite shared pages from another request's tokens (S21).
        """
        covered = window.within_stash(source, self._stash.valid_lens[slots], self.k)
        return covered & (positions >= 0) & (slots > 0)[:, None]

    def window_seq_lens(self, frontier: Tensor) -> Tensor:
        """Extent of attention and conv: the frontier (S9). [bs] int32."""
        return frontier

    def sample_rows(self, bs: int) -> Tensor:
        """The window's last row, r*k + k-1 (S9). [bs] int32."""
        return window.sample_rows(bs, self.k, torch.device(self.config.device))

    def depth_ids(self, buffer: Tensor, depth: int) -> Tensor:
        """Depth d's ids are depth 0's rolled left d times with the drafts appended: one slice (S7). [bs, k]."""
        return buffer[:, depth : depth + self.k]

    def append_draft(self, buffer: Tensor, depth: int, tokens: Tensor) -> None:
        """Depth d sampled draft d+1, for position F'+d+1: column k+d (S7)."""
        buffer[:, self.k + depth] = tokens

    def column0(self, verify_ids: Tensor, accept_lengths: Tensor) -> Tensor:
        """v[a-1], the last committed token (S10). [bs] int32."""
        return verify_ids.gather(1, accept_lengths.long()[:, None] - 1)[:, 0]

    def next_stash(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The tail [:, 1:] of depth 0's window (S8): tokens [bs, k-1], hiddens [bs, k-1, H]."""
        return ids[:, 1:], hidden[:, 1:]

    def next_valid_lens(self, slots: Tensor, advance: Tensor) -> Tensor:
        """Valid entries after ``advance`` more positions; none for slot 0 (S20). [bs] int32."""
        grown = (self._stash.valid_lens[slots] + advance).clamp(max=self.k - 1)
        return torch.where(slots > 0, grown, 0)

    # ---- extend -------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def extend(self, batch: ExtendBatch) -> Tensor:
        """Prompt chunks (S12..S14). Returns [bs, steps+1] int32; rows of chunks that end no prompt are discarded."""
        device = self.config.device
        slots = batch.req_pool_indices.long()
        starting = [r for r, s in enumerate(batch.prefix_lens) if s == 0]
        self.reset_slot(slots[torch.tensor(starting, dtype=torch.int64, device=device)])
        layout = chunk_layout(
            batch.prefix_lens, batch.extend_lens, self.extend_rerun_lens(batch), self.k, self.steps
        ).to(device)
        valid = self.extend_valid(slots, layout)

        ids = self.extend_ids(batch, layout)
        sources = torch.cat([self._stash.tokens[slots].flatten(), ids])
        hidden_sources = torch.cat([self._stash.hidden[slots].flatten(0, 1), batch.hidden])
        hidden = window.mask_rows(hidden_sources[layout.source], valid)
        extend_lens = torch.tensor(batch.extend_lens, dtype=torch.int32, device=device)
        valid_lens = self.next_valid_lens(slots, extend_lens)
        self._stash.write(slots, *self.extend_stash(sources, hidden_sources, layout), valid_lens)

        buffer = sources.new_full((layout.buffer_len,), -1)
        buffer[layout.row_at] = sources[layout.source]
        drafts = self.run_depths(
            ForwardInputs(
                depth=0,
                input_ids=window.mask_rows(self.extend_depth_ids(buffer, layout, 0), valid),
                positions=window.mask_rows(self.extend_positions(layout), valid),
                hidden=hidden,
                out_cache_loc=self.write_locations(
                    batch.page_table, layout.request, self.extend_positions(layout), valid
                ),
                query_start_loc=layout.query_start_loc,
                seq_lens=self.extend_seq_lens(batch),
                page_table=batch.page_table,
                conv_slots=batch.req_pool_indices,
                sample_rows=self.extend_sample_rows(layout),
            ),
            depth_ids=lambda d: window.mask_rows(self.extend_depth_ids(buffer, layout, d), valid),
            append=lambda d, tokens: self.extend_append(buffer, layout, batch, d, tokens),
        )
        return torch.cat([batch.sampled_ids[:, None], drafts], dim=1)

    def extend_valid(self, slots: Tensor, layout: ChunkLayout) -> Tensor:
        """Rows that run: the chunk's, and the re-run rows that the stash can vouch for. [N] bool."""
        first = layout.prefix_lens - self._stash.valid_lens[slots]
        return layout.positions >= first[layout.request]

    def extend_ids(self, batch: ExtendBatch, layout: ChunkLayout) -> Tensor:
        """The chunks' shift-1 ids, tokens s+1..s+n, each placeholder replaced before a depth reads it (S13). int32."""
        shifted = self.in_vocabulary(shift_one(batch.input_ids, layout.ends))
        shifted[layout.ends] = self.extend_next(batch, 0, batch.sampled_ids)
        return shifted

    def extend_next(self, batch: ExtendBatch, i: int, own: Tensor) -> Tensor:
        """The token at C+i: of the prompt where it is known (lookahead), else ``own`` (S12). [bs] int32.

        ``own`` is the sampled token (i = 0) or this round's draft i.
        """
        if i == self.steps:
            return own
        known = self.in_vocabulary(batch.next_ids[:, i].clone())
        return torch.where(known >= 0, known, own)

    def in_vocabulary(self, ids: Tensor) -> Tensor:
        """Prompt ids with every content hash replaced, in place; -1 stays (S16)."""
        return substitute_(ids, self.config.media)

    def extend_append(
        self, buffer: Tensor, layout: ChunkLayout, batch: ExtendBatch, depth: int, tokens: Tensor
    ) -> None:
        """Depth d sampled draft d+1, which stands for position C+d+1 unless the prompt's token is known (S12)."""
        buffer[layout.last_at + depth + 1] = self.extend_next(batch, depth + 1, tokens)

    # ---- both ---------------------------------------------------------------------------------------------------

    def run_depths(
        self, first: ForwardInputs, depth_ids: Callable[[int], Tensor], append: Callable[[int, Tensor], None]
    ) -> Tensor:
        """Run depths 0..steps-1 over the same rows; each depth's draft is the next one's last id. [bs, steps] int32."""
        drafts = []
        output = first.hidden
        for depth in range(self.steps):
            inputs = replace(
                first, depth=depth, input_ids=depth_ids(depth), hidden=self.depth_hidden(depth, first.hidden, output)
            )
            output, tokens = self.model.forward(inputs)
            append(depth, tokens)
            drafts.append(tokens)
        return torch.stack(drafts, dim=1)

    def depth_hidden(self, depth: int, target: Tensor, previous: Tensor) -> Tensor:
        """What depth d >= 1 consumes beside its token: O(d-1,p) of chain heads, h(p) of target heads (S1). [n, H]."""
        return previous if self.spec.hidden == "chain" else target

    def write_locations(
        self, page_table: tuple[Tensor, ...], request: Tensor, positions: Tensor, valid: Tensor
    ) -> tuple[Tensor, ...]:
        """Locations of ``positions`` in every cache group (S17); masked rows go to the null page."""
        groups = zip(self.spec.groups, page_table, strict=True)
        return tuple(
            window.mask_rows(locations(table, group.page_size, request, positions), valid) for group, table in groups
        )

    # ---- slots --------------------------------------------------------------------------------------------------

    def reset_slot(self, slot: int | Tensor) -> None:
        """A request starts in ``slot`` (one, or an index of several): the last owner's stash is void (S19)."""
        self._stash.valid_lens[slot] = 0

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        """A request takes ``slot`` after a prefix hit of ``length``: no stash, conv taps from the checkpoint (S21)."""
        self.reset_slot(slot)
        self.model.load_conv_state(slot, pages[(length - 1) // self.spec.groups[0].page_size], length)

    def release(self, slot: int) -> None:
        """The request in ``slot`` ended. Its successor resets the slot."""

    def stash(self) -> StashView:
        """The stash as it stands, for checking."""
        return StashView(self._stash.tokens, self._stash.hidden, self._stash.valid_lens)

    def load_stash(self, slots: Tensor, tokens: Tensor, hidden: Tensor, valid_lens: Tensor) -> None:
        """Set the stash of ``slots`` [b]: tokens [b, k-1], hidden [b, k-1, H], valid_lens [b]."""
        self._stash.write(slots.long(), tokens, hidden, valid_lens)


def make(config: DraftConfig, model: DraftModel) -> Frontier:
    """The plug-in entry point."""
    return Frontier(config, model)
