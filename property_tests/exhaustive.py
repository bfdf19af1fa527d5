"""Small scope, all of it: every accept sequence of R rounds, [1, max_accept]^R, each one request of a bulk run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.bulk import STOP_AT, BulkResult, MakeSystem, run_bulk

BATCH = 8192


def all_accepts(max_accept: int, rounds: int) -> NDArray[np.int64]:
    """[max_accept ** rounds, rounds]: every accept sequence once, in counting order."""
    numbers = np.arange(max_accept**rounds)[:, None]
    places = max_accept ** np.arange(rounds - 1, -1, -1)
    return 1 + numbers // places % max_accept


def run_exhaustive(
    make_system: MakeSystem,
    spec: Spec,
    rounds: int = 6,
    prompt: int = 16,
    chunks: Sequence[int] | None = None,
    threads: int | None = None,
    seed: int = 0,
) -> BulkResult:
    """Every accept sequence of ``rounds`` rounds after a prompt, in batches of at most 8192 requests.

    ``request`` in the result's failures is the sequence's row in ``all_accepts(spec.max_accept, rounds)``. Stops after
    the batch in which the 20th request failed.
    """
    accepts = all_accepts(spec.max_accept, rounds)
    total = BulkResult()
    for first in range(0, len(accepts), BATCH):
        part = run_bulk(make_system, spec, accepts[first : first + BATCH], prompt, chunks, threads=threads, seed=seed)
        total.request_rounds += part.request_rounds
        total.seconds += part.seconds
        total.failures += [(r + first if r >= 0 else r, number, what) for r, number, what in part.failures]
        if len(total.failures) >= STOP_AT:
            break
    return total
