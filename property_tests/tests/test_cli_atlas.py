"""``atlas`` on the command line: what it prints, and one line for what it cannot run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from frontier_oracle.oracle.designs import DESIGNS
from frontier_oracle.property_tests.cli.app import run

Capture = pytest.CaptureFixture[str]


def printed(capsys: Capture, *arguments: str) -> str:
    """Runs ``atlas``; asserts that it succeeds and keeps stderr clean; returns stdout."""
    assert run(["atlas", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_json_holds_the_counts(capsys: Capture) -> None:
    data = json.loads(printed(capsys, "--accepts", "4,4,4,4", "--format", "json"))
    designs = {design["name"]: design for design in data["designs"]}
    assert (data["k"], data["steps"], data["prompt"], data["accepts"]) == (4, 3, 12, [4, 4, 4, 4])
    assert list(designs) == list(DESIGNS) and designs["tensorrt_llm_vanilla"]["unwritten"] == 12


def test_the_table_fits_eighty_columns_and_names_every_design(capsys: Capture) -> None:
    lines = printed(capsys).splitlines()
    assert lines[0].startswith("k=4, steps=3, prompt 12, accepts 1,1,1,1")
    assert [line.split()[0] for line in lines[4:]] == list(DESIGNS)
    assert max(len(line.rstrip()) for line in lines) <= 80


def test_markdown(capsys: Capture) -> None:
    out = printed(capsys, "--k", "3", "--random", "5", "--seed", "2", "--format", "md", "--chunks", "5,7")
    assert out.startswith("k=3, steps=2, prompt 12, accepts ") and out.count("\n| `") == len(DESIGNS)
    assert out == printed(capsys, "--k", "3", "--random", "5", "--seed", "2", "--format", "md", "--chunks", "5,7")


def test_every_sequence_and_traces(capsys: Capture, tmp_path: Path) -> None:
    data = json.loads(printed(capsys, "--k", "2", "--exhaustive", "3", "--format", "json"))
    assert len(data["accepts"]) == 8
    answer = {"question_id": 1, "choices": [{"accept_lengths": [1, 7, 2], "decoding_steps": [3]}]}
    (tmp_path / "a.jsonl").write_text(json.dumps(answer) + "\n")
    data = json.loads(printed(capsys, "--traces", str(tmp_path), "--format", "json"))
    assert data["accepts"] == [1, 4, 2]  # clipped to the window


def test_a_heat_map_is_written(capsys: Capture, tmp_path: Path) -> None:
    printed(capsys, "--plot", str(tmp_path / "a.svg"))
    assert "sglang_default" in (tmp_path / "a.svg").read_text()


def test_a_plot_without_a_folder_is_refused_before_the_run(capsys: Capture, tmp_path: Path) -> None:
    assert run(["atlas", "--exhaustive", "4", "--plot", str(tmp_path / "none" / "a.svg")]) == 2
    assert "make it first" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--accepts", "1,x"], "--accepts '1,x': expected numbers with commas between, as 1,4,2"),
        (["--accepts", "5"], "accept length 5: expected 1..4 (min(k, steps+1))"),
        (["--accepts", "1", "--random", "3"], "--accepts and --random: name one of them"),
        (["--exhaustive", "30"], "--exhaustive 30: 4^30 sequences, at most 200000 are run"),
        (["--exhaustive", "1000000000"], "at most 200000 are run"),
        (["--random", "1000000000"], "--random 1000000000: at most 65536 rounds are run"),
        (["--k", "100000"], "k (spec_num_tokens) of 100,000: at most 64"),
        (["--prompt", "1000000000"], "at most 65,536"),
        (["--accepts", ""], "--accepts '': expected numbers with commas between"),
        (["--chunks", ""], "--chunks '': expected numbers with commas between"),
        (["--exhaustive", "0"], "--exhaustive 0: expected a number of rounds >= 1"),
        (["--random", "0"], "--random 0: expected a number of rounds >= 1"),
        (["--exhaustive", "0", "--accepts", "1"], "--accepts and --exhaustive: name one of them"),
        (["--exhaustive", "-1"], "--exhaustive -1: expected a number of rounds >= 1"),
        (["--chunks", "5,6"], "chunks sum to 11"),
        (["--steps", "9"], "steps=9 > k=4"),
        (["--traces", "/nowhere/at/all"], "not a directory"),
        (["--plot", "/nowhere/at/all.png"], "--plot /nowhere/at/all.png"),
    ],
)
def test_what_cannot_be_run_is_one_line(arguments: list[str], message: str, capsys: Capture) -> None:
    assert run(["atlas", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and message in err


@pytest.mark.parametrize("format_", ["json", "table"])
def test_a_reader_that_leaves_is_nobodys_fault(format_: str) -> None:
    """``atlas | head -1``: nothing on stderr, whichever of print, click and rich meets the closed pipe."""
    command = [sys.executable, "-c", "from frontier_oracle.property_tests.cli import main; main()"]
    with subprocess.Popen(
        [*command, "atlas", "--accepts", "1", "--format", format_], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 1
