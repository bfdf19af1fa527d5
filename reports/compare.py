"""``compare A B``: the change of the mean accept length from A to B, paired where the requests are the same."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.analysis.bootstrap import interval
from frontier_oracle.reports.canonical import F64
from frontier_oracle.reports.definitions import Definition
from frontier_oracle.reports.load import Loaded, load
from frontier_oracle.reports.pairing import Side, common, draw, pair
from frontier_oracle.reports.problems import ProblemLog
from frontier_oracle.reports.render import html, markdown, overview
from frontier_oracle.reports.render.html import version
from frontier_oracle.reports.table import Cell, Column, Table, finite

_SHOWN = 50


@dataclass(frozen=True)
class CompareResult:
    """``exit_code`` is 1 if ``fail_if_drop`` was given and the drop is beyond it, else 0. ``change`` is B / A - 1."""

    exit_code: int
    verdict: str
    change: float
    low: float | None
    high: float | None
    paired: bool
    metric: str
    tables: list[Table]
    summary: dict[str, Any]


def compare(
    a: Sequence[str | Path],
    b: Sequence[str | Path],
    *,
    fail_if_drop: str | float | None = None,
    metric: str | None = None,
    input_format: str | None = None,
    out_dir: str | Path | None = None,
) -> CompareResult:
    """Compare the requests read from ``a`` with those from ``b`` (files, directories, globs).

    fail_if_drop: ``"2%"`` or 0.02: exit code 1 if B's mean is lower by more than that and the 95 % interval of the
    change lies below zero, so that noise alone does not fail a build. Where no interval can be formed the drop alone
    decides. metric: a key of ``definitions.DEFINITIONS``; by default the first of METRICS that both sides tell. Writes
    index.html, compare.json and compare.md into out_dir if given. UsageError if the sides have no definition in common.
    """
    allowed = None if fail_if_drop is None else parse_share(fail_if_drop)
    loaded = [load(side, input_format=input_format) for side in (a, b)]
    definition, sides = common([side.traces for side in loaded], metric)
    left, right, paired = pair(*sides)
    draws_a, draws_b = draw(left, right, paired)
    change = right.mean / left.mean - 1
    low, high = (finite(v) for v in interval(draws_b / draws_a - 1)) if draws_a.size else (None, None)
    verdict, failed = _verdict(definition, left, right, change, (low, high), paired, allowed)
    tables = [
        _overall_table(definition, left, right, sides, draws_a, draws_b, change, (low, high)),
        _category_table(left, right, paired),
        _request_table(left, right, paired),
    ]
    summary = {
        "verdict": verdict,
        "metric": definition.key,
        "definition": definition.formula,
        "paired": paired,
        "a": left.mean,
        "b": right.mean,
        "change": change,
        "low": low,
        "high": high,
        "requests_a": len(left.keys),
        "requests_b": len(right.keys),
        "fail_if_drop": allowed,
        "failed": failed,
        "tables": {table.key: table.to_dict() for table in tables},
    }
    if out_dir is not None:
        _write(Path(out_dir), verdict, tables, summary, loaded)
    return CompareResult(int(failed), verdict, change, low, high, paired, definition.key, tables, summary)


def parse_share(text: str | float) -> float:
    """``"2%"`` or ``0.02`` as 0.02. UsageError outside [0, 1)."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", str(text))
    share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= share < 1:
        raise UsageError(f"--fail-if-drop {text}: expected a percentage such as 2% or a share such as 0.02")
    return share


def _verdict(
    definition: Definition,
    a: Side,
    b: Side,
    change: float,
    bounds: tuple[float | None, float | None],
    paired: bool,
    allowed: float | None,
) -> tuple[str, bool]:
    low, high = bounds
    how = (
        f"paired over {len(a.keys)} requests or turns"
        if paired
        else f"unpaired, {len(a.keys)} against {len(b.keys)} requests"
    )
    span = "" if low is None or high is None else f" [{100 * low:+.1f} %, {100 * high:+.1f} %]"
    text = f"{definition.name}: {a.mean:.3f} in A, {b.mean:.3f} in B, {100 * change:+.1f} %{span}, {how}: "
    if low is None or high is None:
        text += "no interval, too few requests"
        sure = change < 0
    else:
        sure = high < 0
        text += "a drop" if sure else "a rise" if low > 0 else "no difference that these requests can show"
    if allowed is None:
        return text + ".", False
    limit = f"{100 * allowed:g} %"
    if change >= -allowed:
        return f"{text}. PASS: no drop of more than {limit}.", False
    if not sure:
        return (
            f"{text}. PASS, undecided: more than {limit} lower, but within the noise; more requests are needed.",
            False,
        )
    return f"{text}. FAIL: dropped by more than {limit}.", True


def _overall_table(
    definition: Definition,
    a: Side,
    b: Side,
    whole: tuple[Side, Side],
    draws_a: F64,
    draws_b: F64,
    change: float,
    bounds: tuple[float | None, float | None],
) -> Table:
    rows: list[list[Cell]] = []
    for name, side, all_of, draws in (("A", a, whole[0], draws_a), ("B", b, whole[1], draws_b)):
        low, high = interval(draws) if draws.size else (float("nan"),) * 2
        rows.append(
            [
                name,
                len(side.keys),
                len(all_of.keys) - len(side.keys),
                int(side.bottom.sum()),
                side.mean,
                finite(low),
                finite(high),
            ]
        )
    rows.append(["B / A - 1", None, None, None, change, *bounds])
    columns = [
        Column("side"),
        Column("requests", "int"),
        Column("left out as unmatched", "int"),
        Column("rounds", "int"),
        Column("mean", "fine"),
        Column("low", "fine"),
        Column("high", "fine"),
    ]
    return Table(
        "overall",
        f"{definition.name} = {definition.formula}",
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
        low, high = interval(draws_b / draws_a - 1) if draws_a.size else (float("nan"),) * 2
        rows.append(
            [name, len(left.keys), left.mean, right.mean, right.mean / left.mean - 1, finite(low), finite(high)]
        )
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
    change = after / before - 1
    rows: list[list[Cell]] = []
    for r in np.argsort(-np.abs(change), kind="stable")[:_SHOWN].tolist():
        name, turn, _ = a.keys[r]
        rows.append([name, turn if turn >= 0 else None, finite(before[r]), finite(after[r]), finite(change[r])])
    return Table("requests", title, columns, rows)


def _write(out: Path, verdict: str, tables: list[Table], summary: dict[str, Any], loaded: list[Loaded]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out}: cannot be made ({error.strerror}); give another directory with -o") from None
    title = "Accept-length comparison"
    problems = ProblemLog()
    for side in loaded:
        problems.merge(side.all_problems())
    page = html.page(
        {
            "title": title,
            "lead": verdict,
            "version": version(),
            "overview": tables[0],
            "overview_plot": None,
            "sections": [html.Section("comparison", "Where it changed", [], [], [], tables[1:], None)],
            "left_out": "",
            "definitions": overview.definitions_table(),
            "problem_counts": overview.problem_counts(problems),
            "problem_rows": overview.problem_rows(problems, 500),
            "passed_over": overview.passed_over(*loaded),
        }
    )
    (out / "index.html").write_text(page, encoding="utf-8")
    (out / "compare.json").write_text(json.dumps(summary, indent=1, allow_nan=False), encoding="utf-8")
    (out / "compare.md").write_text(markdown.summary(title, verdict, tables), encoding="utf-8")
