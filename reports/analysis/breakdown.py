"""The mean by category, by output position, by context length, and of first and last rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from frontier_oracle.reports.analysis.basis import Basis, chunks
from frontier_oracle.reports.analysis.bootstrap import Resampler, interval
from frontier_oracle.reports.canonical import F64, NULL32, Trace
from frontier_oracle.reports.definitions import DEFINITIONS
from frontier_oracle.reports.table import Cell, Column, Table, finite, missing

MAX_CATEGORIES = 100
_EDGES = np.array([0, 1, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072])


def _columns(first: str) -> list[Column]:
    return [
        Column(first),
        Column("rounds", "int"),
        Column("requests", "int"),
        Column("mean accept length", "number"),
        Column("low", "number"),
        Column("high", "number"),
    ]


def category_table(trace: Trace, basis: Basis | None, resampler: Resampler) -> Table:
    """Pooled means per category, from rounds or from totals (raw if known, else committed)."""
    title = "By category"
    if not trace.categories:
        return missing("category", title, "the input names no categories")
    for key in ("al_raw", "al_committed", "al_reported", "predicted_over_nondraft"):
        top, bottom = DEFINITIONS[key].terms(trace)
        known = np.isfinite(top) & np.isfinite(bottom)
        if known.any():
            break
    else:
        return missing("category", title, "needs accepted tokens and rounds per request")
    rows: list[list[Cell]] = []
    weight = np.bincount(trace.category[known & (trace.category >= 0)], minlength=len(trace.categories))
    shown = np.argsort(-weight, kind="stable")[:MAX_CATEGORIES]
    for code in sorted(shown.tolist()):
        name = trace.categories[code]
        mask = known & (trace.category == code)
        if not mask.any():
            rows.append([name, 0, 0, None, None, None])
            continue
        t, b = np.where(mask, top, 0.0), np.where(mask, bottom, 0.0)
        low, high = (float("nan"),) * 2
        if resampler.usable and len(set(trace.cluster_ids()[mask])) > 4:
            low, high = interval(resampler.ratios(resampler.by_group(t), resampler.by_group(b)))
        rows.append(
            [name, int(b.sum()), int(np.count_nonzero(mask)), finite(t.sum() / b.sum()), finite(low), finite(high)]
        )
    note = f"{DEFINITIONS[key].name} = {DEFINITIONS[key].formula}, pooled within the category."
    if len(trace.categories) > MAX_CATEGORIES:
        note += f" The {MAX_CATEGORIES} of {len(trace.categories)} categories with the most requests."
    return Table("category", title, _columns("category"), rows, note)


def _binned(
    trace: Trace, basis: Basis, resampler: Resampler, bins: int, bin_of: Callable[[slice], tuple[Any, Any]]
) -> tuple[F64, F64]:
    """([groups, bins] sum of lengths, [groups, bins] rounds). ``bin_of(rows)`` gives (bin, known) of each row."""
    assert basis.values is not None
    sums = np.zeros((max(resampler.groups, 1), bins))
    counts = np.zeros_like(sums)
    for rows, group in chunks(trace, resampler):
        values = basis.values[rows]
        index, known = bin_of(rows)
        good = known.astype(bool) & (values != NULL32)
        flat = group[good] * bins + index[good].astype(np.int64)
        sums += np.bincount(flat, values[good].astype(np.float64), minlength=sums.size).reshape(sums.shape)
        counts += np.bincount(flat, minlength=sums.size).reshape(sums.shape)
    return sums, counts


def _rows(names: list[str], sums: F64, counts: F64, resampler: Resampler) -> list[list[Cell]]:
    draws = resampler.ratios(sums, counts) if resampler.usable else None
    rows: list[list[Cell]] = []
    for b, name in enumerate(names):
        n = counts[:, b].sum()
        if not n:
            continue
        groups = int(np.count_nonzero(counts[:, b]))
        low, high = interval(draws[:, b]) if draws is not None and groups > 4 else (float("nan"),) * 2
        rows.append([name, int(n), groups, finite(sums[:, b].sum() / n), finite(low), finite(high)])
    return rows


def by_column_table(
    trace: Trace, basis: Basis | None, resampler: Resampler, column: str, key: str, title: str
) -> Table:
    """Means in bins (powers of two) of a round column: output position or context length."""
    position = trace.rounds.get(column)
    if basis is None or basis.values is None or position is None:
        return missing(key, title, f"needs ordered rounds with {column}; this input does not tell it")

    def bin_of(rows: slice) -> tuple[Any, Any]:
        part = position[rows]
        return np.digitize(part, _EDGES) - 1, part >= 0

    sums, counts = _binned(trace, basis, resampler, len(_EDGES), bin_of)
    names = [_span(low, high) for low, high in zip(_EDGES, [*_EDGES[1:], None], strict=True)]
    table = Table(key, title, _columns("tokens before the round"), _rows(names, sums, counts, resampler))
    table.note = f"On {basis.what}. Requests counts bootstrap groups that have rounds there."
    return table


def _span(low: int, high: int | None) -> str:
    if high is None:
        return f"{low} and more"
    return f"{low}" if high - low == 1 else f"{low} to {high - 1}"


def ends_table(trace: Trace, basis: Basis | None, resampler: Resampler) -> Table:
    """First, last and other rounds of each unit: they differ from the mean (pitfall 9)."""
    title = "First and last rounds"
    if basis is None or basis.values is None:
        return missing("ends", title, "needs ordered rounds")
    lengths = np.diff(trace.starts)
    firsts = np.zeros(trace.n_rounds, bool)
    lasts = np.zeros(trace.n_rounds, bool)
    firsts[trace.starts[:-1][lengths > 0]] = True
    lasts[trace.starts[1:][lengths > 0] - 1] = True

    def bin_of(rows: slice) -> tuple[Any, Any]:
        first, last = firsts[rows], lasts[rows]
        index = np.where(first & last, 3, np.where(first, 0, np.where(last, 2, 1)))
        return index, np.ones(index.size, bool)

    sums, counts = _binned(trace, basis, resampler, 4, bin_of)
    names = ["first round", "rounds between", "last round", "only round of its request"]
    table = Table("ends", title, _columns("rounds of a request or turn"), _rows(names, sums, counts, resampler))
    table.note = f"On {basis.what}."
    if (trace.ints["turn"] < 0).all() and trace.header.source_format == "specbench":
        table.note += " Turns could not be cut apart: first and last are of the whole conversation."
    return table
