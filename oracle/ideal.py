"""The ideal drafter (S3): recompute from scratch. Slow and plain, to be read against SEMANTICS section 2.

A view of one request is what is known of it after a round: tokens x[0..K], target hiddens h[0..C-1], and this round's
drafts m = 1..steps for positions C+1..C+steps. After a decode round C = K = F, after a prompt's last chunk
C = K = P, after a chunk in mid-prompt C is the count of positions computed and K = P - 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.spec import Spec

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Ints = NDArray[np.integer]


@dataclass(frozen=True)
class Ideal:
    """Every depth over every position of one view. entries, outputs, rings [steps, C] int64; drafts [steps] int32."""

    entries: I64
    outputs: I64
    rings: I64
    drafts: I32


def recompute(spec: Spec, tokens: Ints, hidden: I64, drafts: Ints | None = None) -> Ideal:
    """All depths over positions 0..C-1 (S1, S2).

    tokens [K+1]: x[0..K]; hidden [C] int64: h(0..C-1), 1 <= C <= K + 1. drafts [steps]: the drafts to consume beyond K
    (the ideal forced onto what a system returned); without them each depth's own draft is consumed by the next. The
    drafts reported are always those sampled here.
    """
    computed = len(hidden)
    entries = np.zeros((spec.steps, computed + spec.steps), dtype=np.int64)
    outputs = np.zeros_like(entries)
    rings = np.zeros_like(entries)
    own = np.zeros(spec.steps, dtype=np.int32)
    consumed_drafts = own if drafts is None else drafts
    for depth in range(spec.steps):
        layer = min(depth, spec.layers - 1)
        rows = _rows_of(spec, depth, computed)
        for p in rows:
            ahead = spec.ahead(layer)
            token = _token_at(p + ahead, tokens, computed, consumed_drafts)
            given = _hidden_at(spec, depth, p, hidden, outputs)
            rings[layer, p] = digest.ring_row(layer, token, given)[0]
            entries[layer, p] = digest.entry(layer, _one(p), token, given, _taps(spec, rings[layer], p))[0]
            outputs[layer, p] = _output(spec, layer, p, entries[layer])
        own[depth] = digest.draft_token(outputs[layer, rows[-1] :])[0]
    return Ideal(entries[:, :computed], outputs[:, :computed], rings[:, :computed], own)


def _rows_of(spec: Spec, depth: int, computed: int) -> range:
    """The positions a depth runs: 0..C-1; beyond, where the draft is not sampled at C-1, the rows that lead to it."""
    if spec.hidden == "previous":
        return range(computed + depth + 1)
    if spec.hidden == "single" and depth:
        return range(computed - 1 + depth, computed + depth)
    return range(computed)


def _token_at(q: int, tokens: Ints, computed: int, drafts: Ints) -> I64:
    """The token at position q: known up to K, this round's draft q - C beyond."""
    return _one(int(tokens[q]) if q < len(tokens) else int(drafts[q - computed - 1]))


def _hidden_at(spec: Spec, depth: int, p: int, hidden: I64, outputs: I64) -> I64:
    """The hidden that depth consumes at p, by the head's semantic (S1)."""
    computed = len(hidden)
    if spec.hidden == "previous":
        if p > computed:  # a draft's row: the output that the draft was sampled from
            return outputs[p - computed - 1, p - 1 : p]
        return hidden[p - 1 : p] if p else _one(0)
    if spec.hidden == "single" and depth:
        return outputs[0, p - 1 : p]
    if depth == 0 or spec.hidden == "target":
        return hidden[p : p + 1]
    if spec.hidden == "shifted" and p + depth < computed:
        return hidden[p + depth : p + depth + 1]
    return outputs[depth - 1, p : p + 1]


def _taps(spec: Spec, ring: I64, p: int) -> I64:
    """The short conv's share: the W - 1 ring rows before p; rows before position 0 read zero (S18)."""
    total = _one(0)
    for i in range(1, spec.conv_width):
        row = ring[p - i : p - i + 1] if p >= i else _one(0)
        total = total + digest.tap(i, row)
    return total


def _output(spec: Spec, depth: int, p: int, entries: I64) -> np.int64:
    """O(d,p): attends over 0..p, or over the last ``window`` of them."""
    window = spec.window_of(depth)
    first = 0 if window is None else max(0, p + 1 - window)
    seen = digest.keyed(np.arange(first, p + 1), entries[first : p + 1])
    attended = np.add.reduce(seen, keepdims=True)
    result: np.int64 = digest.output(_one(p), entries[p : p + 1], attended)[0]
    return result


def _one(value: int) -> I64:
    """A scalar as an array: numpy warns on the overflow of scalars, and wraps arrays."""
    return np.array([value], dtype=np.int64)
