"""Columns of an Arrow table of rounds as int32: what is there and cannot be read is counted with its row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frontier_oracle.reports.builder import BAD_VALUE, TraceBuilder
from frontier_oracle.reports.canonical import I64, NULL32
from frontier_oracle.reports.problems import KEPT_PER_KIND
from frontier_oracle.reports.readers.canonical_rows import ROUND_KEYS, TWO_LENGTHS

FLAGS = ("is_warmup", "truncated")
"""The columns in which true and false are 1 and 0; elsewhere a boolean is no number."""
NO_NUMBER = "is no whole number within range"


@dataclass(frozen=True)
class Lines:
    """Where the rows of a table stand in their file. ``first`` is what its first row is called; ``kept`` [rows] int64
    numbers the rows that are left of it, if some were left out."""

    first: int
    kept: I64 | None = None

    def of(self, rows: Any) -> Any:
        """The places of ``rows`` (indices), alike in shape."""
        return (rows if self.kept is None else self.kept[rows]) + self.first


def named_rows(table: Any, request: str, carrier: TraceBuilder, first_line: int) -> tuple[Any, Lines]:
    """The rows that name their request and, where the table has a column for it, their round; others are counted and
    left out, as rows of JSONL that name neither are."""
    needed = [request, *(name for name in ROUND_KEYS[:1] if name in table.column_names)]
    there = np.ones(table.num_rows, bool)
    for name in needed:
        column = table.column(name)
        if column.null_count:
            null = ~pc.is_valid(column).to_numpy()
            bad = np.flatnonzero(null & there)
            places, what = (bad[:KEPT_PER_KIND] + first_line).tolist(), f"{name} is null; the row is left out"
            carrier.problems.add_rows("unrecognised record", carrier.header.source_file, places, bad.size, what)
            there &= ~null
    if there.all():
        return table, Lines(first_line)
    return table.filter(pa.array(there)), Lines(first_line, np.flatnonzero(there))


def int_column(table: Any, name: str, carrier: TraceBuilder, lines: Lines) -> Any:
    """A column as int32 with NULL32, or None if absent. What is there and is no whole number within range (NaN,
    fractions, text) is counted with its row and read as null."""
    if name not in table.column_names:
        return None
    column = table.column(name)
    kind = column.type
    if pa.types.is_null(kind):
        return None
    there = pc.is_valid(column).to_numpy() if column.null_count else True
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = pa.chunked_array([_parsed(column)])
        kind = column.type
    if pa.types.is_floating(kind):
        values = column.to_numpy().astype(np.float64, copy=False)  # float16 holds no bound of the range
        whole = np.isfinite(values) & (np.abs(np.nan_to_num(values)) < 1 << 30) & (values == np.floor(values))
        _complain(carrier, name, np.flatnonzero(~whole & there), lines)
        return np.where(whole, values, NULL32).astype(np.int32)
    if pa.types.is_boolean(kind):
        if name not in FLAGS:
            bad = np.flatnonzero(np.broadcast_to(there, len(column)))
            _complain(carrier, name, bad, lines, "is true or false, not a whole number")
            return np.full(len(column), NULL32, np.int32)
        column = pc.cast(column, pa.int8())
    elif not pa.types.is_integer(kind):
        carrier.problem("unreadable column", None, f"{name} is {kind}, not integers; read as null")
        return np.full(len(column), NULL32, np.int32)
    if pa.types.is_uint32(kind) or kind.bit_width == 64:
        inside = pc.less(column, pa.scalar(1 << 30, kind))
        if not pa.types.is_unsigned_integer(kind):
            inside = pc.and_(pc.greater(column, pa.scalar(-(1 << 30), kind)), inside)
        if table.num_rows - column.null_count - (pc.sum(inside).as_py() or 0):
            _complain(carrier, name, np.flatnonzero(~pc.fill_null(inside, True).to_numpy()), lines)
            column = pc.if_else(inside, column, pa.scalar(None, kind))
    column = pc.cast(column, pa.int32())
    return (pc.fill_null(column, NULL32) if column.null_count else column).to_numpy()


def _parsed(column: Any) -> Any:
    """A column of text as doubles; what is no number becomes NaN (one such cell makes a CSV column text)."""
    try:
        return pc.cast(column, pa.float64()).combine_chunks()
    except pa.ArrowInvalid:
        return pa.array([_number(text) for text in column.to_pylist()], pa.float64())


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return float("nan")


def _complain(carrier: TraceBuilder, name: str, bad: Any, lines: Lines, what: str = NO_NUMBER) -> None:
    """Count the rows ``bad`` of a column."""
    message = f"{name} {what}; read as null"
    places = lines.of(bad[:KEPT_PER_KIND]).tolist()
    carrier.problems.add_rows(BAD_VALUE, carrier.header.source_file, places, bad.size, message)


def raw_lengths(table: Any, length: str, carrier: TraceBuilder, lines: Lines) -> Any:
    accepted = int_column(table, "accepted_drafts", carrier, lines)
    if accepted is not None:
        return np.where(accepted == NULL32, NULL32, accepted + (accepted != NULL32))
    return None if length == "al_committed" else int_column(table, length, carrier, lines)


def check_lengths(raw: Any, accepted: Any, carrier: TraceBuilder, lines: Lines) -> None:
    """Count the rows that state al_raw and accepted_drafts ([rows] int32, or None) and not alike."""
    if accepted is None:
        return
    bad = np.flatnonzero((raw != NULL32) & (accepted != NULL32) & (raw != accepted + 1))
    places, message = lines.of(bad[:KEPT_PER_KIND]).tolist(), "the round's two lengths differ; al_raw is taken"
    carrier.problems.add_rows(TWO_LENGTHS, carrier.header.source_file, places, bad.size, message)
