"""Run records: round trip, the comparable part, and one line that names file and line for every broken file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frontier_oracle.oracle import records
from frontier_oracle.oracle.errors import RecordError


def sample(seconds: float = 1.5) -> list[records.Json]:
    return [
        records.header("0.1.0", 3, "ci", ["frontier"]),
        records.line(
            "check", system="frontier", id="known", kind="known", cases=2, request_rounds=9, skipped="", notes=["n"]
        ),
        records.line(
            "mutant", id="m", base="frontier", expected="FO101", got="FO101", scenario="k4", rounds=np.int64(4)
        ),
        records.line("verdict", verdict="equal"),
        records.line("timing", environment={"cores": "2"}, seconds=seconds, checks=[]),
    ]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.jsonl"
    records.write(path, sample())
    assert records.read(path) == sample()
    assert [p.name for p in path.parent.iterdir()] == ["run.jsonl"], "no temporary file stays"


def test_the_comparable_part_has_no_time_in_it() -> None:
    assert records.comparable(sample(1.0)) == records.comparable(sample(2.0))
    assert records.encode(sample(1.0)) != records.encode(sample(2.0))


def test_a_line_with_a_missing_or_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match="field 'verdict' is missing"):
        records.line("verdict")
    with pytest.raises(ValueError, match="unknown field 'color'"):
        records.line("verdict", verdict="equal", color="red")
    with pytest.raises(ValueError, match="expected bool"):
        records.line("deviation", id="x", system="y", seen=1)


def broken(edit: Any) -> str:
    return str(edit(records.encode(sample())))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: t[:-5], "run.jsonl:5: truncated: the line does not end"),
        (lambda t: "".join(t.splitlines(True)[:2]), "run.jsonl:2: truncated: expected the verdict line"),
        (lambda t: t.replace('{"cases"', '{cases"'), "run.jsonl:2: broken JSON"),
        (lambda t: "", "run.jsonl:1: expected a header line first"),
        (lambda t: "[]\n" + t, "run.jsonl:1: expected a JSON object, got a list"),
        (lambda t: t.replace("frontier-oracle/record", "other"), "run.jsonl:1: not a record"),
        (lambda t: t.replace('"schema":1', '"schema":2'), "run.jsonl:1: schema 2 is newer than 1"),
        (lambda t: t.replace('"schema":1', '"schema":0'), "run.jsonl:1: schema 0 does not exist"),
        (lambda t: t.replace('"type":"mutant"', '"type":"alien"'), "run.jsonl:3: unknown line type 'alien'"),
        (lambda t: t.replace('"cases":2,', ""), "run.jsonl:2: field 'cases' is missing in a check line"),
        (lambda t: t.replace('"cases":2', '"cases":"2"'), "'cases' of a check line is '2', expected int"),
        (lambda t: t + t.splitlines(True)[3], "run.jsonl:6: a second verdict line"),
    ],
)  # fmt: skip
def test_a_broken_record_is_one_line_with_file_and_line(edit: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(broken(edit))
    with pytest.raises(RecordError) as caught:
        records.read(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there_or_not_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be read"):
        records.read(tmp_path / "none.jsonl")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(RecordError, match="byte 0 is not UTF-8"):
        records.read(tmp_path / "bytes")
    with pytest.raises(RecordError, match="cannot be written"):
        records.write(tmp_path / "bytes" / "run.jsonl", sample())


def test_a_write_that_fails_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.jsonl"
    records.write(path, sample())

    def crash(_: int) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(RecordError, match="no space"):
        records.write(path, sample(9.0))
    monkeypatch.undo()
    assert records.read(path) == sample()
