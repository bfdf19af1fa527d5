"""Canonical columns hold what canonical rows hold: nulls, booleans and small floats are treated alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from report_reading import one

from frontier_oracle.reports.canonical import NULL32, Trace
from frontier_oracle.reports.load import load


def told(trace: Trace) -> list[Any]:
    """What is said of the rounds, and the kind and line of each defect."""
    places = [(p.kind, int(p.where.rsplit(":")[-1])) for p in trace.problems.rows()]
    rounds = {name: values.tolist() for name, values in trace.rounds.items()}
    return [trace.request_id, trace.starts.tolist(), rounds, sorted(places), trace.problems.total()]


def as_parquet(path: Path, columns: dict[str, Any]) -> Trace:
    pq.write_table(pa.table(columns), path / "r.parquet")
    return one(load([path / "r.parquet"]))


def as_rows(path: Path, columns: dict[str, Any]) -> Trace:
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    (path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return one(load([path / "r.jsonl"]))


@pytest.mark.parametrize("where", ["request_id", "round"])
def test_rows_without_request_or_round_are_left_out_counted_and_located(where: str, tmp_path: Path) -> None:
    columns: dict[str, Any] = {
        "request_id": ["a", "a", "b", "b", "b"],
        "round": [0, 1, 2, 0, 1],
        "al_raw": [1, 2, 3, 4, 5],
    }
    columns[where] = [*columns[where][:2], None, *columns[where][3:]]
    trace = as_parquet(tmp_path, columns)
    assert told(trace) == told(as_rows(tmp_path, columns))
    assert trace.request_id == ["a", "b"] and trace.rounds["al_raw"].tolist() == [1, 2, 4, 5]
    assert told(trace)[3] == [("unrecognised record", 3)] and trace.place(1)[1] == 4
    text = [
        ",".join("" if value is None else str(value) for value in row) for row in zip(*columns.values(), strict=True)
    ]
    (tmp_path / "r.csv").write_text("\n".join([",".join(columns), *text]) + "\n")
    in_csv = one(load([tmp_path / "r.csv"]))
    assert in_csv.request_id == ["a", "b"] and told(in_csv)[3] == [("unrecognised record", 4)]


def test_defects_after_a_row_left_out_keep_their_place(tmp_path: Path) -> None:
    columns = {"request_id": [None, "a", "a", "a"], "round": [0, 0, 2, 3], "al_raw": [1, 1, 2, 2.5]}
    trace = as_parquet(tmp_path, columns)
    assert told(trace)[3] == [("missing round", 3), ("unreadable value", 4), ("unrecognised record", 1)]
    assert told(trace) == told(as_rows(tmp_path, columns))


def test_a_file_of_rows_without_requests_is_empty_and_counted(tmp_path: Path) -> None:
    for kind in (pa.string(), pa.int64(), pa.null()):
        trace = as_parquet(tmp_path, {"request_id": pa.array([None, None], kind), "al_raw": [1, 2]})
        assert trace.n_units == 0 and trace.problems.counts == {"unrecognised record": 2}


def test_a_round_number_that_cannot_be_read_is_the_rows_place(tmp_path: Path) -> None:
    columns = {"request_id": ["b", "a", "b", "a"], "round": [0.0, 0.0, 1.5, 1.0], "al_raw": [1, 2, 3, 4]}
    trace = as_parquet(tmp_path, columns)
    assert told(trace) == told(as_rows(tmp_path, columns)) and told(trace)[3] == [("unreadable value", 3)]


@pytest.mark.parametrize("name", ["al_raw", "accepted_drafts", "al_committed", "drafted"])
def test_booleans_are_no_lengths(name: str, tmp_path: Path) -> None:
    columns = {"request_id": ["a"] * 3, "round": [0, 1, 2], "al_raw": [2, 1, 3], "drafted": [3, 3, 3]}
    columns[name] = [True, False, None] if name == "drafted" else [True, False, True]
    if name in ("accepted_drafts", "al_committed"):
        del columns["al_raw"]
    trace = as_parquet(tmp_path, columns)
    assert name not in trace.rounds or (trace.rounds[name] == NULL32).all()
    assert trace.problems.counts == {"unreadable value": 2 if name == "drafted" else 3}
    assert told(trace)[3] == told(as_rows(tmp_path, columns))[3]


def test_flags_are_booleans(tmp_path: Path) -> None:
    trace = as_parquet(tmp_path, {"request_id": ["a", "a"], "al_raw": [1, 2], "is_warmup": [True, False]})
    assert trace.rounds["is_warmup"].tolist() == [1, 0] and not trace.problems.counts


def test_small_floats_are_read_without_a_warning(tmp_path: Path) -> None:
    """Warnings are errors here. float16 ends at 65504, below the bounds that a value is held against."""
    for kind in (np.float16, np.float32):
        lengths = pa.array(np.array([1, 2.5, np.nan, np.inf, 2048], kind))
        trace = as_parquet(
            tmp_path, {"request_id": ["a"] * 5, "al_raw": lengths, "drafted": pa.array([None] * 5, pa.float16())}
        )
        assert trace.rounds["al_raw"].tolist() == [1, NULL32, NULL32, NULL32, 2048]
        assert trace.problems.counts == {"unreadable value": 3}


def test_a_column_of_another_type_is_counted_once(tmp_path: Path) -> None:
    trace = as_parquet(tmp_path, {"request_id": ["a"], "al_raw": pa.array([[1]])})
    assert trace.problems.counts == {"unreadable column": 1} and not trace.rounds
