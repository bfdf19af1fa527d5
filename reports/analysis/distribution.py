"""How long rounds are: the distribution of accept lengths, and a geometric law fitted to it with its misfit."""

from __future__ import annotations

import numpy as np

from frontier_oracle.reports.analysis.basis import MAX_LENGTH, Basis
from frontier_oracle.reports.analysis.bootstrap import Resampler, interval
from frontier_oracle.reports.canonical import F64, NULL32, Trace
from frontier_oracle.reports.table import Cell, Column, Table, finite, missing

_NEEDS = "needs rounds or histograms; this input gives totals or means only"


def distribution_table(basis: Basis | None, resampler: Resampler) -> Table:
    """Share of rounds of each length, with intervals, and the share at least that long."""
    title = "Distribution of accept lengths"
    if basis is None or not basis.rounds:
        return missing("distribution", title, _NEEDS)
    counts = basis.histogram
    total = counts.sum()
    draws = None
    if resampler.usable:
        draws = resampler.ratios(basis.by_group, basis.by_group.sum(axis=1, keepdims=True))
    rows: list[list[Cell]] = []
    at_least = np.cumsum(counts[::-1])[::-1] / total
    for j, count in enumerate(counts):
        low, high = interval(draws[:, j]) if draws is not None else (float("nan"),) * 2
        rows.append([j + 1, int(count), finite(count / total), finite(low), finite(high), finite(at_least[j])])
    columns = [
        Column("accept length", "int"),
        Column("rounds", "int"),
        Column("share", "percent"),
        Column("low", "percent"),
        Column("high", "percent"),
        Column("at least", "percent"),
    ]
    quantiles = [int(np.searchsorted(np.cumsum(counts), q * total) + 1) for q in (0.1, 0.5, 0.9)]
    note = f"On {basis.what}. Median {quantiles[1]}, 10 % to 90 %: {quantiles[0]} to {quantiles[2]}."
    if basis.clipped:
        note += f" {basis.clipped} rounds longer than {MAX_LENGTH} stand in the last row."
    if basis.dropped:
        note += f" {basis.dropped} rounds have no usable length and are left out."
    return Table("distribution", title, columns, rows, note)


def fit_geometric(counts: F64, caps: F64, full: float) -> tuple[float, F64]:
    """(p, expected counts [K+1]) of i.i.d. acceptance with probability p per draft, stopping at the first rejection.

    counts: rounds by accepted drafts; caps [K+1]: rounds by proposed drafts; full: rounds that accepted all they
    proposed, in which nothing was rejected. The maximum likelihood p is accepted / (accepted + rejected).
    """
    accepted = float((counts * np.arange(counts.size)).sum())
    rejected = float(counts.sum()) - full
    p = accepted / (accepted + rejected) if accepted + rejected else 0.0
    expected = np.zeros(caps.size)
    j = np.arange(caps.size)
    for cap in np.flatnonzero(caps):
        expected[:cap] += caps[cap] * p ** j[:cap] * (1 - p)
        expected[cap] += caps[cap] * p**cap
    return p, expected


def geometric_table(trace: Trace, basis: Basis | None) -> Table:
    """Observed against i.i.d. acceptance. The misfit is the share of rounds that would have to move."""
    title = "Geometric (i.i.d.) fit and its misfit"
    if basis is None or not basis.rounds:
        return missing("geometric", title, _NEEDS)
    counts = basis.histogram
    if counts.size < 2 or counts[1:].sum() == 0:
        return missing("geometric", title, "no draft was ever accepted: nothing to fit")
    p, expected, fixed = _fit(trace, basis)
    total = counts.sum()
    width = max(counts.size, expected.size)
    counts, expected = (np.pad(v, (0, width - v.size)) for v in (counts, expected))
    moved = 0.5 * np.abs(counts - expected).sum() / total
    rows: list[list[Cell]] = [
        [j + 1, int(n), finite(e), finite(n / total), finite(e / total), finite((n - e) / total)]
        for j, (n, e) in enumerate(zip(counts, expected, strict=True))
    ]
    columns = [
        Column("accept length", "int"),
        Column("rounds", "int"),
        Column("fitted", "number"),
        Column("observed share", "percent"),
        Column("fitted share", "percent"),
        Column("difference", "percent"),
    ]
    verdict = "fits well" if moved < 0.02 else "fits roughly" if moved < 0.05 else "does not fit"
    mean = float((expected * (np.arange(width) + 1)).sum() / total)
    note = (
        f"One acceptance probability p = {p:.4f} per draft {verdict}: {100 * moved:.1f} % of rounds would have to "
        f"change length; fitted mean {mean:.3f}. {fixed} On {basis.what}. On trees, and where positions "
        "differ in how well they are drafted, no such p exists (pitfall 11)."
    )
    return Table("geometric", title, columns, rows, note)


def _fit(trace: Trace, basis: Basis) -> tuple[float, F64, str]:
    drafted = trace.rounds.get("drafted")
    counts = basis.histogram
    observed_k = counts.size - 1
    if drafted is None or basis.values is None or int(drafted.min()) == NULL32 or int(drafted.min()) < 0:
        k = trace.header.k_draft
        if k is not None and k > observed_k:
            counts = np.pad(counts, (0, k - observed_k))
        k_used = counts.size - 1
        caps = np.zeros(k_used + 1)
        caps[-1] = counts.sum()
        p, expected = fit_geometric(counts, caps, float(counts[-1]))
        source = "the configured number" if k is not None and k >= observed_k else "the longest round seen"
        return p, expected, f"Every round is taken to propose {k_used} drafts ({source})."
    top = int(min(max(int(drafted.max()), observed_k), MAX_LENGTH - 1))
    caps = np.bincount(np.minimum(drafted, top), minlength=top + 1).astype(np.float64)
    full = float(np.count_nonzero(basis.values - 1 >= drafted))
    return *fit_geometric(counts, caps, full), "The drafts that each round really proposed are used."
