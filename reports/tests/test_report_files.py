"""Canonical rows and columns, compression, directories, forced formats: one test per quirk."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from report_reading import lines, one, read

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.analysis.means import estimate
from frontier_oracle.reports.canonical import NULL32
from frontier_oracle.reports.load import load
from frontier_oracle.reports.readers import JSON_READERS, TEXT_READERS, format_names

FIXTURES = Path(__file__).parent / "fixtures"


def test_canonical_rows_out_of_order_interleaved_repeated_and_missing(tmp_path: Path) -> None:
    rows = [("a", 1, 2), ("b", 0, 3), ("a", 0, 4), ("b", 0, 1), ("b", 3, 1)]
    trace = one(read(tmp_path, lines(*({"request_id": r, "round": n, "al_raw": a} for r, n, a in rows))))
    assert trace.request_id == ["a", "b"] and trace.rounds["al_raw"].tolist() == [4, 2, 3, 1, 1]
    assert trace.problems.counts == {"repeated round": 1, "missing round": 1}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_canonical_columns_equal_canonical_rows(tmp_path: Path, suffix: str) -> None:
    rows = [json.loads(line) for line in (FIXTURES / "EXPECTED_canonical_rounds.jsonl").read_text().splitlines()]
    path = tmp_path / f"rounds.{suffix}"
    table = pa.Table.from_pylist(rows)
    if suffix == "csv":
        pa.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    expected, trace = one(load([FIXTURES / "EXPECTED_canonical_rounds.jsonl"])), one(load([path]))
    assert trace.request_id == expected.request_id and trace.starts.tolist() == expected.starts.tolist()
    assert trace.header.truncation == "both"
    for name, values in expected.rounds.items():
        assert trace.rounds[name].tolist() == values.tolist()


def test_parquet_rows_in_any_order_and_with_nulls(tmp_path: Path) -> None:
    table = pa.table({"request_id": [7, 5, 7, 5], "round": [1, 0, 0, 1], "al_raw": pa.array([2, None, 4, 3])})
    pq.write_table(table, tmp_path / "r.parquet")
    trace = one(load([tmp_path / "r.parquet"]))
    assert trace.request_id == ["7", "5"] and trace.rounds["al_raw"].tolist() == [4, 2, NULL32, 3]


def test_parquet_fractions_and_huge_numbers_are_null_and_counted(tmp_path: Path) -> None:
    table = pa.table(
        {"request_id": ["a"] * 4, "al_raw": [1.0, 2.5, float("nan"), 1e300], "drafted": [1, 2, 3, 1 << 40]}
    )
    pq.write_table(table, tmp_path / "r.parquet")
    trace = one(load([tmp_path / "r.parquet"]))
    assert trace.rounds["al_raw"].tolist() == [1, NULL32, NULL32, NULL32]
    assert trace.rounds["drafted"].tolist() == [1, 2, 3, NULL32]
    assert trace.problems.counts == {"unreadable value": 4}
    assert [p.where.rsplit(":")[-1] + " " + p.message.split()[0] for p in trace.problems.rows()] == [
        "4 drafted", "2 al_raw", "3 al_raw", "4 al_raw",
    ]  # fmt: skip


def test_csv_cells_that_are_no_numbers_are_null_counted_and_located(tmp_path: Path) -> None:
    """An empty cell is null without a word; NaN, text and fractions are not, and cost no other row."""
    text = "request_id,round,al_raw,drafted\na,0,4,3\na,1,x,nan\na,2,,3\na,3,2.5,3\na,4,1,3\n"
    trace = one(read(tmp_path, text))
    assert trace.rounds["al_raw"].tolist() == [4, NULL32, NULL32, NULL32, 1]
    assert trace.rounds["drafted"].tolist() == [3, NULL32, 3, 3, 3]
    assert trace.problems.counts == {"unreadable value": 3}
    places = [(int(p.where.rsplit(":")[-1]), p.message.split()[0]) for p in trace.problems.rows()]
    assert sorted(places) == [(3, "al_raw"), (3, "drafted"), (5, "al_raw")]


def test_rows_are_located_in_the_file_even_where_they_are_sorted(tmp_path: Path) -> None:
    text = "request_id,round,al_raw\nb,2,1\na,0,1\nb,0,1\n"
    (problem,) = one(read(tmp_path, text)).problems.rows()
    assert (problem.kind, problem.where.rsplit(":")[-1]) == ("missing round", "2")


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_compressed_files_stream(tmp_path: Path, suffix: str) -> None:
    data = (FIXTURES / "vllm_chat_response_detailed.jsonl").read_bytes()
    path = tmp_path / f"x.jsonl.{suffix}"
    if suffix == "gz":
        path.write_bytes(gzip.compress(data))
    else:
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(data)
    assert estimate(one(load([path])), "al_raw").value == pytest.approx(20 / 7)


def test_single_response_files_of_a_directory_are_one_input(tmp_path: Path) -> None:
    for n, line in enumerate((FIXTURES / "vllm_chat_response_detailed.jsonl").read_text().splitlines()):
        (tmp_path / f"{n}.json").write_text(json.dumps(json.loads(line), indent=1))
    trace = one(load([tmp_path]))
    assert trace.n_units == 2 and trace.place(1)[0].endswith("1.json")
    assert estimate(trace, "al_raw").value == pytest.approx(20 / 7)


def test_a_json_array_of_responses_is_one_input(tmp_path: Path) -> None:
    records = [json.loads(line) for line in (FIXTURES / "sglang_generate_response.jsonl").read_text().splitlines()]
    assert one(read(tmp_path, json.dumps(records, indent=1))).n_units == 2


def test_globs_and_forced_formats(tmp_path: Path) -> None:
    assert len(load([str(FIXTURES / "vllm_*")]).traces) == 5
    forced = load([FIXTURES / "llamacpp_server.log"], input_format="llamacpp-log-old")
    assert [trace.header.source_format for trace in forced.traces] == ["llamacpp-log-old"]
    with pytest.raises(UsageError, match="reads as sglang-log"):
        load([FIXTURES / "vllm_server.log"], input_format="sglang-log")
    with pytest.raises(UsageError, match="--input-format nonsense: unknown"):
        load([FIXTURES], input_format="nonsense")


def test_an_unknown_named_file_is_an_error_and_in_a_directory_is_listed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing to see\n")
    with pytest.raises(UsageError, match=r"of no known format; docs/cli\.md lists the formats, --input-format NAME"):
        load([tmp_path / "notes.txt"])
    (tmp_path / "ok.jsonl").write_text((FIXTURES / "aiperf_record.json").read_text())
    loaded = load([tmp_path])
    assert [Path(name).name for name in loaded.unrecognised] == ["notes.txt"] and len(loaded.traces) == 1


def test_records_of_no_known_shape_are_counted(tmp_path: Path) -> None:
    text = (FIXTURES / "sglang_generate_response.jsonl").read_text() + '{"error": "timeout"}\n[1]\nnot json\n'
    trace = one(read(tmp_path, text))
    assert trace.problems.counts == {"unrecognised record": 1, "broken line": 2}


def test_names_of_formats_are_unique_and_every_reader_is_registered() -> None:
    names = format_names()
    assert len(set(names)) == len(names) == len(JSON_READERS) + len(TEXT_READERS) + 2


def test_csv_lines_of_another_number_of_values_are_left_out_counted_and_located(tmp_path: Path) -> None:
    trace = one(read(tmp_path, "request_id,round,al_raw\na,0,2,3\na,0,1\na,1,2\na,2"))
    assert trace.rounds["al_raw"].tolist() == [1, 2]
    assert trace.problems.counts == {"broken line": 2}
    assert [problem.where.rsplit(":")[-1] for problem in trace.problems.rows()] == ["2", "5"]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_round_whose_two_lengths_differ_is_counted(suffix: str, tmp_path: Path) -> None:
    rows = [{"request_id": "a", "round": n, "al_raw": 2, "accepted_drafts": 1 + n} for n in range(2)]
    path = tmp_path / f"r.{suffix}"
    if suffix == "jsonl":
        path.write_text(lines(*rows))
    elif suffix == "csv":
        path.write_text("request_id,round,al_raw,accepted_drafts\na,0,2,1\na,1,2,2\n")
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    trace = one(load([path]))
    (problem,) = trace.problems.rows()
    assert problem.kind == "al_raw != accepted_drafts + 1"
    assert problem.where.rsplit(":")[-1] == ("3" if suffix == "csv" else "2")
    assert trace.rounds["al_raw"].tolist() == [2, 2]


@pytest.mark.parametrize("kind", [pa.uint32(), pa.uint64()])
def test_parquet_of_unsigned_numbers_out_of_range(kind: Any, tmp_path: Path) -> None:
    lengths = pa.array([2**32 - 1, 2], kind)
    pq.write_table(pa.table({"request_id": ["a", "a"], "al_raw": lengths}), tmp_path / "r.parquet")
    trace = one(load([tmp_path / "r.parquet"]))
    assert trace.rounds["al_raw"].tolist() == [NULL32, 2] and trace.problems.counts == {"unreadable value": 1}


def test_the_documentation_lists_every_format_and_no_other() -> None:
    """The error about a file of no known format, and --help, send the reader there."""
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    table = text.split("| format | what it is |\n| --- | --- |\n")[1].split("\n\n")[0]
    named = [row.split("|")[1].strip().strip("`") for row in table.splitlines()]
    assert sorted(named) == sorted(format_names())
