"""Repro files: nothing is lost, nothing half written, and a bad file is named with its line."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frontier_oracle.oracle.errors import RecordError, ScenarioError
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.repro import Repro, fingerprint, read, scenario_from_dict, scenario_to_dict, write
from frontier_oracle.oracle.rules import Finding

TEXT = (
    "k4 steps2 page4w8,2 W2 target | a: p12 chunks 5,5,2 | a1, a1 "
    "| b: p9 hit a 8 chunks 6,3 held | +b | +b | a3 b1 /4 | end a"
)
FINDING = Finding("FO201", 3, "a", 1, 4, {"expected": 7, "because": ["draft 2 of round 1", "a later commit"]})
REPRO = Repro(parse(TEXT), "pkg.mod:make", 17, FINDING, "successor", "0.1.0")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "repro.json"
    write(target, REPRO)
    return target


def line_of(path: Path, key: str) -> int:
    return next(i for i, line in enumerate(path.read_text().splitlines(), 1) if f'"{key}":' in line)


def edit(path: Path, **changes: Any) -> None:
    data = json.loads(path.read_text())
    data.update(changes)
    path.write_text(json.dumps(data, indent=2))


def refused(path: Path) -> str:
    with pytest.raises(RecordError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(str(path)) and "\n" not in message
    return message.removeprefix(str(path))


def test_everything_comes_back(path: Path) -> None:
    back = read(path)
    assert back == REPRO
    assert back.finding is not None and back.finding.detail == FINDING.detail


def test_the_documented_keys(path: Path) -> None:
    data = json.loads(path.read_text())
    assert data["format"] == "frontier-oracle/repro" and data["version"] == 1
    assert data["scenario"] == TEXT and data["fingerprint"] == fingerprint(REPRO.scenario)
    assert len(data["fingerprint"]) == 16
    assert data["events"][0] == {
        "type": "admit", "name": "a", "prompt": 12, "chunks": [5, 5, 2], "like": None, "held": False,
    }  # fmt: skip
    assert (data["system"], data["seed"], data["policy"], data["tool_version"]) == (
        "pkg.mod:make", 17, "successor", "0.1.0",
    )  # fmt: skip


def test_the_version_of_the_tool_is_filled_in(tmp_path: Path) -> None:
    write(tmp_path / "new" / "folder" / "r.json", Repro(parse("k4"), "x:y"))
    back = read(tmp_path / "new" / "folder" / "r.json")
    assert back.finding is None and back.policy is None and back.tool_version


def test_numpy_in_a_finding_becomes_plain(tmp_path: Path) -> None:
    detail = {"got": np.int64(5), "rows": np.arange(3)}
    write(tmp_path / "r.json", Repro(parse("k4"), "x:y", finding=Finding("FO101", 0, "a", detail=detail)))
    finding = read(tmp_path / "r.json").finding
    assert finding is not None and finding.detail == {"got": 5, "rows": [0, 1, 2]}


def test_a_scenario_and_its_data_are_one() -> None:
    data = json.loads(json.dumps(scenario_to_dict(REPRO.scenario)))
    assert scenario_from_dict(data) == REPRO.scenario
    data["events"][1]["rows"][0][1] = 9
    with pytest.raises(ScenarioError, match='event 1 "a9"'):
        scenario_from_dict(data)


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_named_with_its_line(path: Path, kept: float) -> None:
    text = path.read_text()
    path.write_text(text[: int(len(text) * kept)])
    lines = int(refused(path).split(":")[1])
    assert lines == max(1, path.read_text().count("\n") + 1)


def test_a_flipped_byte_is_named_with_its_line(path: Path) -> None:
    lines = path.read_text().splitlines()
    lines[4] = lines[4].replace(":", ";")
    path.write_text("\n".join(lines))
    assert refused(path).startswith(":5: broken or truncated JSON")


def test_other_files_are_refused(path: Path, tmp_path: Path) -> None:
    assert "cannot be read" in refused(tmp_path / "missing.json")
    assert "cannot be read" in refused(tmp_path)
    path.write_bytes(b'{"format": "\xff"}')
    assert "not UTF-8" in refused(path)
    path.write_text("[1, 2]")
    assert refused(path).startswith(":1: expected a JSON object")
    path.write_text("[" * 100_000)
    assert refused(path).startswith(":1: ")
    path.write_text('{"format": "frontier-oracle/repro", "version": ' + "9" * 5000 + "}")
    assert refused(path).startswith(":1: ")


def test_versions(path: Path) -> None:
    edit(path, version=2)
    assert refused(path) == f":{line_of(path, 'version')}: version 2 is newer than 1, which this tool reads: update it"
    edit(path, version=0)
    assert "version 0 does not exist" in refused(path)
    edit(path, version="1")
    assert '"version" is malformed' in refused(path)


def test_a_wrong_fingerprint(path: Path) -> None:
    edit(path, fingerprint="0" * 16)
    assert refused(path).startswith(f":{line_of(path, 'fingerprint')}: the scenario's fingerprint is ")


def test_text_and_events_that_disagree(path: Path) -> None:
    edit(path, scenario=TEXT.replace("a3 b1", "a2 b1"))
    assert refused(path).startswith(f":{line_of(path, 'events')}: spec and events say")
    edit(path, scenario=TEXT.replace("W2", "W3"))
    assert refused(path).startswith(f":{line_of(path, 'spec')}: spec and events say")


def test_text_that_does_not_parse(path: Path) -> None:
    edit(path, scenario="k4 | a9")
    assert refused(path).startswith(f':{line_of(path, "scenario")}: event 0 "a9"')


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("scenario", 3),
        ("spec", None),
        ("spec", {**scenario_to_dict(REPRO.scenario)["spec"], "hidden": "other"}),
        ("spec", {**scenario_to_dict(REPRO.scenario)["spec"], "k": 1}),
        ("events", [{"type": "preempt"}]),
        ("events", [{"type": "finish"}]),
        ("events", [{"type": "finish", "name": 4}]),
        ("events", [{"type": "admit", "name": "a", "prompt": 1, "chunks": [], "like": ["a"], "held": False}]),
        ("events", [{"type": "admit", "name": "a", "prompt": True, "chunks": [], "like": None, "held": False}]),
        ("events", [{"type": "admit", "name": "a", "prompt": 1, "chunks": [], "like": None, "held": 0}]),
        ("seed", "17"),
        ("system", None),
        ("policy", 4),
        ("finding", {"code": "FO999"}),
        ("finding", {"code": "FO201"}),
        ("finding", []),
    ],
)
def test_malformed_values(path: Path, key: str, value: Any) -> None:
    edit(path, **{key: value})
    line = int(refused(path).split(":")[1])
    assert line == line_of(path, key if key != "spec" else "events") or line == line_of(path, key)


@pytest.mark.parametrize("key", ["version", "scenario", "spec", "events", "fingerprint", "system", "seed", "finding"])
def test_missing_keys(path: Path, key: str) -> None:
    data = json.loads(path.read_text())
    del data[key]
    path.write_text(json.dumps(data, indent=2))
    assert key in refused(path)


def test_a_write_that_fails_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def crash(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(RecordError, match="cannot be written: No space left"):
        write(path, Repro(parse("k4"), "x:y"))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]
