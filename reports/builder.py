"""Collects what a row-wise reader finds and turns it into a Trace of columns."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from frontier_oracle.reports.canonical import (
    I32,
    NULL,
    NULL32,
    ROUND_COLUMNS,
    UNIT_INTS,
    EngineNumber,
    Header,
    Trace,
)
from frontier_oracle.reports.invariants import check, check_stated
from frontier_oracle.reports.problems import ProblemLog

BAD_VALUE = "unreadable value"
"""The kind of defect of a value that is there and is no finite number, or not of its type."""
_COUNT_LIMIT = 1 << 40
_ROUND_LIMIT = 1 << 30


@dataclass
class Unit:
    """One row of the unit table, as a reader fills it. None is null. ``rounds`` maps a round column to its values."""

    request_id: str
    line: int
    kind: str = "request"
    turn: int | None = None
    choice: int | None = None
    category: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    verify_steps: int | None = None
    accepted_total: int | None = None
    drafted_total: int | None = None
    committed_total: int | None = None
    requests: int | None = None
    longest_round: int | None = None
    prefill_in_rounds: bool | None = None
    is_warmup: bool | None = None
    finish_reason: str | None = None
    histogram: list[int] | None = None
    per_position: list[float] | None = None
    reported_mean: float | None = None
    reported_rate: float | None = None
    rounds: dict[str, Sequence[int | None]] | None = None


class TraceBuilder:
    """One trace under construction. ``add`` a Unit per request; ``finish`` checks the invariants and returns it."""

    def __init__(self, header: Header, problems: ProblemLog | None = None) -> None:
        self.header = header
        self.problems = problems if problems is not None else ProblemLog()
        self.engine_numbers: list[EngineNumber] = []
        self._files = [header.source_file]
        self._ids: list[str] = []
        self._seen: dict[tuple[str, int | None, int | None], int] = {}
        self._kinds: list[str] = []
        self._ints: dict[str, array[int]] = {name: array("q") for name in UNIT_INTS}
        self._reported: tuple[array[float], array[float]] = (array("d"), array("d"))
        self._category = array("i")
        self._categories: dict[str, int] = {}
        self._finish: list[str | None] = []
        self._histograms: list[list[int] | None] = []
        self._per_position: list[list[float] | None] = []
        self._starts = array("q", [0])
        self._rounds: dict[str, array[int]] = {name: array("i") for name in ROUND_COLUMNS}

    def __len__(self) -> int:
        return len(self._ids)

    def at_file(self, path: str) -> None:
        """Units and problems from here on are of this file (a trace of many single-response files)."""
        self._files.append(path)

    def problem(self, kind: str, line: int | None, message: str) -> None:
        self.problems.add(kind, self._files[-1], line, message)

    def note(self, text: str) -> None:
        if text not in self.header.notes:
            self.header.notes.append(text)

    def number(self, name: str, value: Any, definition: str | None, line: int | None) -> None:
        """A number the source states about the whole of itself."""
        found = as_float(value)
        if found is None and value is not None:
            self.problem(BAD_VALUE, line, f"{name} is {str(value)[:40]}, not a finite number; read as null")
        value = self._stated(found, line)
        if value == value:
            where = self._files[-1] if line is None else f"{self._files[-1]}:{line}"
            self.engine_numbers.append(EngineNumber(name, value, definition, where))

    def add(self, unit: Unit) -> None:
        self._ids.append(self._unique_id(unit))
        self._kinds.append(unit.kind)
        if unit.requests is None and unit.kind == "request":
            unit.requests = 1
        for name, column in self._ints.items():
            column.append(len(self._files) - 1 if name == "file" else self._checked(unit, name))
        for reported, value in zip(self._reported, (unit.reported_mean, unit.reported_rate), strict=True):
            reported.append(self._stated(value, unit.line))
        known = self._categories
        self._category.append(NULL32 if unit.category is None else known.setdefault(unit.category, len(known)))
        self._finish.append(unit.finish_reason)
        if unit.histogram is not None and not all(0 <= n <= _COUNT_LIMIT for n in unit.histogram):
            self.problem("count out of range", unit.line, f"the histogram of {unit.request_id!r}; read as null")
            unit.histogram = None
        self._histograms.append(unit.histogram)
        if unit.per_position is not None and not all(0 <= n <= _COUNT_LIMIT for n in unit.per_position):
            kind = "count out of range" if np.isfinite(unit.per_position).all() else BAD_VALUE
            self.problem(kind, unit.line, f"per-position rates of {unit.request_id!r}; read as null")
            unit.per_position = None
        self._per_position.append(unit.per_position)
        self._add_rounds(unit)

    def _stated(self, value: float | None, line: int | None) -> float:
        if value is not None and value != value:
            self.problem(BAD_VALUE, line, "a stated mean or rate is NaN; read as null")
        elif value is not None and value < 0:
            self.problem(BAD_VALUE, line, f"a stated mean or rate is {str(value)[:20]}, below zero; read as null")
            value = None
        elif value is not None and value > _COUNT_LIMIT:
            self.problem("count out of range", line, f"a stated mean or rate of {str(value)[:20]}; read as null")
            value = None
        return float("nan") if value is None else value

    def _checked(self, unit: Unit, name: str) -> int:
        value = getattr(unit, name)
        if value is None:
            return NULL
        if abs(value) > _COUNT_LIMIT:
            self.problem("count out of range", unit.line, f"{name} = {value}; read as null")
            return NULL
        return int(value)

    def _unique_id(self, unit: Unit) -> str:
        key = (unit.request_id, unit.turn, unit.choice)
        count = self._seen[key] = self._seen.get(key, 0) + 1
        if count == 1:
            return unit.request_id
        self.problem("repeated request id", unit.line, f"{unit.request_id!r} occurs again; kept as #{count}")
        return f"{unit.request_id}#{count}"

    def _add_rounds(self, unit: Unit) -> None:
        values = unit.rounds or {}
        n = max((len(column) for column in values.values()), default=0)
        nulls = np.full(n, NULL32, np.int32).tobytes()
        for name, column in self._rounds.items():
            given = values.get(name)
            column.frombytes(nulls if given is None else self._round_values(unit, name, given).tobytes())
        self._starts.append(self._starts[-1] + n)

    def _round_values(self, unit: Unit, name: str, given: Sequence[int | None]) -> I32:
        """A unit's values of one round column; None and what is out of range (recorded) are null."""
        kept = [NULL32 if value is None else value for value in given]
        if kept and not (max(kept) < _ROUND_LIMIT and min(kept) > -_ROUND_LIMIT):
            kept = [self._in_range(unit, name, value) for value in kept]
        return np.array(kept, dtype=np.int32)

    def _in_range(self, unit: Unit, name: str, value: int) -> int:
        if value == NULL32 or -_ROUND_LIMIT < value < _ROUND_LIMIT:
            return value
        self.problem("count out of range", unit.line, f"{name} = {str(value)[:20]}; read as null")
        return NULL32

    def finish(self) -> Trace:
        """The trace, its totals completed and its invariants checked."""
        if len(set(self._files[1:])) == 1:
            self.header.source_file = self._files[-1]
        rounds = {}
        for name, column in self._rounds.items():
            values = np.frombuffer(column, dtype=np.int32) if len(column) else np.empty(0, np.int32)
            if values.size and int(values.max()) != NULL32:
                rounds[name] = values
        trace = Trace(
            header=self.header,
            request_id=self._ids,
            kind=self._kinds,
            ints={name: np.array(column, dtype=np.int64) for name, column in self._ints.items()},
            reported_mean=np.array(self._reported[0], dtype=np.float64),
            reported_rate=np.array(self._reported[1], dtype=np.float64),
            category=np.array(self._category, dtype=np.int32),
            categories=list(self._categories),
            finish_reason=self._finish if any(self._finish) else None,
            histograms=self._histograms if any(h is not None for h in self._histograms) else None,
            per_position=self._per_position if any(p is not None for p in self._per_position) else None,
            starts=np.array(self._starts, dtype=np.int64),
            rounds=rounds,
            engine_numbers=self.engine_numbers,
            problems=self.problems,
            files=self._files,
        )
        complete_totals(trace)
        check(trace)
        return trace


def complete_totals(trace: Trace) -> None:
    """Fill null unit totals from the unit's own rounds or histogram: sums, not guesses. A stated total that its rounds
    contradict is kept and recorded."""
    lengths = np.diff(trace.starts)
    has = lengths > 0
    check_stated(trace, "verify_steps", has, lengths)
    _fill(trace, "verify_steps", has, lengths)
    for name, column, less_one in (
        ("accepted_total", "al_raw", True),
        ("drafted_total", "drafted", False),
        ("committed_total", "al_committed", False),
    ):
        values = trace.rounds.get(column)
        if values is None or (column == "al_raw" and trace.header.truncation == "unknown"):
            continue  # lengths of which it is not known whether they are cut give no raw total
        sums, nulls = sums_by_unit(values, trace.starts)
        totals = sums - lengths if less_one else sums
        check_stated(trace, name, has & (nulls == 0), totals)
        _fill(trace, name, has & (nulls == 0), totals)
    committed = trace.header.truncation == "committed"
    for u, histogram in enumerate(trace.histograms or ()):
        if histogram is None:
            continue
        weighted = sum(j * n for j, n in enumerate(histogram))
        steps, total = trace.ints["verify_steps"], trace.ints["committed_total" if committed else "accepted_total"]
        if steps[u] == NULL:
            steps[u] = sum(histogram)
        if total[u] == NULL:
            total[u] = weighted + sum(histogram) if committed else weighted
    completion, requests = trace.ints["completion_tokens"], trace.ints["requests"]
    in_rounds = trace.ints["prefill_in_rounds"]
    known = (completion != NULL) & (requests != NULL) & (in_rounds != NULL)
    _fill(trace, "committed_total", known, completion - np.where(in_rounds == 1, 0, requests))


def _fill(trace: Trace, name: str, where: Any, values: Any) -> None:
    column = trace.ints[name]
    mask = where & (column == NULL)
    column[mask] = values[mask]


def sums_by_unit(values: Any, starts: Any) -> tuple[Any, Any]:
    """Sum of the non-null values and number of nulls per unit: two [n] int64 arrays."""
    null = values == NULL32
    if not null.any():
        return _segment_sums(values.astype(np.int64), starts), np.zeros(len(starts) - 1, np.int64)
    return (
        _segment_sums(np.where(null, 0, values).astype(np.int64), starts),
        _segment_sums(null.astype(np.int64), starts),
    )


def _segment_sums(values: Any, starts: Any) -> Any:
    total = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
    return total[starts[1:]] - total[starts[:-1]]


def as_float(value: Any) -> float | None:
    """A finite number, or None (NaN, infinity, strings, booleans and null are not numbers here)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if np.isfinite(number) else None


def as_int(value: Any) -> int | None:
    """An integer (a float with an integral value counts), or None."""
    number = as_float(value)
    if number is None or number != int(number):
        return None
    return int(value) if isinstance(value, int) else int(number)
