"""Two sides of a comparison: the mean both tell under one definition, their common requests, and drawn means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.analysis.bootstrap import DRAWS, MAX_GROUPS, MIN_CLUSTERS, SEED
from frontier_oracle.reports.canonical import F64, I64, Trace
from frontier_oracle.reports.definitions import DEFINITIONS, Definition

METRICS = ("al_raw", "al_committed", "al_reported", "completion_over_verify", "predicted_over_nondraft")
"""Tried in this order: the first that both sides tell is compared. Different definitions are never set against each
other."""
_PAIRED_SHARE = 0.8

Key = tuple[str, int, int]


@dataclass
class Side:
    """Requests that tell the mean: keys (request, turn, choice), and the mean's terms [n] float64 each."""

    keys: list[Key]
    top: F64
    bottom: F64
    category: list[str | None]

    @property
    def mean(self) -> float:
        return float(self.top.sum() / self.bottom.sum())

    def take(self, rows: list[int]) -> Side:
        return Side([self.keys[r] for r in rows], self.top[rows], self.bottom[rows], [self.category[r] for r in rows])

    def clusters(self) -> I64:
        seen: dict[str, int] = {}
        return np.array([seen.setdefault(name, len(seen)) for name, _, _ in self.keys], np.int64)


def common(traces: list[list[Trace]], metric: str | None) -> tuple[Definition, tuple[Side, Side]]:
    """The first definition that both sides tell (or ``metric``), and the sides. UsageError if there is none."""
    if metric is not None and metric not in DEFINITIONS:
        raise UsageError(f"--metric {metric}: unknown; one of {', '.join(DEFINITIONS)}")
    told: list[list[str]] = [[], []]
    for key in (metric,) if metric is not None else METRICS:
        sides = [side_of(DEFINITIONS[key], side) for side in traces]
        if sides[0] is not None and sides[1] is not None:
            return DEFINITIONS[key], (sides[0], sides[1])
        for n, side in enumerate(sides):
            if side is not None:
                told[n].append(key)
    raise UsageError(
        f"no mean that both sides tell under one definition: A tells {', '.join(told[0]) or 'none'}, "
        f"B tells {', '.join(told[1]) or 'none'}; compare the same kind of output"
    )


def side_of(definition: Definition, traces: list[Trace]) -> Side | None:
    keys: list[Key] = []
    tops, bottoms = [], []
    categories: list[str | None] = []
    for trace in traces:
        top, bottom = definition.terms(trace)
        rows = np.flatnonzero(np.isfinite(top) & np.isfinite(bottom))
        turn, choice = trace.ints["turn"], trace.ints["choice"]
        for u in rows.tolist():
            keys.append((trace.request_id[u], int(turn[u]), int(choice[u])))
            code = int(trace.category[u])
            categories.append(trace.categories[code] if code >= 0 else None)
        tops.append(top[rows])
        bottoms.append(bottom[rows])
    if not keys:
        return None
    return Side(keys, np.concatenate(tops), np.concatenate(bottoms), categories)


def pair(a: Side, b: Side) -> tuple[Side, Side, bool]:
    """Both sides cut down to the requests they share, in the same order, if that is most of each; else as they are."""
    index = {key: row for row, key in enumerate(b.keys)}
    unique = len(index) == len(b.keys) and len(set(a.keys)) == len(a.keys)
    rows = [row for row, key in enumerate(a.keys) if key in index]
    if not unique or len(rows) < _PAIRED_SHARE * max(len(a.keys), len(b.keys)):
        return a, b, False
    return a.take(rows), b.take([index[a.keys[row]] for row in rows]), True


def _weights(rng: np.random.Generator, clusters: int) -> F64:
    return rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=DRAWS).astype(np.float64)


def _grouped(side: Side, group: I64, groups: int) -> tuple[F64, F64]:
    top, bottom = (np.bincount(group, values, groups) for values in (side.top, side.bottom))
    return top.astype(np.float64), bottom.astype(np.float64)


def draw(a: Side, b: Side, paired: bool) -> tuple[F64, F64]:
    """Drawn means of A and of B, [DRAWS] each: with the same weights if paired. Empty with too few requests."""
    rng = np.random.default_rng(SEED)
    drawn: list[F64] = []
    weights: F64 | None = None
    for side in (a, b):
        group = side.clusters()
        count = int(group.max()) + 1
        if count > MAX_GROUPS:
            dealt = np.random.default_rng(SEED).permutation(np.arange(count) % MAX_GROUPS)
            group, count = dealt[group], MAX_GROUPS
        if count < MIN_CLUSTERS:
            return np.empty(0), np.empty(0)
        if weights is None or not paired:
            weights = _weights(rng, count)
        top, bottom = _grouped(side, group, count)
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn.append((weights @ top) / (weights @ bottom))
    return drawn[0], drawn[1]
