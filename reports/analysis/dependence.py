"""How much rounds depend on each other: autocorrelation within a request, and what it does to an interval."""

from __future__ import annotations

import numpy as np

from frontier_oracle.reports.analysis.basis import CHUNK, Basis
from frontier_oracle.reports.analysis.bootstrap import Resampler
from frontier_oracle.reports.canonical import F64, I32, NULL32, Trace
from frontier_oracle.reports.table import Cell, Column, Table, finite, missing

LAGS = (1, 2, 3, 4, 5, 8, 16, 32)


def autocorrelation(values: I32, unit: I32, lag: int) -> tuple[float, float, int]:
    """(about the overall mean, within requests, pairs): correlation of rounds ``lag`` apart in the same unit.

    values, unit [n]. The first counts differences between requests as dependence, which is what widens an interval;
    the second takes each request's own mean out. Both divide by the spread of the rounds that form pairs, so that
    short requests, which have few pairs for their rounds, do not pull them towards zero.
    """
    n_units = int(unit[-1]) + 1 if unit.size else 0
    counts = np.maximum(np.bincount(unit, minlength=n_units), 1)
    overall = float(values.mean(dtype=np.float64))
    own = np.bincount(unit, values, minlength=n_units) / counts
    pairs, sums, sums_own = 0, np.zeros(3), np.zeros(3)
    for start in range(0, values.size, CHUNK):
        stop = min(start + CHUNK, values.size)
        x = values[start:stop].astype(np.float64)
        u = unit[start:stop]
        centred, within = x - overall, x - own[u]
        later = slice(start + lag, min(stop + lag, values.size))
        y, v = values[later].astype(np.float64), unit[later]
        same = u[: y.size] == v
        pairs += int(np.count_nonzero(same))
        sums += _products(centred[: y.size][same], (y - overall)[same])
        sums_own += _products(within[: y.size][same], (y - own[v])[same])
    return _ratio(sums), _ratio(sums_own), pairs


def _products(x: F64, y: F64) -> F64:
    """[3]: sums of x y, of x squared and of y squared."""
    return np.array([x @ y, x @ x, y @ y])


def _ratio(sums: F64) -> float:
    spread = float(np.sqrt(sums[1] * sums[2]))
    return float(sums[0]) / spread if spread else float("nan")


def dependence_table(trace: Trace, basis: Basis | None, resampler: Resampler) -> Table:
    """Autocorrelation at several lags, and the design effect of drawing requests instead of rounds."""
    title = "Dependence between rounds"
    if basis is None or basis.values is None:
        return missing("dependence", title, "needs ordered rounds")
    values, unit = basis.values, trace.unit_of_round()
    if int(values.min()) == NULL32:
        keep = values != NULL32
        values, unit = values[keep], unit[keep]
    rows: list[list[Cell]] = []
    for lag in LAGS:
        overall, within, pairs = autocorrelation(values, unit, lag)
        if pairs < 2:
            break
        rows.append([lag, finite(overall), finite(within), pairs])
    if not rows or rows[0][1] is None:
        return missing("dependence", title, "all rounds have the same length, or no request has two")
    columns = [
        Column("lag", "int"),
        Column("correlation", "number", "about the mean of all rounds"),
        Column("within requests", "number", "about each request's own mean"),
        Column("pairs", "int"),
    ]
    note = f"On {basis.what}. "
    if resampler.usable:
        by_group = basis.by_group
        lengths = np.arange(by_group.shape[1]) + 1
        draws = resampler.ratios(by_group @ lengths, by_group.sum(axis=1))
        independent = float(values.var(dtype=np.float64)) / values.size
        effect = float(np.nanvar(draws)) / independent if independent else float("nan")
        note += (
            f"Requests drawn instead of rounds: the variance of the mean is {effect:.1f} times that of independent "
            f"rounds, so these {values.size} rounds tell as much as {values.size / max(effect, 1e-9):.0f} would."
        )
    return Table("dependence", title, columns, rows, note)
