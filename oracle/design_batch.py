"""Many requests of one design at once, for the atlas: no slots, pages or prefix hits, one numpy row a request.

Same declaration, same digests and same verdicts as the index-level executor under the judge (test_atlas.py holds them
equal), without what only a serving engine has: every request reads one prompt and then decodes, so a stash always holds
what it should and a conv ring is as deep as it must be. What is left to go wrong is the design itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.designs import Design
from frontier_oracle.oracle.executor_rows import idle_rows, rows_span, rule_of, stash_length
from frontier_oracle.oracle.incremental import IncrementalIdeal
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.target import target_rows, verify_rows
from frontier_oracle.oracle.timeline import COMMIT, DISCARDED, GARBAGE, PROMPT

I64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

NAMES = ("exact", "stale", "unwritten", "wrong", "tainted", "foreign")
EXACT, STALE, UNWRITTEN, WRONG, TAINTED, _ = range(len(NAMES))


class DesignBatch:
    """B requests in lockstep. Arrays are [B, P] by position, [layers, B, P] for caches; before the prompt is read all
    rows are the same, so it is read once and repeated.

    tokens: x, behind C what the last round rejected; hidden: h; computed: C [B]; drafts [B, steps]; mismatch [B]:
    whether this round's drafts differ from the ideal's; rows [B]: draft rows run in decode rounds.
    """

    computed: I64
    drafts: I64
    mismatch: Bools
    _state: I64  # the target's chain behind C-1
    _tail: I64  # C, and the last position whose token the drafter knows
    _known: I64
    _sampled: list[I64]

    def __init__(
        self, design: Design, spec: Spec, batch: int, prompt: int, chunks: Sequence[int], longest: int
    ) -> None:
        self.design, self.spec, self.prompt = design, spec, prompt
        self.width = prompt + longest + spec.k + spec.steps + 1
        self.round_index = 0
        self._allocate(1)
        self.tokens[:, :prompt] = digest.scripted_token(PROMPT, 0, np.arange(prompt))
        states, self.hidden[:, :prompt] = target_rows(np.zeros(1, dtype=np.int64), self.tokens[:, :prompt], 0)
        self._state = states[:, -1]
        for size in chunks or (prompt,):
            self._extend(size)
        self._repeat(batch)
        self.ideal = IncrementalIdeal(spec, batch, self.width)
        self._judge()
        self.rows = np.zeros(batch, dtype=np.int64)

    def decode(self, accepts: I64, truth: I64 | None = None) -> None:
        """One decode round: accepts [B] tokens commit, every depth runs its rows. truth [B, k]: what the target has at
        F+1..F+k; without it, it has the drafts and then a token of its own."""
        k, before = self.spec.k, self.computed
        at = before[:, None] + np.arange(k)
        each = np.arange(len(before))[:, None]
        last = self.tokens[np.arange(len(before)), before]
        states, hidden = verify_rows(self._state, before, last, self.drafts, k)
        verify = digest.scripted_token(GARBAGE, 0, at + 1, self.round_index).astype(np.int64)
        accepted = np.arange(k) < accepts[:, None] - 1
        padded = np.zeros((len(before), k), dtype=np.int64)
        padded[:, : min(k, self.spec.steps)] = self.drafts[:, :k]
        verify = np.where(accepted, padded, verify)
        own = digest.scripted_token(COMMIT, 0, at + 1) if truth is None else truth
        verify = np.where(np.arange(k) == accepts[:, None] - 1, own, verify)
        self.tokens[each, at + 1], self.hidden[each, at] = verify, hidden
        self._state = states[np.arange(len(before)), accepts - 1]
        self.computed = before + accepts
        self.drafts = np.zeros((len(before), 0), dtype=np.int64)
        self._sampled = []
        self._tail, self._known = self.computed, self.computed
        for depth in range(self.spec.steps):
            self._decode_depth(depth, before, accepts)
        self.round_index += 1
        self._judge()

    def states(self, row: int) -> NDArray[np.int8]:
        """[layers, C] the state of every entry of one request. Provisional ones count as exact."""
        computed = int(self.computed[row])
        out = np.full((self.spec.layers, computed), EXACT, dtype=np.int8)
        for depth in range(self.spec.layers):
            equal = self.kv[depth, row, :computed] == self.ideal.entries[depth, row, :computed]
            out[depth][~equal] = TAINTED
            out[depth][~equal & self._left_behind(depth, row, computed)] = WRONG
            out[depth][~equal & self._stale(depth, row, computed)] = STALE
            out[depth][~self.written[depth, row, :computed]] = UNWRITTEN
        return out

    # -- rounds ------------------------------------------------------------------------------------------------------

    def _allocate(self, batch: int) -> None:
        spec, shape = self.spec, (batch, self.width)
        self.tokens, self.hidden = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        self.kv, self.ring, self.outputs, self.prefix, self.given = (
            np.zeros((spec.layers, *shape), dtype=np.int64) for _ in range(5)
        )
        self.written = np.zeros((spec.layers, *shape), dtype=np.bool_)
        # chain[d][.., i]: the token that stands i+1 behind the row, as this entry's own chain consumed it; -1 is none.
        self.chain = np.full((spec.layers, *shape, spec.steps), -1, dtype=np.int64)
        self.computed = np.zeros(batch, dtype=np.int64)
        self._summed = np.zeros((spec.layers, batch), dtype=np.int64)

    def _repeat(self, batch: int) -> None:
        for name in ("tokens", "hidden", "computed", "_state", "drafts"):
            setattr(self, name, np.repeat(getattr(self, name), batch, axis=0))
        for name in ("kv", "ring", "outputs", "prefix", "given", "written", "chain", "_summed"):
            setattr(self, name, np.repeat(getattr(self, name), batch, axis=1))

    def _extend(self, size: int) -> None:
        """A prompt chunk, with the rows that a final one re-runs (S13)."""
        spec, s = self.spec, int(self.computed[0])
        end = s + size
        final = end == self.prompt
        self.computed = np.full(1, end)
        self.drafts, self._sampled = np.zeros((1, 0), dtype=np.int64), []
        behind = self.tokens[:, end].copy()
        if final:
            self.tokens[:, end] = behind = digest.scripted_token(COMMIT, 0, np.array([end])).astype(np.int64)
        elif self.design.chunk_tail == "sampled":
            self.tokens[:, end] = digest.scripted_token(DISCARDED, 0, np.array([end]))
        # Tokens up to here are known to the drafter: C, or with lookahead what is left of the prompt.
        lookahead = self.design.chunk_tail == "lookahead"
        self._tail, self._known = self.computed, np.full(1, max(end, self.prompt - 1) if lookahead else end)
        again = min(max(0, spec.steps - size), stash_length(self.design, spec), s) if self.design.rerun and final else 0
        for depth in range(spec.steps):
            rule = rule_of(self.design, depth)
            first, last = (end - 1 + depth, end + depth) if rule == "advancing" else (s - again, end)
            last += depth + 1 if rule == "rebuild" else 0
            positions = np.arange(first, last)[:, None]
            self._depth(depth, positions, np.zeros_like(positions, dtype=np.bool_))
        self.tokens[:, end] = behind

    def _decode_depth(self, depth: int, before: I64, accepts: I64) -> None:
        first, end = rows_span(self.design, self.spec, depth, before, accepts)
        self.rows += end - first
        most = int((end - first).max())
        positions = end - most + np.arange(most)[:, None]
        masked = (positions < 0) | (positions < first + idle_rows(self.design, self.spec, depth, accepts))
        self._depth(depth, positions, masked)

    def _depth(self, depth: int, positions: I64, masked: Bools) -> None:
        """Run one depth on rows [m, B]; the draft is taken at F'-1, or at the last of rows on drafts."""
        layer = min(depth, self.spec.layers - 1)
        own_argmax = self.design.tokens == "own_argmax" and depth > 0
        ahead = self.spec.ahead(layer)
        if depth and self.design.rows == "advancing":
            ahead = 1
        at = np.maximum(positions, 0)
        each = np.broadcast_to(np.arange(positions.shape[1]), positions.shape)
        tokens = self._tokens(at + ahead, each)
        if own_argmax:
            tokens = digest.draft_token(self.outputs[depth - 1][each, at]).astype(np.int64)
        given = self._hidden(depth, at, each)
        outputs = self._run(layer, at, each, masked, tokens, given)
        self._note(layer, at, each, masked, tokens, given, ahead)
        beyond = {"advancing": depth - 1, "rebuild": depth}.get(rule_of(self.design, depth), -1)
        row = self._tail + beyond - positions[0]
        sample = outputs[row, np.arange(len(row))]
        self._sampled.append(sample)
        self.drafts = np.concatenate([self.drafts, digest.draft_token(sample)[:, None]], axis=1)

    def _tokens(self, q: I64, each: I64) -> I64:
        """The token at q: known, else this round's draft, else (rejected rows) whatever stands there."""
        m = q - self._tail - 1
        drafted = (q > self._known) & (m >= 0) & (m < self.drafts.shape[1])
        known = self.tokens[each, np.minimum(q, self.width - 1)]
        if not self.drafts.shape[1]:
            return known
        return np.where(drafted, self.drafts[each, np.clip(m, 0, self.drafts.shape[1] - 1)], known)

    def _hidden(self, depth: int, at: I64, each: I64) -> I64:
        target: I64 = self.hidden[each, at]
        if self.spec.hidden == "previous":
            before = np.where(at > 0, self.hidden[each, np.maximum(at - 1, 0)], 0)
            if not self._sampled:
                return before
            drafted = at > self._tail
            sampled = np.array(self._sampled)
            return np.where(drafted, sampled[np.clip(at - self._tail - 1, 0, len(sampled) - 1), each], before)
        if depth == 0 or self.spec.hidden == "target":
            return target
        if self.design.rows == "advancing":
            return self._sampled[-1][None]
        own: I64 = self.outputs[depth - 1][each, at]
        if self.spec.hidden == "chain":
            return own
        source = at + depth
        return np.where(source < self._tail, self.hidden[each, np.minimum(source, self.width - 1)], own)

    # -- the draft model -----------------------------------------------------------------------------------------------

    def _run(self, layer: int, at: I64, each: I64, masked: Bools, tokens: I64, given: I64) -> I64:
        """The digest probe's row arithmetic on dense caches. Returns O [m, B]."""
        spec, live = self.spec, ~masked
        ring = self.ring[layer]
        ring[each[live], at[live]] = digest.ring_row(layer, tokens, given)[live]
        taps = np.zeros(at.shape, dtype=np.int64)
        for i in range(1, spec.taps + 1):
            taps += digest.tap(i, np.where(at >= i, ring[each, np.maximum(at - i, 0)], 0))
        entries = digest.entry(layer, at, tokens, given, taps)
        self.kv[layer][each[live], at[live]] = entries[live]
        self.written[layer][each[live], at[live]] = True
        self._sum(layer, at, masked)
        outputs = np.where(masked, 0, digest.output(at, entries, self.prefix[layer][each, at]))
        self.outputs[layer][each[live], at[live]] = outputs[live]
        return outputs

    def _sum(self, layer: int, at: I64, masked: Bools) -> None:
        """Prefix sums of attention, from the lowest cell that changed (or was never summed) to the last row."""
        first = np.minimum(np.where(masked, self.width, at).min(axis=0), self._summed[layer])
        last = at[-1]
        n = int((last - first).max()) + 1
        positions = last - n + 1 + np.arange(n)[:, None]
        each, cells = np.broadcast_to(np.arange(len(last)), positions.shape), np.maximum(positions, 0)
        added = np.where(positions < 0, 0, digest.keyed(cells, self.kv[layer][each, cells]))
        start = positions[0]
        base = np.where(start > 0, self.prefix[layer][each[0], np.maximum(start - 1, 0)], 0)
        sums = base + np.cumsum(added, axis=0)
        exists = positions >= 0
        self.prefix[layer][each[exists], cells[exists]] = sums[exists]
        self._summed[layer] = last + 1

    # -- what is judged ------------------------------------------------------------------------------------------------

    def _note(self, layer: int, at: I64, each: I64, masked: Bools, tokens: I64, given: I64, ahead: int) -> None:
        """Enter the rows' chains: their own token, and the chain of the depth below where the hidden is its output."""
        live = ~masked
        rows, cells = each[live], at[live]
        links = np.full((len(rows), self.spec.steps), -1, dtype=np.int64)
        if layer:
            below = given[live] == self.outputs[layer - 1][rows, cells]
            links[below] = self.chain[layer - 1][rows[below], cells[below]]
        links[:, self.spec.ahead(layer) - 1] = tokens[live]
        self.chain[layer][rows, cells] = links
        self.given[layer][rows, cells] = given[live]

    def _stale(self, depth: int, row: int, computed: int) -> Bools:
        """[C]: the entry's chain holds a token that is neither what was committed nor this round's draft."""
        known = np.concatenate([self.tokens[row, : computed + 1], self.drafts[row]])
        links = self.chain[depth, row, :computed]
        behind = 0 if self.spec.hidden == "previous" else 1 + np.arange(self.spec.steps)
        wanted = known[np.minimum(np.arange(computed)[:, None] + behind, len(known) - 1)]
        stale: Bools = ((links >= 0) & (links != wanted)).any(axis=1)
        return stale

    def _left_behind(self, depth: int, row: int, computed: int) -> Bools:
        """[C]: a shifted head's hidden that was the draft's own, though h(p+d) is there by now (S1)."""
        source = np.arange(computed) + depth
        there = (source < computed) & (self.spec.hidden == "shifted") & (depth > 0)
        behind: Bools = there & (
            self.given[depth, row, :computed] != self.hidden[row, np.minimum(source, computed - 1)]
        )
        return behind

    def _judge(self) -> None:
        own = self.ideal.update(self.tokens, self.computed, self.hidden, self.computed, self.drafts)
        self.mismatch = (own != self.drafts).any(axis=1)
