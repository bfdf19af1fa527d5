"""What a verify round gives: tokens v and hiddens h, for forced accept lengths on top of the drafts that came back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.engine_requests import COMMIT, GARBAGE, Request

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


def verify_ids(batch: list[Request], accepts: I32, k: int, round_: int, below: int) -> I32:
    """v [bs, k]: returned drafts up to a-1, then a committed token of the target's own, then garbage.

    below: the bits that the target's tokens may have."""
    numbers = np.array([[r.number] for r in batch], dtype=np.int64)
    positions = np.array([[r.computed] for r in batch], dtype=np.int64) + 1 + np.arange(k)
    out = digest.scripted_token(GARBAGE, numbers, positions, round_) & below
    own = digest.scripted_token(COMMIT, numbers, positions) & below
    for row, r in enumerate(batch):
        a = int(accepts[row])
        out[row, : a - 1] = r.drafts[: a - 1]
        out[row, a - 1] = own[row, a - 1]
    return out


def verify_hidden(batch: list[Request], k: int) -> I64:
    """[bs, k] h(F+j) on the candidates [x[F], draft 1, ..]; a missing one (steps < k-1, or drafts thrown away) is -1.

    Leaves the target's states of all k rows with each request."""
    candidates = np.full((len(batch), k), -1, dtype=np.int64)
    for row, r in enumerate(batch):
        candidates[row, 0] = r.tokens[r.computed]
        drafts = r.drafts[: k - 1]
        candidates[row, 1 : 1 + len(drafts)] = drafts
    state = np.array([r.states[r.computed - 1] for r in batch], dtype=np.int64)
    first = np.array([r.computed for r in batch], dtype=np.int64)
    out = np.zeros((len(batch), k), dtype=np.int64)
    states = np.zeros_like(out)
    for j in range(k):
        state = digest.target_state(state, candidates[:, j])
        states[:, j] = state
        out[:, j] = digest.target_hidden(state, first + j)
    for row, r in enumerate(batch):
        r.states = np.concatenate([r.states[: r.computed], states[row]])
    return out
