"""``compare A B``: the change of the mean accept length from A to B, paired where the requests are the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.analysis.bootstrap import interval
from frontier_oracle.reports.canonical import F64, Trace
from frontier_oracle.reports.definitions import Definition
from frontier_oracle.reports.load import load
from frontier_oracle.reports.output import PAGE, Output
from frontier_oracle.reports.pairing import Side, common, draw, pair
from frontier_oracle.reports.problems import ProblemLog
from frontier_oracle.reports.render import html, markdown, overview
from frontier_oracle.reports.render.html import version
from frontier_oracle.reports.table import Cell, Column, Table, finite
from frontier_oracle.reports.verdict import Change, parse_share, verdict

_SHOWN = 50


@dataclass(frozen=True)
class CompareResult:
    """``exit_code`` is 2 under ``strict`` with defects in the input, 1 if ``fail_if_drop`` was given and the drop is
    beyond it, else 0. ``change`` is B / A - 1. ``input_tables``: defects by kind, and files passed over."""

    exit_code: int
    verdict: str
    change: float
    low: float | None
    high: float | None
    paired: bool
    metric: str
    tables: list[Table]
    summary: dict[str, Any]
    input_tables: list[Table]
    message: str


def compare(
    a: Sequence[str | Path],
    b: Sequence[str | Path],
    *,
    fail_if_drop: str | float | None = None,
    metric: str | None = None,
    input_format: str | None = None,
    strict: bool = False,
    out_dir: str | Path | None = None,
) -> CompareResult:
    """Compare the requests read from ``a`` with those from ``b`` (files, directories, globs).

    fail_if_drop: ``"2%"`` or 0.02: exit code 1 if B's mean is lower by more than that and the 95 % interval of the
    change lies below zero, so that noise alone does not fail a build. With fewer than five requests there is no
    interval, and the drop alone decides. metric: a key of ``definitions.DEFINITIONS``; by default the first of METRICS
    that both sides tell. Defects in the input and files of no known format are counted and listed; with ``strict`` they
    are exit code 2. Writes index.html, compare.json and compare.md into out_dir if given. UsageError if the sides have
    no definition in common.
    """
    allowed = None if fail_if_drop is None else parse_share(fail_if_drop)
    output = None if out_dir is None else Output(out_dir)
    loaded = [load(side, input_format=input_format, output=out_dir) for side in (a, b)]
    defects = sum(side.defects() for side in loaded)
    try:
        definition, sides = common([side.traces for side in loaded], [a, b], metric)
    except UsageError as error:
        if not defects:
            raise
        raise UsageError(f"{error}; {defects} defects in the input, {overview.first_defect(loaded)}") from None
    formula = _formula(definition, [trace for side in loaded for trace in side.traces])
    left, right, pairing = pair(*sides)
    if not left.mean:
        raise UsageError(f"A's mean is 0 ({definition.name}): no change can be a share of it; look at A's report first")
    draws_a, draws_b = draw(left, right, pairing.paired)
    low, high = _bounds(draws_a, draws_b)
    change = Change(right.mean / left.mean - 1, low, high)
    sentence, failed = verdict(definition.name, left, right, change, pairing, allowed)
    tables = [
        _overall_table(definition, formula, left, right, sides, draws_a, draws_b, change),
        _category_table(left, right, pairing.paired),
        _request_table(left, right, pairing.paired),
    ]
    problems = ProblemLog()
    for side in loaded:
        problems.merge(side.all_problems())
    input_tables = [overview.problem_counts(problems), overview.passed_over(*loaded, records=False)]
    summary = {
        "verdict": sentence,
        "metric": definition.key,
        "definition": formula,
        "paired": pairing.paired,
        "paired_share": pairing.share,
        "a": left.mean,
        "b": right.mean,
        "change": change.value,
        "low": low,
        "high": high,
        "requests_a": len(left.keys),
        "requests_b": len(right.keys),
        "fail_if_drop": allowed,
        "failed": failed,
        "problems": overview.problem_summary(problems),
        "unrecognised": [name for side in loaded for name in side.unrecognised],
        "skipped": [name for side in loaded for name in side.skipped],
        "tables": {table.key: table.to_dict() for table in tables},
    }
    if output is not None:
        with output.writing() as folder:
            _write(folder, sentence, tables, summary, problems, input_tables)
    where = f": see {Path(out_dir) / PAGE}" if out_dir is not None else f": {overview.first_defect(loaded)}"
    return CompareResult(
        exit_code=2 if strict and defects else int(failed),
        verdict=sentence,
        change=change.value,
        low=low,
        high=high,
        paired=pairing.paired,
        metric=definition.key,
        tables=tables,
        summary=summary,
        input_tables=input_tables,
        message=f"{defects} defects in the input (--strict){where}" if strict and defects else sentence,
    )


def _formula(definition: Definition, traces: list[Trace]) -> str:
    """The formula as computed on the requests of both sides."""
    flags = [
        trace.ints["prefill_in_rounds"][np.isfinite(top) & np.isfinite(bottom)]
        for trace in traces
        for top, bottom in [definition.terms(trace)]
    ]
    return definition.computed(np.concatenate(flags), "pooled")


def _bounds(draws_a: F64, draws_b: F64) -> tuple[float | None, float | None]:
    """95 % interval of the change; None without draws."""
    if not draws_a.size:
        return None, None
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = interval(draws_b / draws_a - 1)
    return finite(low), finite(high)


def _overall_table(
    definition: Definition,
    formula: str,
    a: Side,
    b: Side,
    whole: tuple[Side, Side],
    draws_a: F64,
    draws_b: F64,
    change: Change,
) -> Table:
    rows: list[list[Cell]] = []
    for name, side, all_of, draws in (("A", a, whole[0], draws_a), ("B", b, whole[1], draws_b)):
        low, high = interval(draws) if draws.size else (float("nan"),) * 2
        rows.append(
            [
                name,
                len(side.keys),
                len(all_of.keys) - len(side.keys),
                all_of.untold,
                int(side.bottom.sum()),
                side.mean,
                finite(low),
                finite(high),
            ]
        )
    rows.append(["B / A - 1", None, None, None, None, change.value, change.low, change.high])
    columns = [
        Column("side"),
        Column("requests", "int"),
        Column("left out as unmatched", "int"),
        Column("do not tell it", "int", "requests, windows or runs from which this mean cannot be formed"),
        Column("rounds", "int"),
        Column("mean", "fine"),
        Column("low", "fine"),
        Column("high", "fine"),
    ]
    return Table(
        "overall",
        f"{definition.name} = {formula}",
        columns,
        rows,
        "95 % percentile intervals, bootstrap over requests.",
    )


def _category_table(a: Side, b: Side, paired: bool) -> Table:
    names = sorted({name for name in a.category if name} & {name for name in b.category if name})
    columns = [
        Column("category"),
        Column("requests", "int"),
        Column("A", "number"),
        Column("B", "number"),
        Column("change", "percent"),
        Column("low", "percent"),
        Column("high", "percent"),
    ]
    rows: list[list[Cell]] = []
    for name in names:
        left = a.take([row for row, category in enumerate(a.category) if category == name])
        right = b.take([row for row, category in enumerate(b.category) if category == name])
        same = paired and left.keys == right.keys
        draws_a, draws_b = draw(left, right, same)
        change = right.mean / left.mean - 1 if left.mean else None
        rows.append([name, len(left.keys), left.mean, right.mean, change, *_bounds(draws_a, draws_b)])
    table = Table("category", "By category", columns, rows)
    if not rows:
        table.unavailable = "the sides have no category in common"
    return table


def _request_table(a: Side, b: Side, paired: bool) -> Table:
    columns = [
        Column("request"),
        Column("turn", "int"),
        Column("A", "number"),
        Column("B", "number"),
        Column("change", "percent"),
    ]
    title = "Requests that changed most"
    if not paired:
        return Table("requests", title, columns, unavailable="the sides do not have (most of) their requests in common")
    before, after = a.top / a.bottom, b.top / b.bottom
    with np.errstate(divide="ignore", invalid="ignore"):
        change = after / before - 1
    rows: list[list[Cell]] = []
    for r in np.argsort(-np.abs(change), kind="stable")[:_SHOWN].tolist():
        origin, name, turn, _ = a.keys[r]
        rows.append(
            [
                f"{origin} / {name}" if origin else name,
                turn if turn >= 0 else None,
                finite(before[r]),
                finite(after[r]),
                finite(change[r]),
            ]
        )
    return Table("requests", title, columns, rows)


def _write(
    out: Path,
    sentence: str,
    tables: list[Table],
    summary: dict[str, Any],
    problems: ProblemLog,
    input_tables: list[Table],
) -> None:
    title = "Accept-length comparison"
    page = html.page(
        {
            "title": title,
            "lead": sentence,
            "version": version(),
            "overview": tables[0],
            "overview_plot": None,
            "sections": [html.Section("comparison", "Where it changed", [], [], [], tables[1:], None)],
            "left_out": "",
            "engine_numbers": None,
            "definitions": overview.definitions_table(),
            "problem_counts": input_tables[0],
            "problem_rows": overview.problem_rows(problems, overview.SHOWN_PROBLEMS),
            "passed_over": input_tables[1],
        }
    )
    (out / PAGE).write_text(page, encoding="utf-8")
    (out / "compare.json").write_text(json.dumps(summary, indent=1, allow_nan=False), encoding="utf-8")
    (out / "compare.md").write_text(markdown.summary(title, sentence, [*tables, *input_tables]), encoding="utf-8")
