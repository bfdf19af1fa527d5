"""The means and rates under every definition, with intervals, and the engine's own numbers beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from frontier_oracle.reports.analysis.bootstrap import MIN_CLUSTERS, Resampler, interval
from frontier_oracle.reports.canonical import F64, Trace
from frontier_oracle.reports.definitions import DEFINITIONS, Definition, resolve
from frontier_oracle.reports.table import Cell, Column, Table, finite

_NO_REQUESTS = {
    "window": "log windows are no requests",
    "iteration": "iterations are no requests",
    "lifetime": "a counter has no requests",
    "aggregate": "an aggregate has no requests",
}


@dataclass(frozen=True)
class Estimate:
    """One number. ``value`` is None with a ``reason`` if the input does not tell it; low and high if no interval."""

    definition: Definition
    aggregation: str
    value: float | None
    low: float | None = None
    high: float | None = None
    units: int = 0
    top: float = 0.0
    bottom: float = 0.0
    reason: str = ""
    computed: str = ""

    @property
    def formula(self) -> str:
        """The formula as computed on this input, or the definition's."""
        return self.computed or self.definition.formula


def per_unit(trace: Trace, key: str) -> F64:
    """A definition for each unit: [n] float64, NaN where unknown."""
    top, bottom = DEFINITIONS[key].terms(trace)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(top / bottom, dtype=np.float64)


def estimate(trace: Trace, key: str, aggregation: str = "pooled", resampler: Resampler | None = None) -> Estimate:
    """A definition, ``pooled`` (ratio of sums) or over ``requests`` (mean of ratios), over the units that tell it."""
    definition = DEFINITIONS[key]
    top, bottom = definition.terms(trace)
    known = np.isfinite(top) & np.isfinite(bottom)
    if not known.any():
        return Estimate(
            definition, aggregation, None, reason=f"needs {definition.needs}, which this input does not tell"
        )
    kinds = {trace.kind[u] for u in np.flatnonzero(known)[:1000]}
    if aggregation == "requests":
        if kinds - {"request"}:
            return Estimate(definition, aggregation, None, reason=_NO_REQUESTS[sorted(kinds - {"request"})[0]])
        top, bottom = np.where(known, top / bottom, np.nan), known.astype(np.float64)
    top, bottom = np.where(known, top, 0.0), np.where(known, bottom, 0.0)
    low, high, reason = None, None, ""
    if kinds == {"request"} and resampler is not None and resampler.usable:
        draws = resampler.ratios(resampler.by_group(top), resampler.by_group(bottom))
        low, high = (finite(bound) for bound in interval(draws))
    else:
        reason = "no interval: " + (_NO_REQUESTS.get(sorted(kinds)[0]) or f"fewer than {MIN_CLUSTERS} requests")
    return Estimate(
        definition,
        aggregation,
        float(top.sum() / bottom.sum()),
        low,
        high,
        int(known.sum()),
        float(top.sum()),
        float(bottom.sum()),
        reason,
        definition.computed(trace.ints["prefill_in_rounds"][known], aggregation),
    )


def means_table(trace: Trace, resampler: Resampler) -> Table:
    """Every definition, pooled and per request."""
    columns = [
        Column("number"),
        Column("aggregation", help="pooled: ratio of sums; requests: mean of each request's ratio"),
        Column("value", "fine"),
        Column("low", "fine", "95 % interval, bootstrap over requests"),
        Column("high", "fine"),
        Column("units", "int", "requests (or windows, iterations) that tell it"),
        Column("numerator", "int"),
        Column("denominator", "int"),
        Column("formula"),
        Column("used by"),
        Column("why null or without interval"),
    ]
    rows: list[list[Cell]] = []
    for key, definition in DEFINITIONS.items():
        for aggregation in ("pooled", "requests"):
            e = estimate(trace, key, aggregation, resampler)
            sums: list[Cell] = (
                [round(e.top), round(e.bottom)] if aggregation == "pooled" and e.value is not None else [None] * 2
            )
            rows.append(
                [
                    definition.name,
                    aggregation,
                    e.value,
                    e.low,
                    e.high,
                    e.units,
                    *sums,
                    e.formula,
                    definition.used_by,
                    e.reason,
                ]
            )
    rows.sort(key=lambda row: row[2] is None)
    note = (
        f"Intervals: 95 % percentile bootstrap over {resampler.clusters} requests (turns of a conversation together)."
        if resampler.usable
        else f"No intervals: fewer than {MIN_CLUSTERS} requests."
    )
    if resampler.usable and resampler.clusters < 20:
        note += " With fewer than 20 requests they are too narrow."
    return Table("means", "Means and rates, each under its definition", columns, rows, note)


def engine_table(trace: Trace) -> Table:
    """The engine's own numbers beside ours under the same definition, and beside the headline."""
    columns = [
        Column("engine's number"),
        Column("engine", "fine"),
        Column("definition it follows"),
        Column("ours, same definition", "fine"),
        Column("agrees"),
        Column("our raw mean", "fine"),
        Column("our committed mean", "fine"),
        Column("why they differ"),
        Column("where"),
    ]
    raw, committed = estimate(trace, "al_raw").value, estimate(trace, "al_committed").value
    rows: list[list[Cell]] = []
    for name, values, follows in (
        ("mean accept length", trace.reported_mean, trace.header.reported_mean),
        ("acceptance rate", trace.reported_rate, trace.header.reported_rate),
    ):
        rows += _per_unit_rows(trace, name, values, follows, raw, committed)
    for number in trace.engine_numbers:
        rows.append(_number_row(trace, number.name, number.value, number.definition, raw, committed, number.where))
    table = Table("engine", "The engine's own numbers", columns, rows)
    if not rows:
        table.unavailable = "the input states no mean or rate of its own"
    return table


_SHOWN = 20


def _per_unit_rows(
    trace: Trace, name: str, values: F64, follows: str | None, raw: Any, committed: Any
) -> list[list[Cell]]:
    """One summary row (how many agree), then the units that disagree; each unit in full if there are few."""
    stated = np.flatnonzero(np.isfinite(values))
    if not stated.size:
        return []
    if follows is None:
        return [
            _number_row(
                trace, f"{name} of {trace.request_id[u]}", float(values[u]), None, raw, committed, _where(trace, int(u))
            )
            for u in stated[:_SHOWN]
        ]
    definition, aggregation, tolerance = resolve(follows)
    label = definition.name if aggregation == "pooled" else f"{definition.name} ({aggregation})"
    ours = per_unit(trace, definition.key)
    comparable = stated[np.isfinite(ours[stated])]
    off = comparable[np.abs(ours[comparable] - values[comparable]) > tolerance]
    rows: list[list[Cell]] = [
        [
            f"{name}, {len(stated)} {trace.kind[int(stated[0])]}s: mean of the stated",
            finite(values[stated].mean()),
            label,
            finite(ours[comparable].mean()) if comparable.size else None,
            f"{comparable.size - off.size} of {comparable.size} agree" if comparable.size else "not recomputable here",
            raw if not definition.is_rate else None,
            committed if not definition.is_rate else None,
            definition.text,
            "",
        ]
    ]
    if stated.size > 1:
        ends = ((word, int(pick(values[stated]))) for word, pick in (("smallest", np.argmin), ("largest", np.argmax)))
        rows += [_unit_row(trace, f"{word} {name}", int(stated[n]), values, ours, label, tolerance) for word, n in ends]
    shown = stated if stated.size <= _SHOWN else off[:_SHOWN]
    rows += [_unit_row(trace, name, int(u), values, ours, label, tolerance) for u in shown]
    return rows


def _unit_row(trace: Trace, name: str, u: int, values: F64, ours: F64, label: str, tolerance: float) -> list[Cell]:
    agrees = None if not np.isfinite(ours[u]) else bool(abs(ours[u] - values[u]) <= tolerance)
    rate = "rate" in name
    return [
        f"{name}, of {trace.request_id[u]}",
        finite(values[u]),
        label,
        finite(ours[u]),
        None if agrees is None else "yes" if agrees else "NO",
        None if rate else finite(per_unit(trace, "al_raw")[u]),
        None if rate else finite(per_unit(trace, "al_committed")[u]),
        "",
        _where(trace, u),
    ]


def _number_row(
    trace: Trace, name: str, value: float, follows: str | None, raw: Any, committed: Any, where: str
) -> list[Cell]:
    if follows is None:
        return [
            name,
            value,
            "not comparable with a mean over rounds" if raw is None and committed is None else "its own",
            None,
            None,
            raw,
            committed,
            "stated for the record: the source does not say how it is formed, or it is no mean over rounds",
            where,
        ]
    definition, aggregation, tolerance = resolve(follows)
    # a percentile over requests follows the definition, but is no mean that could stand beside it
    mean = aggregation in ("pooled", "requests")
    mine = estimate(trace, definition.key, aggregation).value if mean else None
    agrees = None if mine is None else "yes" if abs(mine - value) <= tolerance else "NO"
    return [name, value, f"{definition.name} ({aggregation})", mine, agrees, raw, committed, definition.text, where]


def _where(trace: Trace, unit: int) -> str:
    path, line = trace.place(unit)
    return path if line is None else f"{path}:{line}"
