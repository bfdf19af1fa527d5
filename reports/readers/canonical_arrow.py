"""Canonical rounds as Parquet or CSV, read column by column, so that ten million rounds take seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from frontier_oracle.reports.builder import TraceBuilder, complete_totals
from frontier_oracle.reports.canonical import NULL, NULL32, ROUND_COLUMNS, UNIT_INTS, Header, Trace
from frontier_oracle.reports.invariants import check
from frontier_oracle.reports.problems import KEPT_PER_KIND, ProblemLog
from frontier_oracle.reports.readers.arrow_columns import Lines, check_lengths, int_column, named_rows, raw_lengths
from frontier_oracle.reports.readers.canonical_rows import LENGTH_KEYS, REQUEST_KEYS, apply_header, truncation_of
from frontier_oracle.reports.readers.source import SourceError, open_bytes

MAX_ROWS = 1 << 30
HEADER_KEY = b"frontier_oracle.header"


def read_parquet(path: Path, shown: str) -> Trace:
    """A Parquet file whose columns are the canonical round columns (request_id and a length at least)."""
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if file.metadata.num_rows > MAX_ROWS:
                raise SourceError(f"{path}: {file.metadata.num_rows} rows, more than {MAX_ROWS}; split it")
            request, length = _needed(names, path)
            wanted = [name for name in _wanted(request, length) if name in names]
        texts = [name for name in (request, "trace_id", "category") if name in names]
        table = pq.read_table(path, columns=wanted, read_dictionary=texts)
        metadata = table.schema.metadata or {}
        return from_table(table, shown, "canonical-parquet", metadata.get(HEADER_KEY))
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0][:200]})") from None


def read_csv(path: Path, shown: str) -> Trace:
    """A CSV file with a header line of canonical names, or of the names that row-per-round dumps use."""
    rejected: list[Any] = []

    def reject(row: Any) -> str:
        rejected.append(row)
        return "skip"

    try:
        with open_bytes(path) as stream:
            table = pa_csv.read_csv(
                stream,
                # one thread: the reader then knows the number of the line that it rejects
                read_options=pa_csv.ReadOptions(use_threads=False),
                parse_options=pa_csv.ParseOptions(invalid_row_handler=reject),
                convert_options=pa_csv.ConvertOptions(
                    column_types={"request_id": pa.string(), "trace_id": pa.string(), "category": pa.string()},
                    strings_can_be_null=True,
                    null_values=["", "null", "None"],
                ),
            )
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path}: not a readable CSV file ({str(error).splitlines()[0][:200]})") from None
    trace = from_table(table, shown, "canonical-csv", None, first_line=2)
    for row in rejected:
        what = f"{row.actual_columns} values where the header names {row.expected_columns}; the line is left out"
        trace.problems.add("broken line", shown, row.number, what)
    return trace


def is_csv_header(line: bytes) -> bool:
    names = [name.strip().strip('"') for name in line.decode("utf-8", "replace").split(",")]
    return any(name in REQUEST_KEYS for name in names) and any(name in LENGTH_KEYS for name in names)


def _needed(names: list[str], path: object) -> tuple[str, str]:
    request = next((name for name in REQUEST_KEYS if name in names), None)
    length = next((name for name in LENGTH_KEYS if name in names), None)
    if len(set(names)) < len(names):
        raise SourceError(f"{path}: two columns have the same name; give each its own")
    if request is None or length is None:
        raise SourceError(
            f"{path}: no canonical rounds: needs request_id and one of al_raw, accepted_drafts, "
            f"al_committed; it has {', '.join(names[:12])}"
        )
    return request, length


def _wanted(request: str, length: str) -> list[str]:
    names = (request, length, "trace_id", "turn", "choice", "round", "accepted_drafts", "category", *ROUND_COLUMNS)
    return list(dict.fromkeys(names))


def from_table(table: Any, shown: str, source_format: str, header: bytes | None, first_line: int = 1) -> Trace:
    """A Trace from an Arrow table of round rows. Units come in the order of their first row; rounds by number.
    ``first_line`` is what the first row is called where problems are located."""
    problems = ProblemLog()
    carrier = TraceBuilder(Header(source_format=source_format, source_file=shown, order_known="rounds"), problems)
    if header is not None:
        _take_header(header, carrier)
    request, length = _needed(table.column_names, shown)
    table, lines = named_rows(table, request, carrier, first_line)
    columns = {name: int_column(table, name, carrier, lines) for name in ROUND_COLUMNS}
    if columns["al_raw"] is None:
        columns["al_raw"] = raw_lengths(table, length, carrier, lines)
    else:
        check_lengths(columns["al_raw"], int_column(table, "accepted_drafts", carrier, lines), carrier, lines)
    unit, first_row = _units(table, request)
    number = _round_numbers(table, unit, carrier, lines)
    order = _order(unit, number)
    if order is not None:
        unit = unit[order]
    rounds = {}
    for name, column in columns.items():
        if column is not None and column.size and int(column.max()) != NULL32:
            rounds[name] = column if order is None else column[order]
    if number is not None:
        rows = np.arange(unit.size) if order is None else order
        _check_numbers(unit, number[rows], lines.of(rows), carrier)
    return _assemble(table, request, unit, first_row, rounds, carrier, lines)


def _take_header(header: bytes, carrier: TraceBuilder) -> None:
    try:
        record = json.loads(header)
    except (ValueError, RecursionError):
        carrier.problem("unreadable header field", None, "the header in the file's metadata is no JSON")
        return
    if isinstance(record, dict):
        apply_header(record, carrier)


def _codes(column: Any) -> Any:
    """[rows] int64 codes of a column's values (null is its own value)."""
    column = column.combine_chunks()
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], pa.string()).dictionary_encode()
    return pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64) + 1


def _units(table: Any, request: str) -> tuple[Any, Any]:
    """([rows] int64 unit of each row, [units] first row of each unit), units numbered by first appearance."""
    key = _codes(table.column(request))
    for name in ("trace_id", "turn", "choice"):
        if name in table.column_names and not pa.types.is_null(table.column(name).type):
            code = _codes(table.column(name))
            if code.size and int(code.min()) != int(code.max()):
                key = key * (int(code.max()) + 1) + code
    if not key.size:
        return key, np.empty(0, np.int64)
    change = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    blocks = key[change]
    unique, first, inverse = np.unique(blocks, return_index=True, return_inverse=True)
    rank = np.empty(unique.size, np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(unique.size)
    lengths = np.diff(np.concatenate((change, [key.size])))
    return np.repeat(rank[inverse], lengths), change[np.sort(first)]


def _round_numbers(table: Any, unit: Any, carrier: TraceBuilder, lines: Lines) -> Any:
    """[rows] int32, or None without such a column. A number that cannot be read (counted) is its row's place among the
    rows of its request, as in JSONL."""
    number = int_column(table, "round", carrier, lines)
    if number is None or not (number == NULL32).any():
        return number
    order = np.argsort(unit, kind="stable")
    place = np.empty(unit.size, np.int32)
    place[order] = np.arange(unit.size) - np.searchsorted(unit[order], unit[order])
    return np.where(number == NULL32, place, number)


def _order(unit: Any, number: Any) -> Any:
    """The permutation that sorts rows by (unit, round), or None if they already are."""
    step = np.diff(unit)
    within = step == 0
    sorted_already = not (step < 0).any() and (number is None or not (np.diff(number)[within] < 0).any())
    if sorted_already:
        return None
    return np.argsort(unit, kind="stable") if number is None else np.lexsort((number, unit))


def _check_numbers(unit: Any, number: Any, lines: Any, carrier: TraceBuilder) -> None:
    same = unit[1:] == unit[:-1]
    step = np.diff(number)
    for kind, bad in (("repeated round", same & (step == 0)), ("missing round", same & (step > 1))):
        rows = np.flatnonzero(bad)
        carrier.problems.add_rows(
            kind,
            carrier.header.source_file,
            lines[rows[:KEPT_PER_KIND] + 1].tolist(),
            rows.size,
            "round numbers of a request do not count up by one",
        )


def _assemble(
    table: Any, request: str, unit: Any, first_row: Any, rounds: dict[str, Any], carrier: TraceBuilder, lines: Lines
) -> Trace:
    n = first_row.size
    ints = {name: np.full(n, NULL, np.int64) for name in UNIT_INTS}
    ints["requests"][:] = 1
    ints["line"], ints["file"][:] = lines.of(first_row), 0
    for name in ("turn", "choice"):
        values = int_column(table, name, carrier, lines)
        if values is not None:
            taken = values[first_row].astype(np.int64)
            ints[name] = np.where(taken == NULL32, NULL, taken)
    names = [str(name) for name in table.column(request).take(pa.array(first_row)).to_pylist()]
    if "trace_id" in table.column_names:
        traces = table.column("trace_id").take(pa.array(first_row)).to_pylist()
        if len(set(traces)) > 1:
            names = [f"{trace} / {name}" for trace, name in zip(traces, names, strict=True)]
    category, categories = _category(table, first_row)
    trace = Trace(
        header=carrier.header,
        request_id=names,
        kind=["request"] * n,
        ints=ints,
        reported_mean=np.full(n, np.nan),
        reported_rate=np.full(n, np.nan),
        category=category,
        categories=categories,
        finish_reason=None,
        histograms=None,
        per_position=None,
        starts=np.searchsorted(unit, np.arange(n + 1)).astype(np.int64),
        rounds=rounds,
        engine_numbers=[],
        problems=carrier.problems,
        files=[carrier.header.source_file],
    )
    if carrier.header.truncation == "unknown":
        given = {name for name in (*rounds, "accepted_drafts") if name in table.column_names}
        trace.header.truncation = truncation_of(given)
    complete_totals(trace)
    check(trace)
    return trace


def _category(table: Any, first_row: Any) -> tuple[Any, list[str]]:
    n = first_row.size
    if "category" not in table.column_names or not n:
        return np.full(n, NULL32, np.int32), []
    values = table.column("category").take(pa.array(first_row)).to_pylist()
    names: dict[str, int] = {}
    codes = [NULL32 if value is None else names.setdefault(str(value), len(names)) for value in values]
    return np.array(codes, np.int32), list(names)
