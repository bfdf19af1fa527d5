"""What warm-up and truncation do to the mean."""

from __future__ import annotations

import numpy as np

from frontier_oracle.reports.analysis.bootstrap import Resampler, interval
from frontier_oracle.reports.analysis.means import estimate
from frontier_oracle.reports.canonical import F64, NULL, NULL32, Trace
from frontier_oracle.reports.definitions import DEFINITIONS, Definition
from frontier_oracle.reports.table import Cell, Column, Table, finite, missing


def _headline(trace: Trace) -> tuple[Definition, F64, F64] | None:
    for key in ("al_raw", "al_committed", "al_reported"):
        top, bottom = DEFINITIONS[key].terms(trace)
        known = np.isfinite(top) & np.isfinite(bottom)
        if known.any():
            return DEFINITIONS[key], np.where(known, top, 0.0), np.where(known, bottom, 0.0)
    return None


def warmup_table(trace: Trace, resampler: Resampler) -> Table:
    """The mean with and without flagged warm-up, the first request, and the first tenth of the requests in the file."""
    title = "Warm-up"
    found = _headline(trace)
    if found is None or trace.n_units < 2 or set(trace.kind) != {"request"}:
        return missing("warmup", title, "needs at least two requests with rounds")
    definition, top, bottom = found
    flags = trace.ints["is_warmup"]
    flagged = (flags != NULL) & (flags == 1)
    tenth = np.arange(trace.n_units) < max(1, trace.n_units // 10)
    cases = [
        ("all", np.ones(trace.n_units, bool)),
        ("without the first request", np.arange(trace.n_units) > 0),
        ("first tenth of the requests", tenth),
        ("all but the first tenth", ~tenth),
    ]
    if flagged.any():
        cases += [("flagged as warm-up", flagged), ("without flagged warm-up", ~flagged)]
    rows: list[list[Cell]] = []
    for name, mask in cases:
        t, b = top * mask, bottom * mask
        low, high = (float("nan"),) * 2
        if resampler.usable and len(set(trace.cluster_ids()[mask][:1000])) > 4:
            low, high = interval(resampler.ratios(resampler.by_group(t), resampler.by_group(b)))
        value = finite(t.sum() / b.sum()) if b.sum() else None
        rows.append([name, int(np.count_nonzero(mask)), int(b.sum()), value, finite(low), finite(high)])
    columns = [
        Column("requests counted"),
        Column("requests", "int"),
        Column("rounds", "int"),
        Column("mean accept length", "number"),
        Column("low", "number"),
        Column("high", "number"),
    ]
    note = f"{definition.name}. Requests in the order of the input."
    if not flagged.any():
        note += " The input flags no request as warm-up."
    return Table("warmup", title, columns, rows, note)


def truncation_table(trace: Trace) -> Table:
    """Raw against committed: how many rounds and tokens the end of the sequence cut off (pitfall 2)."""
    title = "Truncation"
    raw, committed = estimate(trace, "al_raw").value, estimate(trace, "al_committed").value
    rows: list[list[Cell]] = [["raw mean", raw], ["committed mean", committed]]
    if raw is None or committed is None:
        have = "raw" if raw is not None else "committed" if committed is not None else "neither raw nor committed"
        return missing("truncation", title, f"needs raw and committed lengths; this input tells {have} ones")
    rows.append(["raw - committed", raw - committed])
    r, c = trace.rounds.get("al_raw"), trace.rounds.get("al_committed")
    if r is not None and c is not None:
        both = (r != NULL32) & (c != NULL32)
        rows.append(["rounds cut", int(np.count_nonzero(both & (r > c)))])
        rows.append(["tokens cut off", int((r[both].astype(np.int64) - c[both]).sum())])
    return Table(
        "truncation",
        title,
        [Column("quantity"), Column("value", "number")],
        rows,
        "Tokens past the end of sequence or limit are accepted by verification and never delivered.",
    )
