"""Designs on the same prompts, side by side: accept length with its interval, what each loses against the ideal and
where, and the wrong cache entries that it keeps.

Intervals are 95 %, bootstrap over requests, paired: both sides of a difference are drawn with the same requests. Losses
are taken at the states that the design itself met: in each verify round the drafts that a recomputation from scratch
gives for the same tokens, against the design's own. Both are held against the output that followed; rounds in which
the output ended within k tokens count for neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle.atlas import STATES, atlas
from frontier_oracle.oracle.design_batch import NAMES
from frontier_oracle.oracle.designs import DESIGNS
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.simulate.drafters import GENERIC, RECOMPUTE, TARGET
from frontier_oracle.property_tests.simulate.requests import Request
from frontier_oracle.property_tests.simulate.run import DesignRun, Simulation
from frontier_oracle.reports.analysis.bootstrap import interval
from frontier_oracle.reports.pairing import Side, draw

F64 = NDArray[np.float64]
POSITION_BIN = 32
RATE_BINS = ("low", "middle", "high")
LEDGER_REQUESTS = 48


@dataclass(frozen=True)
class Hits:
    """Rounds of one request whose next k tokens are known. frontier [n]; own, ideal [n]: leading drafts that the output
    bears out."""

    frontier: NDArray[np.int64]
    own: NDArray[np.int64]
    ideal: NDArray[np.int64]


def compare(done: Simulation) -> list[dict[str, Any]]:
    """A row per design that drafts. Raises UsageError unless the ideal served the same prompts, with its drafts kept in
    every run."""
    names = [run.name for run in done.runs]
    if RECOMPUTE not in names or not done.options.recompute:
        raise UsageError(f"a comparison needs the design {RECOMPUTE}, and the ideal's drafts beside the others'")
    ideal = done.run(RECOMPUTE)
    rates = _rate_bins(ideal)
    return [_row(done, run, ideal, rates) for run in done.runs if run.name != TARGET]


def _row(done: Simulation, run: DesignRun, ideal: DesignRun, rates: list[int]) -> dict[str, Any]:
    mine, best = _accepts(run), _accepts(ideal)
    hits = [_hits(request, done.options.k) for request in run.requests]
    return {
        "name": run.name,
        "requests": len(run.requests),
        "tokens": run.tokens,
        "verify_rounds": run.verify_rounds,
        "rounds_as_ideal": run.equal_rounds,
        "output_is_the_targets": None if run.name not in done.findings else not done.findings[run.name],
        "accept_length": _mean(mine),
        "change": _change(best, mine),
        "depths": [_depth(run.requests, hits, depth) for depth in range(done.options.k - 1)],
        "positions": list(_positions(run.requests, hits)),
        "rates": [_rate(run.requests, hits, rates, bin_) for bin_ in range(len(RATE_BINS))],
        "entries": entries(run, done.options.k),
        "rows": run.rows,
    }


def _hits(request: Request, k: int) -> Hits:
    known = [v for v in request.rounds if v.frontier + k < len(request.tokens) and v.ideal]
    after = [request.tokens[v.frontier + 1 : v.frontier + k] for v in known]
    own = [_leading(v.drafts, tokens) for v, tokens in zip(known, after, strict=True)]
    ideal = [_leading(v.ideal, tokens) for v, tokens in zip(known, after, strict=True)]
    return Hits(*(np.array(x, dtype=np.int64) for x in ([v.frontier for v in known], own, ideal)))


def _leading(drafts: Sequence[int], tokens: Sequence[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(drafts, tokens, strict=False)) if a != b), len(drafts))


# -- means with intervals ---------------------------------------------------------------------------------------------


def _side(requests: Sequence[Request], top: Sequence[float], bottom: Sequence[float]) -> Side:
    keys = [("", r.prompt.name, r.prompt.turn, 0) for r in requests]
    return Side(keys, np.array(top, dtype=np.float64), np.array(bottom, dtype=np.float64), [None] * len(keys))


def _accepts(run: DesignRun) -> Side:
    """Sums of accept lengths, and rounds, by request."""
    return _side(
        run.requests, [sum(v.accept for v in r.rounds) for r in run.requests], [len(r.rounds) for r in run.requests]
    )


def _mean(side: Side) -> dict[str, float | None]:
    return _estimate(side.mean if side.bottom.sum() else np.nan, draw(side, side, True)[0])


def _change(before: Side, after: Side) -> dict[str, float | None]:
    """after / before - 1."""
    a, b = draw(before, after, True)
    return _estimate(after.mean / before.mean - 1, b / a - 1)


def _difference(before: Side, after: Side) -> dict[str, float | None]:
    """after - before."""
    a, b = draw(before, after, True)
    value = after.mean - before.mean if before.bottom.sum() and after.bottom.sum() else np.nan
    return _estimate(value, b - a)


def _estimate(value: float, draws: F64) -> dict[str, float | None]:
    low, high = interval(draws) if draws.size else (np.nan, np.nan)
    return {name: float(v) if np.isfinite(v) else None for name, v in (("value", value), ("low", low), ("high", high))}


# -- where it is lost -------------------------------------------------------------------------------------------------


def _depth(requests: Sequence[Request], hits: Sequence[Hits], depth: int) -> dict[str, Any]:
    """Draft depth+1: how often it is right where all before it were, and for the ideal's drafts at the same states."""
    sides = [
        _side(requests, [(h > depth).sum() for h in side], [(h >= depth).sum() for h in side])
        for side in ([h.own for h in hits], [h.ideal for h in hits])
    ]
    return {
        "depth": depth,
        "conditional": _mean(sides[0]),
        "ideal": _mean(sides[1]),
        "change": _difference(sides[1], sides[0]),
    }


def _positions(requests: Sequence[Request], hits: Sequence[Hits]) -> Iterator[dict[str, Any]]:
    """By the frontier's position: drafts lost a round."""
    last = max((int(h.frontier.max()) for h in hits if h.frontier.size), default=-1)
    for first in range(0, last + 1, POSITION_BIN):
        inside = [(h.frontier >= first) & (h.frontier < first + POSITION_BIN) for h in hits]
        if any(i.any() for i in inside):
            yield {"from": first, "to": first + POSITION_BIN - 1} | _lost(requests, hits, inside)


def _rate(requests: Sequence[Request], hits: Sequence[Hits], rates: list[int], bin_: int) -> dict[str, Any]:
    """By how predictable a request is: a third of the requests each, by the ideal's accept length."""
    inside = [np.full(len(h.own), rate == bin_) for h, rate in zip(hits, rates, strict=True)]
    return {"rate": RATE_BINS[bin_]} | _lost(requests, hits, inside)


def _lost(requests: Sequence[Request], hits: Sequence[Hits], inside: Sequence[NDArray[np.bool_]]) -> dict[str, Any]:
    pairs = list(zip(hits, inside, strict=True))
    rounds = [int(i.sum()) for i in inside]
    ideal, own = (
        _side(requests, [1.0 * (side[i] + 1).sum() for side, i in sides], rounds)
        for sides in ([(h.ideal, i) for h, i in pairs], [(h.own, i) for h, i in pairs])
    )
    return {"rounds": sum(rounds), "ideal": _mean(ideal), "own": _mean(own), "change": _difference(ideal, own)}


def _rate_bins(ideal: DesignRun) -> list[int]:
    means = [sum(v.accept for v in r.rounds) / max(1, len(r.rounds)) for r in ideal.requests]
    order = np.argsort(np.argsort(means, kind="stable"), kind="stable")
    return (order * len(RATE_BINS) // max(1, len(means))).tolist()


# -- the ledger -------------------------------------------------------------------------------------------------------


def entries(run: DesignRun, k: int) -> dict[str, Any] | None:
    """The cache entries that the design's declaration leaves after these accept lengths: a number per 1,000 positions
    and depth, by state, over LEDGER_REQUESTS requests evenly taken. Index by index, so without the model. None for a
    system that is no design of the atlas, and for prompts of several lengths or chunks."""
    design = DESIGNS.get(run.name.removeprefix(GENERIC))
    lengths = {len(r.prompt.tokens) for r in run.requests}
    if design is None or len(lengths) != 1:
        return None
    some = run.requests[:: -(-len(run.requests) // LEDGER_REQUESTS)]
    sequences = [[v.accept for v in r.rounds[:-1]] for r in some if len(r.rounds) > 1]
    if not sequences:
        return None
    (played,) = atlas(sequences, k=k, prompt=lengths.pop(), designs=[design]).designs
    positions = sum(grid.shape[1] for grid in played.grids)
    by_depth = {
        state: [
            1000.0 * sum(int((grid[depth] == NAMES.index(state)).sum()) for grid in played.grids) / positions
            for depth in range(k - 1)
        ]
        for state in STATES
    }
    return {"requests": len(sequences), "positions": positions, "per_1000": by_depth}
