"""The command line: exit codes, one clear line for what a user can mend, and what each verb prints."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from gate_reports import GREEN, NOTHING, RED

from frontier_oracle.oracle import records, repro
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.property_tests import bench_oracle
from frontier_oracle.property_tests.cli.app import run
from frontier_oracle.property_tests.gate import run as gate_run
from frontier_oracle.property_tests.gate.results import GateReport

FAULTY = "cli_adapters:ids_at_accept"
DEVIATING = "k4 | a: p12 chunks 5,5,2 | a1, a1"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def gate_gives(monkeypatch: pytest.MonkeyPatch) -> Callable[[GateReport], list[gate_run.GateOptions]]:
    """Replaces the gate's run by a finished report; returns the options it is asked for."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)

    def give(report: GateReport) -> list[gate_run.GateOptions]:
        asked: list[gate_run.GateOptions] = []

        def finished(options: gate_run.GateOptions, progress: gate_run.Progress) -> GateReport:
            asked.append(options)
            progress.total = progress.done = 1
            progress.on_change(progress, "frontier: known")
            return report

        monkeypatch.setattr(gate_run, "run_gate", finished)
        return asked

    return give


def refused(arguments: list[str], capsys: Capture, code: int = 2) -> str:
    """Runs; asserts the exit code, an empty stdout and one line on stderr, which is returned."""
    assert run(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1 and err.startswith("frontier-oracle: "), err
    return err


# -- gate -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("report", "code"), [(GREEN, 0), (RED, 1), (NOTHING, 5)])
def test_the_verdict_is_the_exit_code(report: GateReport, code: int, gate_gives: Any, capsys: Capture) -> None:
    gate_gives(report)
    assert run(["gate"]) == code
    out, err = capsys.readouterr()
    assert out.endswith(report.sentence + "\n")
    assert "gate: 1 of 1 tasks done" in err


def test_options_reach_the_gate(gate_gives: Any, tmp_path: Path) -> None:
    asked = gate_gives(GREEN)
    (tmp_path / "a.jsonl").write_text("")
    arguments = "gate --system frontier --system x:make --profile dev --seed 9 --jobs 3 --no-mutants --traces"
    assert run([*arguments.split(), str(tmp_path)]) == 0
    assert run(["gate"]) == 0
    assert asked[0] == gate_run.GateOptions(("frontier", "x:make"), "dev", 9, tmp_path, 3, False)
    assert asked[1] == gate_run.GateOptions()


def test_quiet_prints_failures_and_the_verdict_only(gate_gives: Any, capsys: Capture) -> None:
    gate_gives(GREEN)
    assert run(["gate", "-q"]) == 0
    assert capsys.readouterr() == (GREEN.sentence + "\n", "")
    gate_gives(RED)
    assert run(["gate", "-q"]) == 1
    assert capsys.readouterr().out.startswith("mine, known:\nFO101 wrong token")


def test_json_goes_to_stdout_alone(gate_gives: Any, capsys: Capture) -> None:
    gate_gives(RED)
    assert run(["gate", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "divergence"


def test_reports_are_written_whole(gate_gives: Any, tmp_path: Path) -> None:
    gate_gives(RED)
    folder = tmp_path / "new"
    kinds = {"junit": "g.xml", "json": "g.json", "md": "g.md", "record": "g.jsonl"}
    value = ",".join(f"{kind}={folder / name}" for kind, name in kinds.items())
    assert run(["gate", "--report", value]) == 1
    assert sorted(p.name for p in folder.iterdir()) == sorted(kinds.values())
    assert ElementTree.parse(folder / "g.xml").getroot().get("failures") == "2"
    assert json.loads((folder / "g.json").read_text())["seed"] == 3
    assert (folder / "g.md").read_text().startswith("## frontier-oracle gate")
    assert records.read(folder / "g.jsonl")[0]["seed"] == 3


def test_failing_scenarios_are_saved_as_repro_files_that_replay(
    gate_gives: Any, tmp_path: Path, capsys: Capture
) -> None:
    gate_gives(replace(RED, systems=(replace(RED.systems[0], name=FAULTY),)))
    assert run(["gate", "--save", str(tmp_path / "bugs"), "--format", "json"]) == 1
    findings = json.loads(capsys.readouterr().out)["systems"][0]["checks"][0]["findings"]
    (path,) = (tmp_path / "bugs").iterdir()
    assert [f["repro"] for f in findings] == [str(path), ""], "what has no scenario has no file"
    assert path.name == f"FO101-cli_adapters-ids_at_accept-{repro.fingerprint(parse('k4 page4 | a: p9 | a1'))}.json"
    assert run(["replay", str(path)]) == 1
    assert "FO101" in capsys.readouterr().out


def test_annotations_show_on_github_only(gate_gives: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    gate_gives(RED)
    run(["gate"])
    assert "::error" not in capsys.readouterr().out
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    run(["gate"])
    assert "\n::error title=FO101 wrong token (mine%2C known)::" in capsys.readouterr().out
    run(["gate", "--format", "json"])
    out, err = capsys.readouterr()
    assert json.loads(out) and "::error" in err


def test_hardware_that_is_required_and_missing_is_exit_3(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "no CUDA device" in refused(["gate", "--require-cuda"], capsys, code=3)


def test_an_interrupt_is_exit_130(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(options: Any, progress: Any) -> GateReport:
        raise KeyboardInterrupt

    monkeypatch.setattr(gate_run, "run_gate", interrupted)
    assert run(["gate"]) == 130


def test_a_crash_of_the_tool_is_no_divergence(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(options: Any, progress: Any) -> GateReport:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(gate_run, "run_gate", crash)
    assert run(["gate"]) == 70
    assert "internal error" in capsys.readouterr().err


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gate", "--system", "fronteer"], "unknown system 'fronteer' (did you mean 'frontier'?)"),
        (["gate", "--system", "no_such.module:make"], "no module named 'no_such'"),
        (["gate", "--system", "cli_adapters:nothing"], "has no 'nothing'"),
        (["gate", "--system", "cli_adapters:raises_in_make"], "RuntimeError: no such kernel"),
        (["gate", "--system", "cli_adapters:empty"], "has no 'extend': run 'frontier-oracle doctor"),
        (["gate", "--profile", "quick"], "unknown profile 'quick': known are dev, ci, nightly"),
        (["gate", "--seed", "-1"], "Invalid value for '--seed'"),
        (["gate", "--format", "xml"], "'xml' is not one of 'table', 'json'"),
        (["gate", "--traces", "/no/such/dir"], "--traces /no/such/dir: no such directory"),
        (["gate", "--report", "pdf=x"], "expected KIND=FILE with a kind out of junit, json, md, record"),
        (["gate", "--report", "junit"], "expected KIND=FILE"),
        (["gate", "--report", "junit=a,junit=b"], "junit stands twice"),
        (["gate", "--frob"], "No such option: --frob"),
        (["gat"], "No such command 'gat'"),
        (["replay"], "Missing argument"),
        (["replay", "k4 | a: p3 | a5"], 'event 1 "a5": accept length 5 of request a is outside 1..4'),
        (["replay", "k4 | a: p3 | a0"], "every row is idle (a0): at least one must accept 1..4 tokens"),
        (["replay", "k4 tree | a: p3"], 'header word "tree": only chains'),
        (["replay", "k4 topk2 | a: p3"], 'header word "topk2": only one draft'),
        (["replay", "k4,5 | a: p3"], "k is fixed for a run"),
        (["replay", "k4 | a: p3 | a1", "--system", "cli_adapters:RaisesInDecode"], "ValueError: bad index in line two"),
        (["explain", "none.json"], "none.json: cannot be read: No such file or directory"),
        (["doctor", "--system", "nope"], "unknown system 'nope'"),
        (["bench", "oracle", "--repeats", "0"], "Invalid value for '--repeats'"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(arguments: list[str], message: str, capsys: Capture) -> None:
    assert message in refused(arguments, capsys)


def good_repro(path: Path) -> str:
    repro.write(path, repro.Repro(parse("k4 | a: p9 | a1"), "frontier", 0, Finding("FO101", 1, "a", 0, 5)))
    return path.read_text()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda text: text[:-40], ": broken or truncated JSON"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "bug.json:3: version 2 is newer than 1"),
        (lambda text: text.replace("p9 | a1", "p9 | a9"), 'bug.json:4: event 1 "a9": accept length 9'),
        (lambda text: "not json", "bug.json:1: broken or truncated JSON"),
        (lambda text: "{}", 'bug.json:1: expected a JSON object with "format"'),
    ],
)
def test_a_broken_repro_file_is_one_line_with_file_and_line(
    edit: Callable[[str], str], message: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "bug.json"
    path.write_text(edit(good_repro(path)))
    for verb in ("replay", "explain"):
        assert message in refused([verb, str(path)], capsys)


def test_a_report_that_cannot_be_written_is_known_before_the_run(
    gate_gives: Any, tmp_path: Path, capsys: Capture
) -> None:
    asked = gate_gives(GREEN)
    (tmp_path / "file").write_text("")
    assert "the folder cannot be made" in refused(["gate", "--report", f"md={tmp_path}/file/x.md"], capsys)
    assert "is a directory, expected a file" in refused(["gate", "--report", f"md={tmp_path}"], capsys)
    assert "is a file, expected a directory" in refused(["gate", "--save", f"{tmp_path}/file"], capsys)
    assert "no *.jsonl file below it" in refused(["gate", "--traces", str(tmp_path)], capsys)
    assert asked == []


def test_without_torch_the_extra_is_named(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for arguments in (["gate"], ["replay", "k4 | a: p3"], ["explain", "k4 | a: p3"], ["doctor"], ["bench", "oracle"]):
        assert "pip install 'frontier-oracle[torch]'" in refused(arguments, capsys)


# -- the other verbs --------------------------------------------------------------------------------------------------


def test_replay_and_explain_tell_the_failure(capsys: Capture) -> None:
    for verb in ("replay", "explain"):
        assert run([verb, "k4 page4 | a: p9 | a1", "--system", FAULTY]) == 1
        out = capsys.readouterr().out
        assert out.startswith("FO101 wrong token (S1 S5 S7 S12 S13)\n  where     round 1 (decode of a, accept 1,")
        assert f"  replay    frontier-oracle replay --system {FAULTY} 'k4 page4 | a: p9 | a1'\n" in out
        assert out.splitlines()[-1].startswith(f"Divergence: {FAULTY} shows ")
        assert len(out.splitlines()) <= 25, "it fits one screen"


def test_explain_all_tells_every_finding(capsys: Capture) -> None:
    assert run(["explain", DEVIATING, "--system", "tokenspeed_frontier", "--all"]) == 0
    assert capsys.readouterr().out.count("- declared: mid_chunk_tail") == 6
    assert run(["explain", DEVIATING, "--system", "tokenspeed_frontier", "--all", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["explanations"]) == 6


def test_replay_as_json(capsys: Capture) -> None:
    assert run(["replay", "k4 page4 | a: p9 | a1", "--system", FAULTY, "--format", "json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == "divergence" and data["findings"][0]["code"] == "FO101"


def test_doctor_says_what_is_wrong_and_how_to_mend_it(capsys: Capture) -> None:
    assert run(["doctor", "--system", "frontier"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("frontier\n  ok    make") and out.splitlines()[-1].startswith("Healthy: all ")
    assert run(["doctor", "--system", "cli_adapters:empty"]) == 1
    out = capsys.readouterr().out
    assert "  WRONG methods" in out and "mend: add extend(batch)" in out
    assert run(["doctor", "--system", "cli_adapters:empty", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["healthy"] is False


def test_bench_oracle_prints_rows(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"sweep": "base", "k": 4, "rounds": 16, "batch": 1024, "context": 16, "request_rounds": 16384}
    row |= {"seconds": 0.25, "request_rounds_per_second": 65536.0}
    alone = {**row, "sweep": "one at a time", "batch": 1, "request_rounds_per_second": 500.0, "ratio": 131.072}
    monkeypatch.setattr(bench_oracle, "bench", lambda make, repeats, threads: [row, alone])
    assert run(["bench", "oracle", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {"k", "rounds", "batch", "context", "request_rounds_per_second"} <= rows[0].keys()
    assert run(["bench", "oracle"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("sweep") and lines[0].endswith("request-rounds/s")
    assert lines[1].split()[-1] == "65,536" and lines[3] == "131 times as fast as one request at a time"


def test_every_verb_has_help(capsys: Capture) -> None:
    verbs = ["gate", "fuzz", "replay", "explain", "check", "doctor", "atlas", "simulate", "report", "compare", "train"]
    verbs.append("bench")
    for verb in ([], *([verb] for verb in verbs), ["bench", "oracle"], ["bench", "fuzz"], ["bench", "round"]):
        assert run([*verb, "--help"]) == 0
        assert "Usage: frontier-oracle" in capsys.readouterr().out
    assert run(["--help"]) == 0
    commands = capsys.readouterr().out.split("Commands")[1]
    rows = [line.split()[1] for line in commands.splitlines() if line.startswith(("│ ", "| "))]
    assert rows == verbs, "one line each"
    assert run([]) == 2, "a verb is needed"


def test_version_and_help_need_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; from frontier_oracle.property_tests.cli.app import run; "
    code += "sys.exit(run(['--version']) or run(['gate', '--help']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("frontier_oracle ") and "--require-cuda" in done.stdout


def test_a_reader_that_leaves_early_gets_no_traceback() -> None:
    code = "from frontier_oracle.property_tests.cli import main; import sys; sys.argv = ['x', 'doctor']; main()"
    command = f'{sys.executable} -c "{code}" | head -c 1'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr and done.stdout == "f"
