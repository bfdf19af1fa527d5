"""``fuzz`` and ``bench fuzz`` on the command line: options, exit codes, what is printed, what is refused."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from test_cli import FAULTY, refused

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.cli.app import run
from frontier_oracle.property_tests.cli.durations import seconds_of
from frontier_oracle.property_tests.cli.fuzz_progress import line, panel
from frontier_oracle.property_tests.fuzz import rounds_to_kill
from frontier_oracle.property_tests.fuzz import run as fuzz_run
from frontier_oracle.property_tests.fuzz.pool import Here
from frontier_oracle.property_tests.fuzz.results import FuzzReport, Progress, Replayed
from frontier_oracle.property_tests.fuzz.session import Limits
from frontier_oracle.property_tests.fuzz.units import Plan
from frontier_oracle.property_tests.gate.results import FindingReport
from frontier_oracle.property_tests.mutants.survey import cases
from frontier_oracle.property_tests.render import fuzzed

Capture = pytest.CaptureFixture[str]
FOUND = FindingReport(
    "FO206", "stash wrong or foreign", "S8", False, 3, "d", -1, -1, scenario="k4 | a: p1", story=("FO206 stash",),
    repro="corpus/FO206-x.json",
)  # fmt: skip
RED = FuzzReport(
    verdict="divergence",
    sentence="Divergence: x.",
    system="pkg.mod:make",
    seed=3,
    guided=True,
    units=2,
    scenarios=96,
    rounds=1000,
    all_units=5,
    all_rounds=2500,
    rules=("S4", "S9"),
    pairs=700,
    known_pairs=1715,
    findings=(FOUND,),
    met={"FO206": 2},
    replayed=(Replayed("corpus/FO101-y.json", "FO101", True), Replayed("corpus/FO101-z.json", "FO101", False)),
    pending=(("FO101", "k5 | a: p2"),),
    interrupted=False,
    corpus="corpus",
    environment={"frontier_oracle": "1", "python": "3", "torch": "2", "machine": "Linux", "cores": "2"},
    seconds=10.0,
)
GREEN = replace(RED, verdict="equal", sentence="Equal: x.", findings=(), met={}, replayed=(), pending=())


@pytest.fixture
def fuzz_gives(monkeypatch: pytest.MonkeyPatch) -> Callable[[FuzzReport], list[fuzz_run.FuzzOptions]]:
    """Replaces the run by a finished report; returns the options it is asked for."""

    def give(report: FuzzReport) -> list[fuzz_run.FuzzOptions]:
        asked: list[fuzz_run.FuzzOptions] = []

        def finished(options: fuzz_run.FuzzOptions, progress: Progress) -> FuzzReport:
            asked.append(options)
            return report

        monkeypatch.setattr(fuzz_run, "run_fuzz", finished)
        return asked

    return give


def test_options_reach_the_run(fuzz_gives: Callable[..., list[fuzz_run.FuzzOptions]], tmp_path: Path) -> None:
    asked = fuzz_gives(GREEN)
    assert run(["fuzz"]) == 0
    given = ["--system", "m:f", "--seed", "4", "--max-time", "2m", "--max-rounds", "9", "-j", "3", "--uniform"]
    assert run(["fuzz", *given, "--corpus", str(tmp_path)]) == 0
    assert asked == [
        fuzz_run.FuzzOptions(Plan("frontier"), Path("fuzz-corpus")),
        fuzz_run.FuzzOptions(Plan("m:f", 4, False), tmp_path, Limits(120.0, 9), 3),
    ]


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (GREEN, 0),
        (RED, 1),
        (replace(GREEN, verdict="nothing ran"), 5),
        (replace(RED, interrupted=True), 130),
        (replace(GREEN, interrupted=True), 130),
    ],
)
def test_exit_codes(fuzz_gives: Callable[..., object], capsys: Capture, report: FuzzReport, code: int) -> None:
    fuzz_gives(report)
    assert run(["fuzz", "-q"]) == code
    assert capsys.readouterr().out.rstrip().endswith(report.sentence)


def test_json_is_the_report(fuzz_gives: Callable[..., object], capsys: Capture) -> None:
    fuzz_gives(RED)
    assert run(["fuzz", "--format", "json", "-q"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["verdict"], data["rounds_per_second"]) == ("divergence", 100.0)
    assert data["pending"] == [{"code": "FO101", "scenario": "k5 | a: p2"}]
    assert data["findings"][0]["repro"] == "corpus/FO206-x.json"


def test_the_table_says_what_ran_and_what_was_found() -> None:
    text = fuzzed.render(RED)
    for part in (
        "fuzz pkg.mod:make · seed 3 · guided by coverage",
        "2 units, 96 scenarios, 1,000 request-rounds, 100 request-rounds/s",
        "all runs    5 units, 2,500 request-rounds",
        "700 met, 1,715 known",
        "2 files replayed, 1 still fail: FO101-y.json",
        "FO206 in 2 units",
        "  repro     corpus/FO206-x.json",
        "not made small yet (run again to go on): FO101 on 'k5 | a: p2'",
    ):
        assert part in text
    assert text.endswith("\nDivergence: x.")
    assert fuzzed.render(GREEN, quiet=True) == "Equal: x."
    many = replace(RED, findings=(FOUND,) * 7)
    assert "... and 2 more, each explained in corpus/*.txt" in fuzzed.render(many)


def test_progress_in_a_panel_and_on_a_line() -> None:
    progress = Progress(20.0, 3, 144, 2000, 17, 900, 1715, 1, "unit 3")
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(panel(progress))
    shown = console.export_text()
    console.file.close()
    for part in ("2,000 (100/s)", "144 in 3 units", "900 of 1,715 known", "unit 3"):
        assert part in shown
    assert line(progress) == (
        "fuzz: 2,000 request-rounds after 20 s (100/s), 144 scenarios, 17 rules, 900 of 1,715 situations, 1 findings"
        " (unit 3)"
    )


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("30s", 30), ("1.5h", 5400), ("10m", 600), ("0", 0)])
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text, "--max-time") == seconds


def test_what_is_refused(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        seconds_of("soon", "--max-time")
    assert "--max-time 'soon': expected a number of seconds" in refused(["fuzz", "--max-time", "soon"], capsys)
    (tmp_path / "file").write_text("")
    assert "--corpus file: is a file" in refused(["fuzz", "--corpus", "file"], capsys)
    assert "unknown system 'frontie'" in refused(["fuzz", "--system", "frontie", "-q"], capsys)
    assert not (tmp_path / "fuzz-corpus").exists()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "fuzz --ray needs ray: pip install 'frontier-oracle[ray]'" in refused(["fuzz", "--ray", "auto"], capsys)


def test_a_broken_corpus_is_refused_before_anything_runs(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "FO101-x.json").write_text("{")
    said = refused(["fuzz", "--system", FAULTY, "--corpus", str(tmp_path), "-q", "-j", "1"], capsys)
    assert "FO101-x.json:1: broken or truncated JSON" in said
    said = refused(["gate", "--system", FAULTY, "--corpus", str(tmp_path), "-q"], capsys)
    assert "FO101-x.json:1: broken or truncated JSON" in said
    assert "no such directory" in refused(["gate", "--corpus", str(tmp_path / "none"), "-q"], capsys)


# -- bench fuzz -------------------------------------------------------------------------------------------------------


def test_rounds_to_kill_of_a_few_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_to_kill, "HARD_ROUNDS", 10)
    part = [i for i, (mutant, _) in enumerate(cases()) if mutant.id == "padded_row_keeps_pages"]
    pool = Here()
    try:
        found = rounds_to_kill.bench(pool, [0], [1], part)
    finally:
        pool.stop()
    assert found["faults"] == len(part) and found["all"]["uniform"]["survivors"] == 0
    assert found["hard"] and {row["fault"] for row in found["hard"]} <= {"padded_row_keeps_pages"}
    assert found["ratio"] == pytest.approx(
        rounds_to_kill.geometric_mean([row["uniform"][0] / row["guided"][0] for row in found["hard"]])
    )


def test_the_bench_prints_a_table_and_json(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    spread = {"trials": 2, "median": 5.0, "worst": 1200, "survivors": 0}
    row = {"fault": "x", "base": "frontier", "uniform": [300], "guided": [100], "ratio": 3.0}
    found = {
        "pick_seeds": [0], "compare_seeds": [1], "faults": 2, "hard_rounds": 100, "all": {"uniform": spread},
        "hard": [row], "ratio": 3.0, "seconds": 1.0,
    }  # fmt: skip
    monkeypatch.setattr(rounds_to_kill, "bench", lambda pool, pick, compare: found)
    assert run(["bench", "fuzz"]) == 0
    out = capsys.readouterr().out
    assert "uniform  median 5, worst 1,200" in out and "3.00 x  x on frontier" in out
    assert run(["bench", "fuzz", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["ratio"] == 3.0
    assert "--pick 'a,b': expected seeds" in refused(["bench", "fuzz", "--pick", "a,b"], capsys)
