"""The scripted target model: a chain of digests, so that h(p) depends on exactly the tokens 0..p.

The same two functions serve a prompt, a chunk of it, and the verification of one decode round: each continues the
chain from the state behind the last token it has seen (0 before position 0).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest

I64 = NDArray[np.int64]
Ints = NDArray[np.integer]


def target_rows(before: I64, tokens: Ints, first: Ints | int) -> tuple[I64, I64]:
    """Run the target over T more tokens of B requests. Vectorized over requests, sequential in T.

    before [B] int64: chain state behind position first - 1; tokens [B, T]: tokens at first..first+T-1; first [B] or
    one int. Returns (states, hiddens), both [B, T] int64: column j belongs to position first + j.
    """
    batch, count = tokens.shape
    states = np.empty((count, batch), dtype=np.int64)
    state, columns = np.asarray(before, dtype=np.int64), tokens.T.astype(np.int64)
    for j in range(count):
        state = states[j] = digest.target_state(state, columns[j])
    positions = np.broadcast_to(np.asarray(first, dtype=np.int64), (batch,)) + np.arange(count)[:, None]
    return states.T, digest.target_hidden(states, positions).T


def candidates(last_token: Ints, drafts: Ints, k: int) -> I64:
    """The k candidates a verify round runs at F..F+k-1: ``[x[F], draft 1, ..., draft k-1]`` as [B, k] int64.

    last_token [B]: x[F]; drafts [B, steps]. With steps < k-1 the missing candidates are -1, which never match; with
    steps = k the last draft has no row.
    """
    rows = np.full((len(last_token), k), -1, dtype=np.int64)
    used = min(drafts.shape[1], k - 1)
    rows[:, 0] = last_token
    rows[:, 1 : 1 + used] = drafts[:, :used]
    return rows


def verify_rows(before: I64, frontier: Ints, last_token: Ints, drafts: Ints, k: int) -> tuple[I64, I64]:
    """The target's part of one decode round: states and hiddens [B, k] int64 of its candidates at F..F+k-1.

    before [B]: chain state behind position F - 1; frontier [B]: F. After accept length a the next round starts from
    ``states[:, a - 1]``, and ``hiddens[:, :a]`` are h(F..F+a-1); later columns belong to rejected candidates.
    """
    return target_rows(before, candidates(last_token, drafts, k), frontier)
