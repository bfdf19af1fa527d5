"""What adapters and disks do to the command line: prints, scenarios without a round, files that cannot be written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gate_reports import FAILURE, RED

from frontier_oracle.oracle import repro
from frontier_oracle.oracle.language import parse
from frontier_oracle.property_tests.cli.app import run
from frontier_oracle.property_tests.gate import checks, shrink_budget
from frontier_oracle.property_tests.gate import run as gate_run
from frontier_oracle.property_tests.gate.profiles import PROFILES
from frontier_oracle.property_tests.gate.results import GateReport
from frontier_oracle.property_tests.gate.system import resolve

Capture = pytest.CaptureFixture[str]
CHATTY = "cli_adapters:Chatty"


def gate_gives(report: GateReport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setattr(gate_run, "run_gate", lambda options, progress: report)


def test_a_scenario_without_a_round_is_no_pass(capsys: Capture) -> None:
    for verb in ("replay", "explain"):
        assert run([verb, "k4"]) == 5
        assert capsys.readouterr().out.endswith("the scenario has no round, so frontier was not asked for anything.\n")
    assert run(["replay", "k4", "--format", "json"]) == 5
    assert json.loads(capsys.readouterr().out)["verdict"] == "nothing ran"


@pytest.mark.parametrize("verb", [["replay", "k4 | a: p3 | a1"], ["explain", "k4 | a: p3 | a1"], ["doctor"]])
def test_what_an_adapter_prints_is_not_stdout(verb: list[str], capsys: Capture) -> None:
    assert run([*verb, "--system", CHATTY, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) and "decoding" in err


def test_workers_keep_what_an_adapter_prints_off_stdout(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gate_run, "system_tasks", _known_twice)
    arguments = ["gate", "--system", CHATTY, "--no-mutants", "--jobs", "2", "-q", "--format", "json"]
    assert run(arguments) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["verdict"] == "equal" and "decoding" in err


@pytest.mark.parametrize(
    ("system", "message"),
    [("LeavesWhenAsked", "ended the program (exit 0)"), ("Dies", "a worker died: a crash or exit")],
)
def test_an_adapter_that_exits_gives_no_verdict(
    system: str, message: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_run, "system_tasks", _known_twice)
    assert run(["gate", "--system", f"cli_adapters:{system}", "--no-mutants", "--jobs", "2", "-q"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and message in err


def _known_twice(system: Any, *args: Any) -> list[gate_run.Task]:
    return [gate_run.Task("known", system.name, checks.known)] * 2


def test_a_tape_runs_in_spawned_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_run, "system_tasks", _known_twice)
    report = gate_run.run_gate(gate_run.GateOptions(("cuda_tape",), "dev", jobs=2, mutants=False))
    assert report.verdict == "equal" and not report.systems[0].light


def test_the_result_is_shown_before_a_file_that_fails(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "reports"
    gate_gives(RED, monkeypatch)

    def vanished(options: Any, progress: Any) -> GateReport:
        folder.rmdir()
        folder.write_text("")
        return RED

    monkeypatch.setattr(gate_run, "run_gate", vanished)
    assert run(["gate", "--report", f"md={folder}/x.md"]) == 2
    out, err = capsys.readouterr()
    assert out.endswith(RED.sentence + "\n")
    assert err == f"frontier-oracle: --report md={folder}/x.md: cannot be written: File exists\n"


def test_a_repro_file_that_fails_comes_after_the_result(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate_gives(replace(RED, systems=(replace(RED.systems[0], name="frontier"),)), monkeypatch)
    (tmp_path / "file").write_text("")
    assert run(["gate", "--save", f"{tmp_path}/file/bugs"]) == 2
    out, err = capsys.readouterr()
    assert out.endswith(RED.sentence + "\n")
    assert err.count("\n") == 1 and "cannot be written" in err


def test_quiet_tells_three_failures_and_lists_the_rest(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    many = tuple(replace(FAILURE, scenario=f"k4 | a: p{n} | a1", story=(f"story {n}",)) for n in range(1, 9))
    check = replace(RED.systems[0].checks[0], findings=many)
    gate_gives(replace(RED, systems=(replace(RED.systems[0], checks=(check,)),)), monkeypatch)
    assert run(["gate", "-q"]) == 1
    out = capsys.readouterr().out
    assert out.count("story ") == 3
    assert "\n\n" + "".join(f"mine, known: FO101 wrong token: k4 | a: p{n} | a1\n" for n in range(4, 9)) in out


def test_an_unknown_policy_in_a_repro_file_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bug.json"
    repro.write(path, repro.Repro(parse("k4 | a: p9 | a1"), "frontier", policy="successor"))
    path.write_text(path.read_text().replace('"policy": "successor"', '"policy": "trigram"'))
    assert run(["replay", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert "bug.json:" in err and "prefix policy 'trigram' is unknown, known are " in err and "successor" in err


def test_another_policy_than_recorded_is_noted(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bug.json"
    repro.write(path, repro.Repro(parse("k4 | a: p9 | a1"), "frontier", policy="tokens"))
    note = "recorded under prefix policy tokens, frontier is successor now"
    assert run(["replay", str(path)]) == 0
    assert f"\nnote: {note}\n" in capsys.readouterr().out
    assert run(["replay", str(path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["note"] == note


def test_hardware_that_a_system_needs_is_exit_3(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for verb in (["gate"], ["replay", "k4 | a: p3"], ["doctor"]):
        assert run([*verb, "--system", "cuda_graph"]) == 3
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and "cuda_graph needs a CUDA device" in err


def test_a_run_shrinks_within_a_budget() -> None:
    import multiprocessing

    shrink_budget.use(shrink_budget.Budgets(["a", "b"], multiprocessing.get_context("spawn"), 2.0))
    try:
        with shrink_budget.allowance("a", 15.0) as first, shrink_budget.allowance("a", 15.0) as second:
            assert (first, second) == (2.0, 0.0)
        with shrink_budget.allowance("a", 15.0) as again, shrink_budget.allowance("b", 1.5) as other:
            assert 1.9 < again <= 2.0 and other == 1.5, "what was not used is there for the next"
    finally:
        shrink_budget.use(None)
    with shrink_budget.allowance("a", 15.0) as alone:
        assert alone == 15.0


def test_a_light_profile_is_a_part_of_each_kind_of_work() -> None:
    light = PROFILES["ci"].light()
    assert (light.name, light.scenarios, light.bulk_rounds) == ("dev", 126, 21_000)
    assert light.exhaustive == ((2, 6), (3, 6)) and light.traces == ((4, 20_000),)
    assert resolve("cuda_eager").design is None
