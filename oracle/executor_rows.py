"""A design's rows of one request in one round: where they stand, and what each consumes, depth after depth."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.designs import Design
from frontier_oracle.oracle.digest_model import Rows
from frontier_oracle.oracle.ledger import locations_of
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.timeline import View

I64 = NDArray[np.int64]
Bools = NDArray[np.bool_]


def stash_length(design: Design, spec: Spec) -> int:
    """Positions before the frontier that the design's stash holds."""
    lengths = {"0": 0, "1": 1, "steps-1": spec.steps - 1, "steps": spec.steps, "k-1": spec.k - 1}
    return spec.steps - 1 + spec.taps if design.stash_length == "front" else lengths[design.stash_length]


def rule_of(design: Design, depth: int) -> str:
    """The rows rule of a depth."""
    return design.rows if depth else design.first_rows


def rows_span(design: Design, spec: Spec, depth: int, before: I64, accept: I64) -> tuple[I64, I64]:
    """The positions first..end-1 that a depth re-runs in a decode round of requests at F = before [B], accept [B];
    first may be below 0."""
    k, steps, now = spec.k, spec.steps, before + accept
    spans = {
        "verify": (before, before + k),
        "lookback": (before - (steps - 1), before + k),
        "front": (before - (steps - 1) - spec.taps, before + k),
        "frontier": (now - k, now),
        "last_steps": (now - steps, now),
        "minimal": (now - np.maximum(steps, accept), now),
        "minimal_in_k": (now - k, now),
        "advancing": (now - 1 + depth, now + depth),
        "rebuild": (now - k, now + depth + 1),
    }
    return spans[rule_of(design, depth)]


def idle_rows(design: Design, spec: Spec, depth: int, accept: I64) -> I64:
    """How many of the first rows of a span store nothing [B]: padding, conv warm-up, removed rows."""
    rule = rule_of(design, depth)
    if rule == "minimal_in_k":
        return spec.k - np.maximum(spec.steps, accept)
    if rule == "rebuild":
        return spec.k - accept
    return np.full_like(accept, spec.taps if rule == "front" else 0)


@dataclass
class Seen:
    """What a drafter can see of a request in a round: for p = base.., the token x[p+1] and the target hidden h(p).

    computed: C, the frontier after the round. Tokens behind C are a verify round's rejected ones. ahead[i]: the prompt
    token at C+i where it is known, -1 where not; drafts[m-1]: draft m, for position C+m.
    """

    base: int
    tokens: I64
    hidden: I64
    computed: int
    ahead: list[int] = field(default_factory=list)
    drafts: list[int] = field(default_factory=list)

    def token(self, position: int) -> int:
        beyond = position - self.computed
        if 0 <= beyond < len(self.ahead) and self.ahead[beyond] >= 0:
            return self.ahead[beyond]
        if 0 < beyond <= len(self.drafts):
            return self.drafts[beyond - 1]
        return int(self.tokens[np.clip(position - 1 - self.base, 0, len(self.tokens) - 1)])

    def target_hidden(self, positions: I64) -> I64:
        return self.hidden[np.clip(positions - self.base, 0, len(self.hidden) - 1)]


@dataclass
class Work:
    """One request's round under way. covered: the lowest position that a source vouches for; chunk: the first row of a
    chunk round, None in decode; kept_outputs: depth 0's of earlier rounds; outputs, from output_base on: what the last
    depth gave, before depth 1 with the kept ones in front; sampled: the outputs that drafts were taken from."""

    design: Design
    spec: Spec
    view: View
    seen: Seen
    covered: int
    chunk: int | None = None
    kept_outputs: I64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    output_base: int = 0
    outputs: I64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sampled: list[int] = field(default_factory=list)

    def span(self, depth: int) -> tuple[int, int]:
        """The positions first..end-1 of a depth's rows."""
        now, rule = self.view.computed, rule_of(self.design, depth)
        if self.chunk is None:
            before, accept = np.array(self.view.before), np.array(self.view.accept)
            first, end = rows_span(self.design, self.spec, depth, before, accept)
            return int(first), int(end)
        if rule == "advancing":
            return now - 1 + depth, now + depth
        return self.chunk, now + depth + 1 if rule == "rebuild" else now

    def rows(self, depth: int) -> Rows:
        """The rows as depth ``depth`` gets them."""
        first, end = self.span(depth)
        positions = np.arange(first, end)
        masked = self._masked(depth, positions)
        tokens = np.array(self._tokens(depth, positions), dtype=np.int64)
        placed = positions
        counts_on = self.design.before_zero == "clamp" and self.design.cells_before_zero == "count_on"
        if counts_on and first < 0:
            placed = positions - first
        groups = range(len(self.spec.groups))
        at = np.maximum(placed, 0)
        return Rows(
            tokens=np.where(masked, 0, tokens),
            positions=np.where(masked, 0, np.maximum(positions, 0)),
            hidden=np.where(masked, 0, self._hidden(depth, positions)),
            locations=[np.where(masked, 0, locations_of(self.view, g, at)) for g in groups],
            masked=masked,
            extent=end,
            slot=self.view.request.slot,
            tables=[table.pages.copy() for table in self.view.request.tables],
        )

    def sample_row(self, depth: int) -> int:
        """The row a draft is taken from, among the request's own."""
        first, end = self.span(depth)
        if self.design.sample == "accept_row" and rule_of(self.design, depth) != "advancing":
            end = self.view.computed
        return end - 1 - first

    def took(self, depth: int, outputs: I64, sample: int) -> None:
        """A depth ran: its outputs, and the draft from one of its rows."""
        self.output_base, self.outputs = self.span(depth)[0], outputs
        self.sampled.append(int(outputs[sample]))
        self.seen.drafts.append(int(digest.draft_token(outputs[sample : sample + 1])[0]))
        if depth == 0 and self.design.stash == "depth0_outputs":
            self.outputs = np.concatenate([self.kept_outputs, outputs])
            self.output_base -= len(self.kept_outputs)

    def _masked(self, depth: int, positions: I64) -> Bools:
        if self.design.before_zero == "clamp":
            return np.zeros(len(positions), dtype=np.bool_)
        masked: Bools = (positions < 0) | (positions < self.covered)
        if self.chunk is None:
            masked[: int(idle_rows(self.design, self.spec, depth, np.array(self.view.accept)))] = True
        return masked

    def _tokens(self, depth: int, positions: I64) -> list[int]:
        rule, ahead = self.design.tokens, depth + 1
        if rule == "own_argmax" and depth:
            taken: list[int] = digest.draft_token(self.outputs).tolist()
            return taken
        if rule == "unshifted":
            ahead = 0
        elif depth and self.design.rows == "advancing":
            ahead = 1
        return [self.seen.token(p + ahead) for p in positions.tolist()]

    def _hidden(self, depth: int, positions: I64) -> I64:
        if self.design.tokens == "unshifted":
            drafted = positions > self.view.computed
            given = self.seen.target_hidden(positions - 1)
            given[drafted] = self.sampled[: int(drafted.sum())]
            return given
        if depth == 0 or self.spec.hidden == "target":
            return self.seen.target_hidden(positions)
        if self.design.rows == "advancing":
            return np.array(self.sampled[-1:], dtype=np.int64)
        own = self.outputs[np.clip(positions - self.output_base, 0, len(self.outputs) - 1)]
        if self.spec.hidden == "chain":
            return own
        return np.where(positions + depth < self.view.computed, self.seen.target_hidden(positions + depth), own)
