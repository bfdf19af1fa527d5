"""Verify rounds that come out instead of being given: a target with an output of its own, and drafts compared with it.

The output is what the ideal drafter would help it to write: the ideal's own drafts as far as the given accept lengths
go, then a token that nobody drafts, round after round. A drafter that drafts as the ideal does needs the ideal's
rounds; one whose drafts are wrong has them rejected and needs more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.design_batch import DesignBatch
from frontier_oracle.oracle.incremental import IncrementalIdeal
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.target import target_rows, verify_rows
from frontier_oracle.oracle.timeline import COMMIT, PROMPT

I64 = NDArray[np.int64]


@dataclass(frozen=True)
class Truth:
    """tokens [B, T] int64: x, -1 behind each request's end; end [B]: the last position."""

    tokens: I64
    end: I64

    def ahead(self, frontier: I64, k: int) -> I64:
        """x[F+1..F+k] as [B, k]; -1, which no draft is, behind the end."""
        at = frontier[:, None] + 1 + np.arange(k)
        found: I64 = np.take_along_axis(self.tokens, np.minimum(at, self.tokens.shape[1] - 1), axis=1)
        return np.where(at <= self.end[:, None], found, -1)


def truth_of(spec: Spec, prompt: int, accepts: I64, lengths: I64) -> Truth:
    """The output on which the ideal drafter (S3) accepts ``accepts`` [B, R], row r in its first ``lengths[r]`` rounds.

    The prompt is DesignBatch's."""
    batch, rounds = accepts.shape
    width = prompt + int(accepts.sum(axis=1).max()) + spec.k + spec.steps + 1
    tokens, hidden = np.zeros((batch, width), dtype=np.int64), np.zeros((batch, width), dtype=np.int64)
    tokens[:, :prompt] = digest.scripted_token(PROMPT, 0, np.arange(prompt))
    tokens[:, prompt] = digest.scripted_token(COMMIT, 0, np.array([prompt]))
    states, hidden[:, :prompt] = target_rows(np.zeros(batch, dtype=np.int64), tokens[:, :prompt], 0)
    state, frontier, end = states[:, -1], np.full(batch, prompt), np.full(batch, prompt)
    ideal, each = IncrementalIdeal(spec, batch, width), np.arange(batch)
    for done in range(rounds):
        drafts = ideal.update(tokens, frontier, hidden, frontier).astype(np.int64)
        behind, rows = verify_rows(state, frontier, tokens[each, frontier], drafts, spec.k)
        hidden[each[:, None], frontier[:, None] + np.arange(spec.k)] = rows
        a = accepts[:, done]
        at = frontier[:, None] + 1 + np.arange(spec.k)
        own = digest.scripted_token(COMMIT, 0, at).astype(np.int64)
        drafted = np.arange(spec.k) < a[:, None] - 1
        padded = np.zeros_like(own)
        padded[:, : min(spec.k, spec.steps)] = drafts[:, : spec.k]
        tokens[each[:, None], at] = np.where(drafted, padded, own)
        state, frontier = behind[each, a - 1], frontier + a
        end = np.where(done < lengths, frontier, end)
    return Truth(tokens, end)


def rounds_needed(batch: DesignBatch, truth: Truth) -> I64:
    """[B] verify rounds until each request has written the whole output, its accept lengths what its drafts earn."""
    spec, rounds = batch.spec, np.zeros(len(truth.end), dtype=np.int64)
    while (batch.computed < truth.end).any():
        rounds += batch.computed < truth.end
        ahead = truth.ahead(batch.computed, spec.k)
        verified = min(spec.k - 1, spec.steps)
        right = batch.drafts[:, :verified] == ahead[:, :verified]
        batch.decode(1 + np.cumprod(right, axis=1).sum(axis=1), ahead)
    return rounds
