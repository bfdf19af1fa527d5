"""Requests whose mean lies far from the others', by a robust score."""

from __future__ import annotations

import numpy as np

from frontier_oracle.reports.analysis.means import per_unit
from frontier_oracle.reports.canonical import Trace
from frontier_oracle.reports.table import Cell, Column, Table, finite, missing

_SCORE = 3.5
_MIN_ROUNDS = 5
_SHOWN = 100


def outliers_table(trace: Trace) -> Table:
    """Requests of at least five rounds more than 3.5 robust standard deviations (median, MAD) from the median."""
    title = "Outlying requests"
    for key in ("al_raw", "al_committed", "al_reported"):
        means = per_unit(trace, key)
        if np.isfinite(means).any():
            break
    steps = trace.known("verify_steps")
    counted = np.isfinite(means) & (steps >= _MIN_ROUNDS)
    if np.count_nonzero(counted) < 10:
        return missing("outliers", title, f"needs at least ten requests of {_MIN_ROUNDS} rounds or more")
    median = float(np.median(means[counted]))
    spread = 1.4826 * float(np.median(np.abs(means[counted] - median)))
    if not spread:
        return missing("outliers", title, "at least half of the requests have the same mean: no spread to judge by")
    score = np.where(counted, (means - median) / spread, 0.0)
    far = np.flatnonzero(np.abs(score) > _SCORE)
    far = far[np.argsort(-np.abs(score[far]), kind="stable")]
    rows: list[list[Cell]] = []
    for u in far[:_SHOWN]:
        path, line = trace.place(int(u))
        turn = int(trace.ints["turn"][u])
        code = int(trace.category[u])
        rows.append(
            [
                trace.request_id[u],
                turn if turn >= 0 else None,
                trace.categories[code] if code >= 0 else None,
                int(steps[u]),
                finite(means[u]),
                finite(score[u]),
                path if line is None else f"{path}:{line}",
            ]
        )
    columns = [
        Column("request"),
        Column("turn", "int"),
        Column("category"),
        Column("rounds", "int"),
        Column("mean accept length", "number"),
        Column("score", "number"),
        Column("where"),
    ]
    note = (
        f"{far.size} of {np.count_nonzero(counted)} requests of {_MIN_ROUNDS} rounds or more; median {median:.3f}, "
        f"robust standard deviation {spread:.3f}."
    )
    return Table("outliers", title, columns, rows, note)
