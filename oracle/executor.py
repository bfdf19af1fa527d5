"""Runs a design declaration on a timeline, position by position. What it shows is what the design must show.

Its evidence is judged exactly like a tensor system's, so a declared deviation is predicted for any scenario, entry by
entry, and an implementation of the design is held to set equality with it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.calls import CallLog
from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, ExtendBatch
from frontier_oracle.oracle.designs import Design
from frontier_oracle.oracle.digest_model import DigestModel, Rows
from frontier_oracle.oracle.evidence import Evidence, StashImage
from frontier_oracle.oracle.ledger import locations_of
from frontier_oracle.oracle.timeline import Adopted, Released, Round, View

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


class DesignDrafter:
    """oracle.play.Drafter for a Design. The stash is kept as arrays, for designs that assume it always holds."""

    def __init__(self, design: Design, config: DraftConfig) -> None:
        self.design, self.spec = design, config.spec
        self.model = DigestModel(config)
        shape = (config.num_slots, config.spec.k - 1)
        self.tokens, self.hidden = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        self.valid = np.zeros(config.num_slots, dtype=np.int64)

    def adopted(self, step: Adopted) -> None:
        self.model.load_conv_state(step.request.slot, step.pages[-1], step.length)

    def released(self, step: Released) -> None:
        pass

    def round(self, step: Round) -> Evidence:
        work = [self._plan(step, row, view) for row, view in enumerate(step.views)]
        calls = [self._call(depth, work) for depth in range(self.spec.steps)]
        sampled = np.array([view.tokens[view.computed] if view.sampled else 0 for view in step.views])
        drafts = [call.tokens for call in calls]
        return Evidence(
            calls=calls,
            returned=np.stack([sampled, *drafts], axis=1).astype(np.int32),
            kv=[pool.copy() for pool in self.model.kv],
            ring=self.model.ring.copy(),
            ckpt=self.model.ckpt.copy(),
            stash=StashImage(
                self.tokens.astype(np.int32),
                self.hidden.copy(),
                self.valid.copy() if self.design.stash_validity == "valid_lens" else None,
            ),
        )

    # -- what a request's rows are ------------------------------------------------------------------------------------

    def _plan(self, step: Round, row: int, view: View) -> _Work:
        if isinstance(step.batch, DecodeBatch):
            return self._plan_decode(step.batch, row, view)
        return self._plan_extend(step.batch, row, view)

    def _plan_decode(self, batch: DecodeBatch, row: int, view: View) -> _Work:
        """Rows F'-k..F'-1: tokens and hiddens are rows a-1.. of stash ‖ verify (S5, S6); the stash is their tail."""
        k, slot, a = self.spec.k, view.request.slot, view.accept
        window = slice(a - 1, a - 1 + k)
        tokens = np.concatenate([self.tokens[slot], batch.verify_ids[row]])[window]
        hidden = np.concatenate([self.hidden[slot], batch.hidden[row * k : (row + 1) * k]])[window]
        source = np.arange(a - 1, a - 1 + k)
        rows = view.computed - k + np.arange(k)
        covered = source >= k - 1 - self._valid(slot)
        placed = rows
        masked = (rows < 0) | ~covered if self.design.before_zero == "mask" else np.zeros(k, dtype=bool)
        if self.design.before_zero == "clamp":
            placed = max(0, view.computed - k) + np.arange(k)
        self.tokens[slot], self.hidden[slot] = tokens[1:], hidden[1:]
        self.valid[slot] = min(k - 1, self.valid[slot] + a)
        return _Work(view, tokens, hidden, np.maximum(rows, 0), self._locations(view, placed, masked), masked, [])

    def _plan_extend(self, batch: ExtendBatch, row: int, view: View) -> _Work:
        """The chunk's rows, behind what the final chunk re-runs from the stash (S13); the stash is their tail (S14)."""
        k, slot, s, n = self.spec.k, view.request.slot, view.before, batch.extend_lens[row]
        if s == view.request.hit:
            self.valid[slot] = 0
        start = sum(batch.extend_lens[:row])
        following = batch.next_ids[row]
        last = batch.sampled_ids[row] if batch.is_final[row] else following[0]
        tokens = np.concatenate([batch.input_ids[start + 1 : start + n], [last]]).astype(np.int64)
        hidden = batch.hidden[start : start + n]
        again = 0
        if self.design.rerun and batch.is_final[row]:
            again = min(max(0, self.spec.steps - n), int(self.valid[slot]))
        stash_tokens, stash_hidden = self.tokens[slot].copy(), self.hidden[slot].copy()
        self.tokens[slot] = np.concatenate([stash_tokens, tokens])[-(k - 1) :]
        self.hidden[slot] = np.concatenate([stash_hidden, hidden])[-(k - 1) :]
        self.valid[slot] = min(k - 1, self.valid[slot] + n)
        tokens = np.concatenate([stash_tokens[k - 1 - again :], tokens])
        hidden = np.concatenate([stash_hidden[k - 1 - again :], hidden])
        rows = s - again + np.arange(again + n)
        masked = np.zeros(again + n, dtype=bool)
        known = following.tolist() if self.design.chunk_tail == "lookahead" else []
        return _Work(view, tokens, hidden, rows, self._locations(view, rows, masked), masked, known)

    def _valid(self, slot: int) -> int:
        return self.spec.k - 1 if self.design.stash_validity == "assumed" else int(self.valid[slot])

    def _locations(self, view: View, placed: I64, masked: NDArray[np.bool_]) -> list[I64]:
        positions = np.maximum(placed, 0)
        groups = range(len(self.spec.groups))
        return [np.where(masked, 0, locations_of(view, g, positions)) for g in groups]

    # -- one call of the model ----------------------------------------------------------------------------------------

    def _call(self, depth: int, work: list[_Work]) -> CallLog:
        plans = [w.rows(depth, self.spec.hidden) for w in work]
        outputs = []
        for w, rows in zip(work, plans, strict=True):
            out = self.model.run(depth, rows)
            w.outputs = out
            w.drafts.append(int(digest.draft_token(out[-1:])[0]))
            outputs.append(out)
        ends = np.cumsum([0] + [len(rows.tokens) for rows in plans])
        groups = range(len(self.spec.groups))
        return CallLog(
            depth=depth,
            input_ids=np.concatenate([r.tokens for r in plans]).astype(np.int32),
            positions=np.concatenate([r.positions for r in plans]),
            hidden_digest=np.concatenate([r.hidden for r in plans]),
            out_cache_loc=tuple(np.concatenate([r.locations[g] for r in plans]) for g in groups),
            query_start_loc=ends,
            seq_lens=np.array([r.extent for r in plans]),
            page_table=tuple(np.stack([r.tables[g] for r in plans]) for g in groups),
            conv_slots=np.array([r.slot for r in plans]),
            sample_rows=ends[1:] - 1,
            masked=np.concatenate([r.masked for r in plans]),
            output_digest=np.concatenate(outputs),
            tokens=np.array([w.drafts[-1] for w in work], dtype=np.int32),
        )


class _Work:
    """One request's rows of a round, and what the depths made of them so far. known: prompt tokens s+n.. (-1: none)."""

    def __init__(
        self,
        view: View,
        tokens: I64,
        hidden: I64,
        positions: I64,
        locations: list[I64],
        masked: NDArray[np.bool_],
        known: list[int],
    ) -> None:
        self.view, self.known, self.masked = view, known, masked
        self.tokens = np.where(masked, 0, tokens)
        self.hidden = np.where(masked, 0, hidden)
        self.positions, self.locations = np.where(masked, 0, positions), locations
        self.outputs = hidden
        self.drafts: list[int] = []

    def rows(self, depth: int, semantic: str) -> Rows:
        """The rows as depth ``depth`` gets them: ids rolled left once a depth (S7), hiddens by the head's semantic."""
        if depth:
            ahead = self.known[depth] if depth < len(self.known) else -1
            self.tokens = np.append(self.tokens[1:], ahead if ahead >= 0 else self.drafts[depth - 1])
        chained = depth and semantic == "chain"
        return Rows(
            tokens=self.tokens,
            positions=self.positions,
            hidden=self.outputs if chained else self.hidden,
            locations=self.locations,
            masked=self.masked,
            extent=self.view.computed,
            slot=self.view.request.slot,
            tables=[table.pages.copy() for table in self.view.request.tables],
        )
