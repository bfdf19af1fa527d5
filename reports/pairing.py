"""Two sides of a comparison: the mean both tell under one definition, their common requests, and drawn means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.analysis.bootstrap import DRAWS, MAX_GROUPS, MIN_CLUSTERS, SEED
from frontier_oracle.reports.canonical import F64, I64, Trace
from frontier_oracle.reports.definitions import DEFINITIONS, Definition

METRICS = ("al_raw", "al_committed", "al_reported", "completion_over_verify", "predicted_over_nondraft")
"""Tried in this order: the first that both sides tell is compared. Different definitions are never set against each
other."""
PAIRED_SHARE = 0.8
"""Least share of the larger side's requests that must have a partner for the comparison to be paired."""

Key = tuple[str, str, int, int]


@dataclass
class Side:
    """Requests that tell the mean: keys (input, request, turn, choice), and the mean's terms [n] float64 each.
    ``untold`` counts the requests that do not tell it."""

    keys: list[Key]
    top: F64
    bottom: F64
    category: list[str | None]
    untold: int = 0

    @property
    def mean(self) -> float:
        return float(self.top.sum() / self.bottom.sum())

    def take(self, rows: list[int]) -> Side:
        keys, category = [self.keys[r] for r in rows], [self.category[r] for r in rows]
        return Side(keys, self.top[rows], self.bottom[rows], category, self.untold)

    def clusters(self) -> I64:
        seen: dict[tuple[str, str], int] = {}
        return np.array([seen.setdefault(key[:2], len(seen)) for key in self.keys], np.int64)

    def repeats(self) -> bool:
        return len(set(self.keys)) < len(self.keys)

    def without_inputs(self) -> Side:
        """The same under keys that do not say which input a request is of."""
        keys = [("", *key[1:]) for key in self.keys]
        return Side(keys, self.top, self.bottom, self.category, self.untold)


@dataclass(frozen=True)
class Pairing:
    """``share`` of the larger side's requests that have a partner; the unmatched are left out only if ``paired``."""

    paired: bool
    share: float
    unmatched_a: int = 0
    unmatched_b: int = 0
    repeated: bool = False


def input_names(traces: list[Trace], paths: Sequence[str | Path]) -> list[str]:
    """A name per trace that is the same on both sides: its place below the directory given, and its format."""
    roots = [Path(path) for path in paths if Path(path).is_dir()]
    names = []
    for trace in traces:
        file = Path(trace.header.source_file)
        root = next((root for root in roots if file.is_relative_to(root)), None)
        place = "" if root is None and len(paths) == 1 and file == Path(paths[0]) else file.name
        names.append(f"{place if root is None else file.relative_to(root)} {trace.header.source_format}".strip())
    return names


def common(
    traces: list[list[Trace]], paths: list[Sequence[str | Path]], metric: str | None
) -> tuple[Definition, tuple[Side, Side]]:
    """The first definition that both sides tell (or ``metric``), and the sides. UsageError if there is none.

    Requests are known by their ids alone where these are unique on each side, else also by their input.
    """
    names = [input_names(of_side, given) for of_side, given in zip(traces, paths, strict=True)]
    if metric is not None and metric not in DEFINITIONS:
        raise UsageError(f"--metric {metric}: unknown; one of {', '.join(DEFINITIONS)}")
    told: list[list[str]] = [[], []]
    for key in (metric,) if metric is not None else METRICS:
        sides = [side_of(DEFINITIONS[key], side, n) for side, n in zip(traces, names, strict=True)]
        a, b = sides
        if a is not None and b is not None:
            plain = a.without_inputs(), b.without_inputs()
            return DEFINITIONS[key], (a, b) if plain[0].repeats() or plain[1].repeats() else plain
        for n, side in enumerate(sides):
            if side is not None:
                told[n].append(key)
    raise UsageError(
        f"no mean that both sides tell under one definition: A tells {', '.join(told[0]) or 'none'}, "
        f"B tells {', '.join(told[1]) or 'none'}; compare the same kind of output"
    )


def side_of(definition: Definition, traces: list[Trace], names: list[str]) -> Side | None:
    keys: list[Key] = []
    tops, bottoms = [], []
    categories: list[str | None] = []
    for trace, name in zip(traces, names, strict=True):
        top, bottom = definition.terms(trace)
        rows = np.flatnonzero(np.isfinite(top) & np.isfinite(bottom))
        turn, choice = trace.ints["turn"], trace.ints["choice"]
        for u in rows.tolist():
            keys.append((name, trace.request_id[u], int(turn[u]), int(choice[u])))
            code = int(trace.category[u])
            categories.append(trace.categories[code] if code >= 0 else None)
        tops.append(top[rows])
        bottoms.append(bottom[rows])
    if not keys:
        return None
    untold = sum(trace.n_units for trace in traces) - len(keys)
    return Side(keys, np.concatenate(tops), np.concatenate(bottoms), categories, untold)


def pair(a: Side, b: Side) -> tuple[Side, Side, Pairing]:
    """Both sides cut down to the requests they share, in the same order, if that is most of each; else as they are."""
    index = {key: row for row, key in enumerate(b.keys)}
    rows = [row for row, key in enumerate(a.keys) if key in index]
    share = len(rows) / max(len(a.keys), len(b.keys))
    repeated = a.repeats() or b.repeats()
    if repeated or share < PAIRED_SHARE:
        return a, b, Pairing(False, share, repeated=repeated)
    pairing = Pairing(True, share, len(a.keys) - len(rows), len(b.keys) - len(rows))
    return a.take(rows), b.take([index[a.keys[row]] for row in rows]), pairing


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
