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
from frontier_oracle.reports.analysis.bootstrap import DRAWS, MIN_CLUSTERS, SEED, interval
from frontier_oracle.reports.canonical import F64, I64, Trace
from frontier_oracle.reports.definitions import DEFINITIONS, Definition
from frontier_oracle.reports.load import load
from frontier_oracle.reports.render import markdown
from frontier_oracle.reports.table import Cell, Column, Table, finite

METRICS = ("al_raw", "al_committed", "al_reported", "completion_over_verify", "predicted_over_nondraft")
"""Tried in this order: the first that both sides tell is compared. Different definitions are never set against each
other."""
_PAIRED_SHARE = 0.8
_SHOWN = 50

Key = tuple[str, int, int]


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


@dataclass
class _Side:
    keys: list[Key]
    top: F64
    bottom: F64
    category: list[str | None]

    @property
    def mean(self) -> float:
        return float(self.top.sum() / self.bottom.sum())

    def take(self, rows: list[int]) -> _Side:
        return _Side([self.keys[r] for r in rows], self.top[rows], self.bottom[rows], [self.category[r] for r in rows])

    def clusters(self) -> I64:
        seen: dict[str, int] = {}
        return np.array([seen.setdefault(name, len(seen)) for name, _, _ in self.keys], np.int64)


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
    compare.json and compare.md into out_dir if given. UsageError if the sides have no definition in common.
    """
    allowed = None if fail_if_drop is None else parse_share(fail_if_drop)
    traces = [load(side, input_format=input_format).traces for side in (a, b)]
    definition, sides = _common(traces, metric)
    left, right, paired = _pair(*sides)
    draws_a, draws_b = _draws(left, right, paired)
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
        _write(Path(out_dir), verdict, tables, summary)
    return CompareResult(int(failed), verdict, change, low, high, paired, definition.key, tables, summary)


def parse_share(text: str | float) -> float:
    """``"2%"`` or ``0.02`` as 0.02. UsageError outside [0, 1)."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", str(text))
    share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= share < 1:
        raise UsageError(f"--fail-if-drop {text}: expected a percentage such as 2% or a share such as 0.02")
    return share


def _common(traces: list[list[Trace]], metric: str | None) -> tuple[Definition, tuple[_Side, _Side]]:
    if metric is not None and metric not in DEFINITIONS:
        raise UsageError(f"--metric {metric}: unknown; one of {', '.join(DEFINITIONS)}")
    told: list[list[str]] = [[], []]
    for key in (metric,) if metric is not None else METRICS:
        sides = [_side(DEFINITIONS[key], side) for side in traces]
        if sides[0] is not None and sides[1] is not None:
            return DEFINITIONS[key], (sides[0], sides[1])
        for n, side in enumerate(sides):
            if side is not None:
                told[n].append(key)
    raise UsageError(
        f"no mean that both sides tell under one definition: A tells {', '.join(told[0]) or 'none'}, "
        f"B tells {', '.join(told[1]) or 'none'}; compare the same kind of output"
    )


def _side(definition: Definition, traces: list[Trace]) -> _Side | None:
    keys: list[Key] = []
    tops, bottoms = [], []
    categories: list[str | None] = []
    for trace in traces:
        top, bottom = definition.terms(trace)
        rows = np.flatnonzero(np.isfinite(top) & np.isfinite(bottom))
        turn, choice = trace.ints["turn"], trace.ints["choice"]
        for u in rows.tolist():
            keys.append((trace.request_id[u], int(turn[u]), int(choice[u])))
            code = int(trace.category[u])
            categories.append(trace.categories[code] if code >= 0 else None)
        tops.append(top[rows])
        bottoms.append(bottom[rows])
    if not keys:
        return None
    return _Side(keys, np.concatenate(tops), np.concatenate(bottoms), categories)


def _pair(a: _Side, b: _Side) -> tuple[_Side, _Side, bool]:
    """Both sides cut down to the requests they share, in the same order, if that is most of each; else as they are."""
    index = {key: row for row, key in enumerate(b.keys)}
    unique = len(index) == len(b.keys) and len(set(a.keys)) == len(a.keys)
    rows = [row for row, key in enumerate(a.keys) if key in index]
    if not unique or len(rows) < _PAIRED_SHARE * max(len(a.keys), len(b.keys)):
        return a, b, False
    return a.take(rows), b.take([index[a.keys[row]] for row in rows]), True


def _weights(rng: np.random.Generator, clusters: int) -> F64:
    return rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=DRAWS).astype(np.float64)


def _grouped(side: _Side, group: I64, groups: int) -> tuple[F64, F64]:
    top, bottom = (np.bincount(group, values, groups) for values in (side.top, side.bottom))
    return top.astype(np.float64), bottom.astype(np.float64)


_MAX_GROUPS = 2000


def _draws(a: _Side, b: _Side, paired: bool) -> tuple[F64, F64]:
    """Drawn means of A and of B, [DRAWS] each: with the same weights if paired. Empty with too few requests."""
    rng = np.random.default_rng(SEED)
    drawn: list[F64] = []
    weights: F64 | None = None
    for side in (a, b):
        group = side.clusters()
        count = int(group.max()) + 1
        if count > _MAX_GROUPS:
            dealt = np.random.default_rng(SEED).permutation(np.arange(count) % _MAX_GROUPS)
            group, count = dealt[group], _MAX_GROUPS
        if count < MIN_CLUSTERS:
            return np.empty(0), np.empty(0)
        if weights is None or not paired:
            weights = _weights(rng, count)
        top, bottom = _grouped(side, group, count)
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn.append((weights @ top) / (weights @ bottom))
    return drawn[0], drawn[1]


def _verdict(
    definition: Definition,
    a: _Side,
    b: _Side,
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
    a: _Side,
    b: _Side,
    whole: tuple[_Side, _Side],
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


def _category_table(a: _Side, b: _Side, paired: bool) -> Table:
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
        draws_a, draws_b = _draws(left, right, same)
        low, high = interval(draws_b / draws_a - 1) if draws_a.size else (float("nan"),) * 2
        rows.append(
            [name, len(left.keys), left.mean, right.mean, right.mean / left.mean - 1, finite(low), finite(high)]
        )
    table = Table("category", "By category", columns, rows)
    if not rows:
        table.unavailable = "the sides have no category in common"
    return table


def _request_table(a: _Side, b: _Side, paired: bool) -> Table:
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


def _write(out: Path, verdict: str, tables: list[Table], summary: dict[str, Any]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out}: cannot be made ({error.strerror}); give another directory with -o") from None
    (out / "compare.json").write_text(json.dumps(summary, indent=1, allow_nan=False), encoding="utf-8")
    text = markdown.summary("Accept-length comparison", verdict, tables)
    (out / "compare.md").write_text(text, encoding="utf-8")
