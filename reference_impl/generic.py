"""One eager drafter that runs any design declaration on tensors.

It reads the same declaration as the oracle's index-level executor and shares nothing else with it, so that the two
check each other. Plain and slow: it reads lengths on the host, gathers by position, and packs rows once a depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, ExtendBatch, ForwardInputs, StashView
from frontier_oracle.oracle.designs import MINIMAL, Design
from frontier_oracle.oracle.errors import (
    DataParallelUnsupported,
    HiddenSemanticUnsupported,
    MixedBatchUnsupported,
    UsageError,
)
from frontier_oracle.reference_impl.generic_rows import Rows, chunk_rows, decode_rows, sampled_position, stash_rows
from frontier_oracle.reference_impl.media import check_substitutes, substitute_
from frontier_oracle.reference_impl.pages import locations


@dataclass
class Sight:
    """What a round knows of its requests: pair i of a request belongs to position base + i.

    tokens [bs, n] x[p+1], hidden [bs, n, H] h(p), base [bs], now [bs] the frontier after the round, ahead [bs, steps]
    prompt tokens at now + i (-1: not known). drafts, sampled: this round's, by depth, [bs] and [bs, H] each.
    outputs [bs, m, H] of the last depth, right-aligned rows; kept [bs, S, H]: depth 0's of earlier rounds, in front.
    """

    tokens: Tensor
    hidden: Tensor
    base: Tensor
    now: Tensor
    ahead: Tensor
    kept: Tensor
    drafts: list[Tensor] = field(default_factory=list)
    sampled: list[Tensor] = field(default_factory=list)
    outputs: Tensor | None = None
    rows: Rows | None = None

    def token(self, q: Tensor) -> Tensor:
        """x[q], the prompt's where it is known ahead, this round's draft beyond. q [bs, m] -> [bs, m] int32."""
        out = self.tokens.gather(1, (q - 1 - self.base[:, None]).clamp(0, self.tokens.shape[1] - 1))
        beyond = q - self.now[:, None]
        for i, draft in enumerate(self.drafts):
            out = torch.where(beyond == i + 1, draft[:, None], out)
        for i in range(self.ahead.shape[1]):
            known = self.ahead[:, i, None]
            out = torch.where((beyond == i) & (known >= 0), known, out)
        return out

    def target_hidden(self, p: Tensor) -> Tensor:
        """h(p). [bs, m] -> [bs, m, H]"""
        return _take(self.hidden, p - self.base[:, None])

    def last_output(self, p: Tensor) -> Tensor:
        """O(d-1, p), before the window the kept ones. [bs, m] -> [bs, m, H]"""
        assert self.outputs is not None and self.rows is not None
        here = _take(self.outputs, p - self.rows.positions[:, :1])
        if len(self.drafts) > 1 or self.kept.shape[1] == 0:
            return here
        before = _take(self.kept, p - self.rows.first[:, None] + self.kept.shape[1])
        return torch.where((p < self.rows.first[:, None])[..., None], before, here)


class DesignSystem:
    """contract.System of a Design.

    Raises HiddenSemanticUnsupported for a head that the design does not serve, UsageError for a design whose rows
    read their own argmax, since a draft model reports the sampled rows' only, DataParallelUnsupported for a
    data-parallel size above 1 (S15), MediaSubstituteMissing for media ids that cannot be replaced (S16).
    """

    def __init__(self, design: Design, config: DraftConfig, model: DraftModel) -> None:
        spec = self.spec = config.spec
        if spec.hidden not in design.hidden:
            raise HiddenSemanticUnsupported(
                f"hidden={spec.hidden}: design {design.name} serves {' or '.join(design.hidden)} heads"
            )
        if design.tokens == "own_argmax":
            raise UsageError(f"design {design.name} reads every row's argmax, which a draft model does not report")
        if config.dp_size > 1:
            raise DataParallelUnsupported(f"dp_size={config.dp_size}: one drafter serves one rank's requests (S15)")
        check_substitutes(config.media)
        self.design, self.model, self.prefix_policy, self.declares = design, model, design.prefix_policy, design.name
        self.media = config.media
        always, stash = {"extend", "adopt", "padding", "media", "refusals"}, {"stash", "load_stash"}
        pairs = design.stash == "pairs" and design.stash_length == "k-1"
        self.capabilities = frozenset(always | stash if pairs else always)
        self.length = stash_rows(design, spec)
        shape, device = (config.num_slots, self.length), config.device
        dtype = getattr(torch, config.dtype)
        self.tokens = torch.zeros(shape, dtype=torch.int32, device=device)
        self.hidden = torch.zeros(*shape, config.hidden_size, dtype=dtype, device=device)
        self.outputs = torch.zeros_like(self.hidden)
        self.valid_lens = torch.zeros(config.num_slots, dtype=torch.int64, device=device)

    def init_forward_metadata(self, mode: str) -> None:
        """Raises MixedBatchUnsupported for extend and decode rows in one forward (S15)."""
        if mode == "mixed":
            raise MixedBatchUnsupported("mixed batch: run its extend rows and its decode rows in rounds of their own")

    @torch.no_grad()
    def decode(self, batch: DecodeBatch) -> Tensor:
        """A round after its verification. Returns [bs, steps+1] int32."""
        spec, slots, frontier = self.spec, batch.req_pool_indices.long(), batch.seq_lens.long()
        accepts, bs = batch.accept_lengths.long(), len(batch.seq_lens)
        tokens = torch.cat([self.tokens[slots], batch.verify_ids], dim=1)
        hidden = torch.cat([self.hidden[slots], batch.hidden.view(bs, spec.k, -1)], dim=1)
        ahead = batch.verify_ids.new_full((bs, 0), -1)
        sight = Sight(tokens, hidden, frontier - self.length, frontier + accepts, ahead, self.outputs[slots])
        covered = frontier - self._held(slots)
        self._update_stash(slots, sight, accepts)
        self._run(
            sight,
            slots,
            batch.page_table,
            lambda depth: decode_rows(self.design, spec, depth, frontier, accepts, covered),
        )
        first = batch.verify_ids.gather(1, accepts[:, None] - 1)
        return torch.cat([first, *(d[:, None] for d in sight.drafts)], dim=1).int()

    @torch.no_grad()
    def extend(self, batch: ExtendBatch) -> Tensor:
        """Prompt chunks. Returns [bs, steps+1] int32."""
        batch = self._in_vocabulary(batch)
        slots = batch.req_pool_indices.long()
        start, lens, final = (
            torch.tensor(given, device=slots.device) for given in (batch.prefix_lens, batch.extend_lens, batch.is_final)
        )
        self.valid_lens[slots[start == 0]] = 0
        sight = self._chunk_sight(batch, slots, start, lens)
        again = torch.zeros_like(lens)
        if self.design.rerun:
            most = torch.minimum((self.spec.steps - lens).clamp(min=0), self.valid_lens[slots])
            again = torch.where(final, most, again)
        self._update_stash(slots, sight, lens)
        self._run(
            sight,
            slots,
            batch.page_table,
            lambda depth: chunk_rows(self.design, depth, start - again, start + lens),
        )
        return torch.cat([batch.sampled_ids[:, None], *(d[:, None] for d in sight.drafts)], dim=1).int()

    def _in_vocabulary(self, batch: ExtendBatch) -> ExtendBatch:
        """The chunks with every content hash of their prompts replaced, and of the lookahead too (S16)."""
        ids, ahead = (substitute_(given.clone(), self.media) for given in (batch.input_ids, batch.next_ids))
        return replace(batch, input_ids=ids, next_ids=ahead)

    def _chunk_sight(self, batch: ExtendBatch, slots: Tensor, start: Tensor, lens: Tensor) -> Sight:
        """The stash's pairs, then the chunk's, whose last token is what the design takes for it."""
        design, bs, most, size = self.design, len(lens), int(lens.max()), self.length
        tokens = torch.cat([self.tokens[slots], self.tokens.new_zeros(bs, most)], dim=1)
        hidden = torch.cat([self.hidden[slots], self.hidden.new_zeros(bs, most, self.hidden.shape[2])], dim=1)
        at = 0
        for r, n in enumerate(batch.extend_lens):
            ids = batch.input_ids[at : at + n]
            sampled = batch.is_final[r] or design.chunk_tail == "sampled"
            last = batch.sampled_ids[r] if sampled else batch.next_ids[r, 0]
            tokens[r, size : size + n] = torch.cat([ids[1:], last[None]])
            hidden[r, size : size + n] = batch.hidden[at : at + n]
            if size and design.chunk_tail in ("sampled", "none"):
                tokens[r, size - 1] = ids[0]
            if design.tokens == "unshifted" and self.valid_lens[slots[r]] == 0:
                hidden[r, size - 1] = 0
            at += n
        ahead = batch.next_ids if design.chunk_tail == "lookahead" else batch.next_ids[:, :0]
        return Sight(tokens, hidden, start - size, start + lens, ahead, self.outputs[slots])

    # -- the depths ---------------------------------------------------------------------------------------------------

    def _run(self, sight: Sight, slots: Tensor, page_table: tuple[Tensor, ...], rows_of: Callable[[int], Rows]) -> None:
        """Run all depths; drafts and outputs are left in ``sight``."""
        for depth in range(self.spec.steps):
            rows = rows_of(depth)
            masked = rows.masked | (slots == 0)[:, None]
            exists, starts = rows.exists, rows.query_start_loc()
            ids = sight.token(rows.positions + self._ahead(depth)).masked_fill(masked, 0)
            hidden = self._hidden(sight, depth, rows.positions).masked_fill(masked[..., None], 0)
            passed = rows.positions.clamp(min=0).masked_fill(masked, 0)
            placed = rows.positions.clamp(min=0)
            if self.design.before_zero == "clamp" and self.design.cells_before_zero == "count_on":
                placed = rows.positions - rows.first.clamp(max=0)[:, None]
            request = torch.arange(len(slots), device=slots.device)[:, None]
            locs = [
                locations(table, group.page_size, request, placed).masked_fill(masked, 0)
                for table, group in zip(page_table, self.spec.groups, strict=True)
            ]
            sample = starts[:-1] + (sampled_position(self.design, depth, sight.now) - rows.first).int()
            outputs, drafts = self.model.forward(
                ForwardInputs(
                    depth=0 if self.design.one_layer else depth,
                    input_ids=ids[exists].int(),
                    positions=passed[exists].int(),
                    hidden=hidden[exists],
                    out_cache_loc=tuple(loc[exists].int() for loc in locs),
                    query_start_loc=starts,
                    seq_lens=rows.end.int(),
                    page_table=page_table,
                    conv_slots=slots.int(),
                    sample_rows=sample,
                )
            )
            sight.outputs = hidden.new_zeros(hidden.shape)
            sight.outputs[exists] = outputs
            sight.rows = rows
            sight.drafts.append(drafts)
            sight.sampled.append(outputs[sample.long()])
            if depth == 0 and self.design.stash == "depth0_outputs":
                behind = sight.now[:, None] - self.length + torch.arange(self.length, device=slots.device)
                live = slots > 0
                self.outputs[slots[live]] = sight.last_output(behind)[live]

    def _ahead(self, depth: int) -> int:
        """How far in front of its row the token stands that a depth consumes."""
        if self.design.tokens == "unshifted":
            return 0
        return 1 if self.design.rows == "advancing" else depth + 1

    def _hidden(self, sight: Sight, depth: int, p: Tensor) -> Tensor:
        """What a depth consumes beside its token. p [bs, m] -> [bs, m, H]"""
        if self.design.tokens == "unshifted":
            out = sight.target_hidden(p - 1)
            for i, sampled in enumerate(sight.sampled):
                out = torch.where((p == sight.now[:, None] + i + 1)[..., None], sampled[:, None], out)
            return out
        if depth == 0 or self.spec.hidden == "target":
            return sight.target_hidden(p)
        if self.design.rows == "advancing":
            return sight.sampled[-1][:, None]
        own = sight.last_output(p)
        if self.spec.hidden == "chain":
            return own
        there = (p + depth < sight.now[:, None])[..., None]
        return torch.where(there, sight.target_hidden(p + depth), own)

    # -- slots --------------------------------------------------------------------------------------------------------

    def _held(self, slots: Tensor) -> Tensor:
        """How many of the stash's entries the design takes for valid. [bs]"""
        if self.design.stash_validity == "valid_lens":
            return self.valid_lens[slots]
        return torch.full_like(slots, self.length)

    def _update_stash(self, slots: Tensor, sight: Sight, advance: Tensor) -> None:
        """Keep the pairs that end at the new frontier; slot 0 keeps nothing (S20)."""
        tail = advance[:, None] + torch.arange(self.length, device=slots.device)
        live = slots > 0
        self.tokens[slots[live]] = sight.tokens.gather(1, tail)[live]
        self.hidden[slots[live]] = _take(sight.hidden, tail)[live]
        self.valid_lens[slots[live]] = (self.valid_lens[slots] + advance).clamp(max=self.length)[live]

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        """A request takes ``slot`` after a prefix hit of ``length``."""
        self.valid_lens[slot] = 0
        self.model.load_conv_state(slot, pages[-1], length)

    def release(self, slot: int) -> None:
        """The request in ``slot`` ended."""

    def stash(self) -> StashView:
        """The stash of designs that keep k-1 pairs."""
        return StashView(
            self.tokens, self.hidden, self.valid_lens if self.design.stash_validity == "valid_lens" else None
        )

    def load_stash(self, slots: Tensor, tokens: Tensor, hidden: Tensor, valid_lens: Tensor) -> None:
        """Set the stash of ``slots`` [b]: tokens [b, k-1], hidden [b, k-1, H], valid_lens [b]."""
        at = slots.long()
        self.tokens[at], self.hidden[at] = tokens.int(), hidden.to(self.hidden.dtype)
        self.valid_lens[at] = valid_lens.long()


def maker(design: Design) -> Callable[[DraftConfig, DraftModel], DesignSystem]:
    """The plug-in entry point of a design: make(config, model)."""
    return lambda config, model: DesignSystem(design, config, model)


minimal = maker(MINIMAL)


def _take(values: Tensor, index: Tensor) -> Tensor:
    """values [bs, n, H] at index [bs, m], clamped -> [bs, m, H]."""
    at = index.clamp(0, max(values.shape[1] - 1, 0))
    return values.gather(1, at[..., None].expand(*at.shape, values.shape[2]))
