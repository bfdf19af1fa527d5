"""Gate and fuzz records in the report: kill matrix, coverage, throughput."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from frontier_oracle.oracle import records
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.gate_runs import kill_matrix, read_json_report, read_record
from frontier_oracle.reports.load import load
from frontier_oracle.reports.report import report

FIXTURES = Path(__file__).parent / "fixtures"


def check(system: str, name: str, rounds: int, skipped: str = "") -> dict[str, Any]:
    return {"system": system, "id": name, "kind": "random", "cases": 3, "request_rounds": rounds, "skipped": skipped,
            "notes": []}  # fmt: skip


def mutant(name: str, base: str, got: str) -> dict[str, Any]:
    return {"id": name, "base": base, "expected": "FO201", "got": got, "scenario": "k4 | a: p4 | 3", "rounds": 5}


CHECKS = [check("frontier", "random", 9000), check("frontier", "bulk", 0, "needs <b>CUDA</b>")]
MUTANTS = [
    mutant("stale-row", "frontier", "FO201"),
    mutant("stale-row", "cuda", ""),
    mutant("wrong-loc", "cuda", "FO104"),
]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    lines = [records.header("0.1.0", 7, "ci", ["frontier"]), *(records.line("check", **c) for c in CHECKS)]
    lines += [records.line("mutant", **m) for m in MUTANTS]
    lines += [records.line("deviation", id="d", system="frontier", seen=True), records.line("verdict", verdict="equal")]
    times = [{"system": "frontier", "check": "random", "seconds": 3.0}]
    lines.append(records.line("timing", environment={}, seconds=3.5, checks=times))
    path = tmp_path / "gate.record"
    records.write(path, lines)
    return path


@pytest.fixture
def json_report(tmp_path: Path) -> Path:
    systems = [{"name": "frontier", "checks": [{**c, "findings": [], "seconds": 3.0} for c in CHECKS]}]
    data = {"verdict": "equal", "sentence": "All equal.", "seed": 7, "profile": "ci", "environment": {}, "seconds": 3.5,
            "systems": systems, "mutants": {"total": 3, "kills": MUTANTS},
            "declared_deviations": [{"id": "d", "system": "frontier", "text": "t", "seen": True}]}  # fmt: skip
    path = tmp_path / "gate.json"
    path.write_text(json.dumps(data, indent=2))
    return path


def test_the_kill_matrix_shows_survivors_and_wrong_codes(record: Path) -> None:
    table = kill_matrix(read_record(record))
    assert [column.name for column in table.columns] == ["planted fault", "cuda", "frontier"]
    assert table.rows == [["stale-row", "SURVIVED", "FO201"], ["wrong-loc", "FO104, not FO201", ""]]
    assert table.note.startswith("1 of 3 killed")


def test_record_and_json_report_say_the_same(record: Path, json_report: Path) -> None:
    left, right = read_record(record), read_json_report(json_report)
    assert right is not None
    assert (left.checks, left.mutants, left.deviations, left.verdict) == (
        right.checks, right.mutants, right.deviations, right.verdict,
    )  # fmt: skip


def test_it_is_found_by_content_beside_traces_and_alone(record: Path, json_report: Path, tmp_path: Path) -> None:
    loaded = load([record, json_report, FIXTURES / "vllm_server.log"])
    assert len(loaded.gate_runs) == 2 and len(loaded.traces) == 1
    done = report([record], tmp_path / "out")
    text = done.html.read_text()
    assert "SURVIVED" in text and "3,000" in text and "needs &lt;b&gt;CUDA" in text
    assert done.summary["gate_runs"][0]["verdict"] == "equal" and "gate.record: equal." in done.message
    assert "SURVIVED" in (tmp_path / "out" / "summary.md").read_text()
    assert (tmp_path / "out" / "tables" / "coverage.parquet").exists()


def test_a_broken_record_is_one_line(record: Path) -> None:
    record.write_text(record.read_text()[:-40])
    with pytest.raises(UsageError) as caught:
        load([record])
    assert "\n" not in str(caught.value) and "gate.record" in str(caught.value)


@pytest.mark.parametrize("seconds", ["NaN", "-1", "1e999"])
def test_a_time_that_is_none_is_one_line(seconds: str, json_report: Path) -> None:
    data = json.loads(json_report.read_text())
    data["systems"][0]["checks"][0]["seconds"] = float(seconds)
    json_report.write_text(json.dumps(data))
    with pytest.raises(UsageError, match="which is no time"):
        load([json_report])
