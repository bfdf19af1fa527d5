"""The series of accept lengths that the analyses below the means run on, and what it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from frontier_oracle.reports.analysis.bootstrap import Resampler
from frontier_oracle.reports.canonical import F64, I32, I64, NULL32, Trace, complete
from frontier_oracle.reports.definitions import listed

MAX_LENGTH = 256
"""Longer rounds are counted in the last bin of the histogram, and said to be."""
CHUNK = 1 << 20

RAW = "raw accept lengths"
COMMITTED = "committed accept lengths: the last round of a turn may be cut short"
MIXED = "lengths as listed, of which it is not known whether the last of a turn is cut"


@dataclass
class Basis:
    """``values`` [n_rounds] int32 in order (None: the order is not known), ``by_group`` [groups, K+1] rounds with
    j = length - 1, ``clipped`` rounds beyond MAX_LENGTH, ``dropped`` rounds without a usable length."""

    what: str
    values: I32 | None
    by_group: F64
    clipped: int = 0
    dropped: int = 0

    @property
    def histogram(self) -> F64:
        return np.asarray(self.by_group.sum(axis=0))

    @property
    def rounds(self) -> int:
        return int(self.by_group.sum())


def basis_of(trace: Trace, resampler: Resampler) -> Basis | None:
    """Raw lengths if complete, else committed ones, else as listed; from rounds or histograms. None: totals only."""
    raw, committed = trace.rounds.get("al_raw"), trace.rounds.get("al_committed")
    if trace.n_rounds and (raw is not None or committed is not None):
        known_raw = complete(raw) and trace.header.truncation in ("raw", "both")
        if known_raw:
            what, values = RAW, raw
        elif complete(committed):
            what, values = COMMITTED, committed
        else:
            what, values = MIXED, listed(trace)
        assert values is not None
        return _from_rounds(trace, what, values, resampler)
    if trace.histograms is not None:
        what = COMMITTED if trace.header.truncation == "committed" else RAW
        return _from_histograms(trace, what, resampler)
    return None


def chunks(trace: Trace, resampler: Resampler) -> Iterator[tuple[slice, I64]]:
    """(rows, group of each row) in pieces of at most CHUNK rounds, so that temporaries stay small."""
    group_of_unit = resampler.group
    for start in range(0, trace.n_rounds, CHUNK):
        stop = min(start + CHUNK, trace.n_rounds)
        first = int(np.searchsorted(trace.starts, start, side="right")) - 1
        last = int(np.searchsorted(trace.starts, stop, side="left"))
        edges = np.clip(trace.starts[first : last + 1], start, stop)
        yield slice(start, stop), np.repeat(group_of_unit[first:last], np.diff(edges))


def _from_rounds(trace: Trace, what: str, values: I32, resampler: Resampler) -> Basis:
    top = int(min(max(int(values.max()), 1), MAX_LENGTH))
    counts = np.zeros((max(resampler.groups, 1), top + 1))
    clipped = dropped = 0
    for rows, group in chunks(trace, resampler):
        part = values[rows]
        good = (part != NULL32) & (part >= 0)
        dropped += int(part.size - np.count_nonzero(good))
        clipped += int(np.count_nonzero(part > MAX_LENGTH))
        if dropped:
            part, group = part[good], group[good]
        length = np.minimum(part, top)
        flat = np.bincount(group * (top + 1) + length, minlength=counts.size)
        counts += flat.reshape(counts.shape)
    # a length of zero is recorded as a violation; it stands with the rounds that accepted nothing
    by_group = counts[:, 1:].copy()
    by_group[:, 0] += counts[:, 0]
    return Basis(what, values, by_group, clipped, dropped)


def _from_histograms(trace: Trace, what: str, resampler: Resampler) -> Basis:
    assert trace.histograms is not None
    longest = max((len(h) for h in trace.histograms if h is not None), default=1)
    width = min(longest, MAX_LENGTH)
    by_group = np.zeros((max(resampler.groups, 1), width))
    clipped = 0
    for u, histogram in enumerate(trace.histograms):
        for j, n in enumerate(histogram or ()):
            clipped += n if j >= width else 0
            by_group[resampler.group[u], min(j, width - 1)] += max(n, 0)
    return Basis(what, None, by_group, clipped)
