"""Runs a design declaration on a timeline, position by position. What it shows is what the design must show.

Its evidence is judged exactly like a tensor system's, so a declared deviation is predicted for any scenario, entry by
entry, and an implementation of the design is held to set equality with it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle.calls import CallLog
from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, ExtendBatch
from frontier_oracle.oracle.designs import Design
from frontier_oracle.oracle.digest_model import DigestModel
from frontier_oracle.oracle.errors import HiddenSemanticUnsupported
from frontier_oracle.oracle.evidence import Evidence, StashImage
from frontier_oracle.oracle.executor_rows import Seen, Work, stash_length
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.timeline import Adopted, Released, Round, View

I64 = NDArray[np.int64]


def spec_for(design: Design, spec: Spec) -> Spec:
    """``spec`` as the design needs it: a head semantic that it serves, and a conv ring deep enough for its rows.

    Rows past the accepted prefix land on ring rows that R = (W-1)+k would still need: D more for rows in front of the
    window, k-2 more for what a later window's taps can read."""
    hidden = spec.hidden if spec.hidden in design.hidden else design.hidden[0]
    ring = spec.ring_rows
    if {design.first_rows, design.rows} & {"verify", "lookback", "front", "advancing", "rebuild"}:
        ring = max(ring, spec.taps + spec.k + max(spec.k - 2, spec.steps))
    return replace(spec, hidden=hidden, ring_rows=ring)


class DesignDrafter:
    """oracle.play.Drafter for a Design. The stash is kept as arrays, for designs that assume it always holds.

    Raises HiddenSemanticUnsupported for a head semantic that the design does not serve."""

    def __init__(self, design: Design, config: DraftConfig) -> None:
        self.design, self.spec, self.media = design, config.spec, config.media
        if self.spec.hidden not in design.hidden:
            served = " or ".join(design.hidden)
            raise HiddenSemanticUnsupported(f"hidden={self.spec.hidden}: design {design.name} serves {served} heads")
        self.model = DigestModel(config)
        self.length = stash_length(design, self.spec)
        shape = (config.num_slots, self.length)
        self.tokens, self.hidden, self.outputs = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        self.valid = np.zeros(config.num_slots, dtype=np.int64)

    def adopted(self, step: Adopted) -> None:
        self.model.load_conv_state(step.request.slot, step.pages[-1], step.length)

    def released(self, step: Released) -> None:
        pass

    def round(self, step: Round) -> Evidence:
        work = [self._work(step, row, view) for row, view in enumerate(step.views)]
        calls = []
        for depth in range(self.spec.steps):
            calls.append(self._call(depth, work))
            if depth == 0 and self.design.stash == "depth0_outputs":
                self._keep_outputs(work)
        sampled = np.array([view.tokens[view.computed] if view.sampled else 0 for view in step.views])
        return Evidence(
            calls=calls,
            returned=np.stack([sampled, *(call.tokens for call in calls)], axis=1).astype(np.int32),
            kv=[pool.copy() for pool in self.model.kv],
            ring=self.model.ring.copy(),
            ckpt=self.model.ckpt.copy(),
            stash=self._stash_image(),
        )

    def _stash_image(self) -> StashImage | None:
        """The stash, where it is the one that the judge knows: k-1 pairs (S8)."""
        if self.design.stash != "pairs" or self.design.stash_length != "k-1":
            return None
        valid = self.valid.copy() if self.design.stash_validity == "valid_lens" else None
        return StashImage(self.tokens.astype(np.int32), self.hidden.copy(), valid)

    # -- what a request's rows are ------------------------------------------------------------------------------------

    def _work(self, step: Round, row: int, view: View) -> Work:
        if isinstance(step.batch, DecodeBatch):
            return self._decode(step.batch, row, view)
        return self._extend(step.batch, row, view)

    def _decode(self, batch: DecodeBatch, row: int, view: View) -> Work:
        """The stash's pairs, then the verify rows' (S5, S6); the next stash is what ends at F' of them (S8)."""
        k, slot, n, a = self.spec.k, view.request.slot, self.length, view.accept
        tokens = np.concatenate([self.tokens[slot], batch.verify_ids[row]])
        hidden = np.concatenate([self.hidden[slot], batch.hidden[row * k : (row + 1) * k]])
        seen = Seen(view.before - n, tokens, hidden, view.computed)
        work = Work(self.design, self.spec, view, seen, view.before - self._valid(slot))
        work.kept_outputs = self.outputs[slot].copy()
        self.tokens[slot], self.hidden[slot] = tokens[a : a + n], hidden[a : a + n]
        self.valid[slot] = min(n, self.valid[slot] + a)
        return work

    def _extend(self, batch: ExtendBatch, row: int, view: View) -> Work:
        """The chunk's rows, behind what the final chunk re-runs from the stash (S13); the stash is their tail (S14)."""
        slot, s, n = view.request.slot, view.before, batch.extend_lens[row]
        if s == view.request.hit:
            self.valid[slot] = 0
        start, following = sum(batch.extend_lens[:row]), self._looked_up(batch.next_ids[row])
        sample = batch.is_final[row] or self.design.chunk_tail == "sampled"
        ids = self._looked_up(batch.input_ids[start : start + n])
        last = batch.sampled_ids[row] if sample else following[0]
        tokens = np.concatenate([self.tokens[slot], ids[1:], [last]]).astype(np.int64)
        hidden = np.concatenate([self.hidden[slot], batch.hidden[start : start + n]])
        again = 0
        if self.design.rerun and batch.is_final[row]:
            again = min(max(0, self.spec.steps - n), int(self.valid[slot]))
        if self.design.chunk_tail in ("sampled", "none") and self.length:
            tokens[self.length - 1] = ids[0]  # the pair before the chunk: by now its token is known
        if self.design.tokens == "unshifted" and self.valid[slot] == 0:
            hidden[self.length - 1] = 0  # h(-1), or what a prefix hit does not bring
        ahead = following.tolist() if self.design.chunk_tail == "lookahead" else []
        seen = Seen(s - self.length, tokens, hidden, view.computed, ahead)
        work = Work(self.design, self.spec, view, seen, 0, chunk=s - again)
        work.kept_outputs = self.outputs[slot].copy()
        self.tokens[slot], self.hidden[slot] = tokens[n:], hidden[n:]
        self.valid[slot] = min(self.length, self.valid[slot] + n)
        return work

    def _looked_up(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """The ids as a head can look them up: a modality's own id at each content hash (S16). Same shape."""
        out = ids.copy()
        for first, end, own in self.media.substitutes if self.media else ():
            out[(first <= ids) & (ids < end)] = own
        return out

    def _valid(self, slot: int) -> int:
        return int(self.valid[slot]) if self.design.stash_validity == "valid_lens" else self.length

    def _keep_outputs(self, work: list[Work]) -> None:
        """The next stash of depth-0 outputs: those that end at F'-1."""
        for w in work:
            end = w.view.computed - w.output_base
            self.outputs[w.view.request.slot] = w.outputs[end - self.length : end]

    # -- one call of the model ----------------------------------------------------------------------------------------

    def _call(self, depth: int, work: list[Work]) -> CallLog:
        layer = min(depth, self.spec.layers - 1)
        plans = [w.rows(depth) for w in work]
        samples = [w.sample_row(depth) for w in work]
        outputs = self.model.run(layer, plans)
        for w, out, sample in zip(work, outputs, samples, strict=True):
            w.took(depth, out, sample)
        ends = np.cumsum(np.array([0] + [len(rows.tokens) for rows in plans]))
        groups = range(len(self.spec.groups))
        return CallLog(
            depth=layer,
            input_ids=np.concatenate([r.tokens for r in plans]).astype(np.int32),
            positions=np.concatenate([r.positions for r in plans]),
            hidden_digest=np.concatenate([r.hidden for r in plans]),
            out_cache_loc=tuple(np.concatenate([r.locations[g] for r in plans]) for g in groups),
            query_start_loc=ends,
            seq_lens=np.array([r.extent for r in plans]),
            page_table=tuple(np.stack([r.tables[g] for r in plans]) for g in groups),
            conv_slots=np.array([r.slot for r in plans]),
            sample_rows=ends[:-1] + np.array(samples),
            masked=np.concatenate([r.masked for r in plans]),
            output_digest=np.concatenate(outputs),
            tokens=np.array([w.seen.drafts[-1] for w in work], dtype=np.int32),
        )
