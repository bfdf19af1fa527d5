"""Writes results as files: CSV and Parquet per table over all inputs, and the canonical rounds and requests."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from frontier_oracle.reports.canonical import NULL, NULL32, Trace
from frontier_oracle.reports.readers.canonical_arrow import HEADER_KEY
from frontier_oracle.reports.table import Cell, Table

_TYPES = {"text": pa.string(), "int": pa.int64(), "number": pa.float64(), "fine": pa.float64(), "percent": pa.float64()}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_tables(folder: Path, named: Iterable[tuple[str, Table]]) -> None:
    """One CSV and one Parquet file per kind of table, the inputs' rows below each other, the input's name first."""
    by_key: dict[str, list[tuple[str, Table]]] = {}
    for name, table in named:
        if not table.unavailable:
            by_key.setdefault(table.key, []).append((name, table))
    for key, parts in by_key.items():
        columns = parts[0][1].columns
        names = ["report input", *(column.name for column in columns)]
        rows = [[name, *row] for name, table in parts for row in table.rows]
        with (folder / f"{key}.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(names)
            writer.writerows([_cell(value) for value in row] for row in rows)
        types = [pa.string(), *(_TYPES[column.kind] for column in columns)]
        arrays = [_array([row[i] for row in rows], kind) for i, kind in enumerate(types)]
        pq.write_table(pa.table(arrays, names=names), folder / f"{key}.parquet")


def _cell(value: Cell) -> Cell:
    """Text that a spreadsheet would run as a formula is quoted (a leading apostrophe)."""
    return "'" + value if isinstance(value, str) and value.startswith(_FORMULA) else value


def _array(values: list[Cell], kind: Any) -> Any:
    if kind == pa.string():
        return pa.array([None if v is None else str(v) for v in values], kind)
    if kind == pa.int64():
        return pa.array([None if v is None else int(v) for v in values], kind)
    return pa.array([None if v is None else float(v) for v in values], kind)


def rounds_table(trace: Trace) -> Any:
    """The canonical rounds as an Arrow table, nulls real, the header in the schema's metadata."""
    unit = trace.unit_of_round()
    columns: dict[str, Any] = {}
    columns["request_id"] = pa.DictionaryArray.from_arrays(pa.array(unit), pa.array(trace.request_id, pa.string()))
    for name in ("turn", "choice"):
        values = trace.ints[name]
        if (values != NULL).any():
            columns[name] = pa.array(values.astype(np.int32)[unit], mask=(values == NULL)[unit])
    columns["round"] = pa.array((np.arange(trace.n_rounds) - trace.starts[:-1][unit]).astype(np.int32))
    for name, values32 in trace.rounds.items():
        null = values32 == NULL32
        plain = pa.array(values32, mask=null if null.any() else None)
        if name in ("truncated", "is_warmup"):
            plain = plain.cast(pa.bool_())
        columns[name] = plain
        if name == "al_raw":
            columns["accepted_drafts"] = pa.array(values32 - 1, mask=null if null.any() else None)
    if trace.categories:
        codes = trace.category[unit]
        columns["category"] = pa.DictionaryArray.from_arrays(
            pa.array(codes, mask=codes == NULL32), pa.array(trace.categories, pa.string())
        )
    header = json.dumps(trace.header.to_dict()).encode()
    return pa.table(columns).replace_schema_metadata({HEADER_KEY: header})


def requests_table(trace: Trace) -> Any:
    """The unit table as an Arrow table."""
    columns: dict[str, Any] = {"request_id": pa.array(trace.request_id, pa.string()), "kind": pa.array(trace.kind)}
    for name, values in trace.ints.items():
        if name != "file":
            null = values == NULL
            columns[name] = pa.array(values, mask=null if null.any() else None)
    for name in ("reported_mean", "reported_rate"):
        reported = getattr(trace, name)
        columns[name] = pa.array(reported, mask=np.isnan(reported))
    names = trace.categories
    columns["category"] = pa.array([None if c < 0 else names[c] for c in trace.category.tolist()], pa.string())
    if trace.finish_reason is not None:
        columns["finish_reason"] = pa.array(trace.finish_reason, pa.string())
    if trace.histograms is not None:
        columns["histogram"] = pa.array(trace.histograms, pa.list_(pa.int64()))
    return pa.table(columns)


def write_canonical(folder: Path, trace: Trace, stem: str) -> None:
    """``<stem>.rounds.parquet`` (if the order of rounds is known) and ``<stem>.requests.parquet``."""
    if trace.n_rounds:
        pq.write_table(rounds_table(trace), folder / f"{stem}.rounds.parquet", compression="zstd")
    pq.write_table(requests_table(trace), folder / f"{stem}.requests.parquet", compression="zstd")
