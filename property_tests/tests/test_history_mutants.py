"""Planted faults under Tier 0: a log of the faulty drafter names the same finding as the run, where it can show it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from frontier_oracle.oracle.history.check import check
from frontier_oracle.oracle.history.record import Recorder
from frontier_oracle.oracle.history.schema import read
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.play import play
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.oracle.timeline import Timeline
from frontier_oracle.property_tests.cli.app import run
from frontier_oracle.property_tests.driver import TorchDrafter, run_scenario
from frontier_oracle.property_tests.gate.system import resolve
from frontier_oracle.property_tests.mutants.planting import FRONTIER, PLANTED, Mutant
from frontier_oracle.property_tests.mutants.pointed import pointed, pointed_media
from frontier_oracle.property_tests.mutants.survey import cases
from frontier_oracle.property_tests.recording import record
from frontier_oracle.property_tests.registry import DEFAULT

# What no log has: dtypes, host reads, the values of ring and checkpoint.
UNSEEN = {"FO401", "FO302", "FO207", "FO208"}
# A log shows the cause where the run shows what it does to a shared page, or to the stash of a request that sits idle.
NAMED_BY_ITS_CAUSE = {
    "valid_length_after_write": "FO101",
    "valid_length_ignored": "FO101",
    "release_clears_next_slot": "FO101",
    "padding_clears_slot_1": "FO101",
}
# One fault a rule, for the runs of every push.
FEW = ("ids_at_accept", "hidden_at_accept", "window_behind", "junk_past_accept", "stash_not_rolled", "draft_of_depth_0")


def both(mutant: Mutant, scenario: Scenario, path: Path) -> tuple[str, str, bool]:
    """(first code of the run, first code of its log, whether the two findings are the same one)."""
    timeline = Timeline(scenario, mutant.policy(FRONTIER))
    ring = mutant.ring_rows(scenario.spec) if mutant.ring_rows else None
    drafter = TorchDrafter(mutant.factory(FRONTIER), timeline.config(), ring, guard=mutant.guard)
    recorder = Recorder(drafter, timeline.spec)
    ran = [f for _, _, verdict in play(timeline, recorder) for f in verdict.findings]
    path.write_text(recorder.text(), encoding="utf-8")
    history, dirty = read(path)
    assert history is not None, dirty
    logged = check(history).findings
    same = bool(ran and logged) and ran[0].key == logged[0].key
    return ran[0].code if ran else "", logged[0].code if logged else "", same


def verdict(mutant: Mutant, path: Path) -> tuple[str, str, bool]:
    """On the first pointed scenario that shows the fault."""
    for scenario in (*pointed(), *pointed_media()):
        found = both(mutant, scenario, path)
        if found[0]:
            return found
    return "", "", False


@pytest.mark.parametrize("id", FEW)
def test_a_log_names_a_planted_fault_as_the_run_does(id: str, tmp_path: Path) -> None:
    ran, logged, same = verdict(PLANTED[id], tmp_path / "log.jsonl")
    assert (ran, same) == (PLANTED[id].code, True), logged


@pytest.mark.slow
def test_every_pointed_fault_that_a_log_can_show_is_killed_by_it(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for mutant in (m for m, base in cases() if base == FRONTIER):
        ran, logged, same = verdict(mutant, tmp_path / "log.jsonl")
        if not ran:
            counts["not pointed"] += 1  # only random scenarios show it
        elif mutant.code in UNSEEN:
            counts["unseen"] += 1
        elif mutant.id in NAMED_BY_ITS_CAUSE:
            assert logged == NAMED_BY_ITS_CAUSE[mutant.id], mutant.id
            counts["named by its cause"] += 1
        else:
            assert same, (mutant.id, ran, logged)
            counts["same"] += 1
    assert counts == {"same": 101, "unseen": 14, "named by its cause": 4, "not pointed": 2}


@pytest.mark.parametrize("scenario", [*pointed()[:12], *pointed_media()])
def test_a_right_drafter_leaves_a_clean_log(scenario: Scenario, tmp_path: Path) -> None:
    assert both(
        Mutant("none", "", "", (FRONTIER,), PLANTED["ring_two_rows_short"].apply), scenario, tmp_path / "l"
    ) == (
        "",
        "",
        False,
    )


@pytest.mark.parametrize("name", DEFAULT)
def test_every_built_in_system_leaves_a_log_that_is_judged_as_its_run(name: str, tmp_path: Path) -> None:
    for text in ("k4 page4 | a: p9 | b: p6 | a2 b3, b1 a4 /4", "k4 page4 | a: p12 chunks 5,5,2 | a1, a3"):
        path = tmp_path / "log.jsonl"
        system, scenario = resolve(name), parse(text)
        outcome = run_scenario(system.factory, scenario, system.policy)
        record(text, name, path)
        history, dirty = read(path)
        assert history is not None, dirty
        ran = {f.key for f in outcome.findings if f.code not in UNSEEN}
        assert {f.key for f in check(history).findings} == ran
        assert bool(ran) == (name == "tokenspeed_frontier" and "chunks" in text)


# ---- the command line -----------------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The log of a drafter with a fault, written by replay."""
    path = tmp_path / "log.jsonl"
    adapter = "frontier_oracle.property_tests.tests.cli_adapters:ids_at_accept"
    assert run(["replay", "k4 page4 | a: p9 | a2, a1 /2", "--system", adapter, "--history", str(path)]) == 1
    capsys.readouterr()
    return path


def test_check_tells_a_finding_with_its_line(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = log.with_name("check.xml")
    assert run(["check", str(log), "--report", f"junit={report}"]) == 1
    shown = capsys.readouterr().out
    assert f"  logged    {log}:4" in shown
    assert shown.splitlines()[-1].endswith(f"findings over 3 logged request-rounds, the first FO101 at {log}:4.")
    assert '<failure type="FO101"' in report.read_text()


def test_check_as_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(log), "--format", "json"]) == 1
    checks = json.loads(capsys.readouterr().out)["systems"][0]["checks"]
    assert checks[0]["id"] == "FO101 wrong token" and checks[0]["findings"][0]["position"] >= 0
    assert [c["id"][:5] for c in checks if c["skipped"]] == ["FO207", "FO208", "FO209"]


def test_check_of_a_right_log_is_green_and_says_what_was_skipped(tmp_path: Path, capsys) -> None:
    path = tmp_path / "log.jsonl"
    assert run(["replay", "k4 page4 | a: p9 | a2, a1 /2", "--history", str(path)]) == 0
    assert run(["check", "-q", str(path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("Equal: 3 logged request-rounds keep to 15 rules; skipped: FO207, FO208, FO209. Not judged:")


def test_check_lists_dirty_lines_and_exits_2(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = log.read_text().splitlines()
    log.write_text("\n".join([*lines[:2], "{", lines[2][:50], *lines[4:]]))
    assert run(["check", str(log)]) == 2
    shown = capsys.readouterr()
    first, second, last = shown.err.splitlines()
    assert shown.out == ""
    assert first.startswith(f"{log}:3: not a JSON object") and second.startswith(f"{log}:4: not a JSON object")
    assert last == f"frontier-oracle: {log}: 2 dirty lines: mend them; nothing was judged"


def test_check_without_a_round_says_that_nothing_was_judged(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text(log.read_text().splitlines()[0])
    assert run(["check", str(log)]) == 5
    assert "Nothing was judged" in capsys.readouterr().out


def test_check_names_a_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "no.jsonl"]) == 2
    assert capsys.readouterr().err == "frontier-oracle: no.jsonl: cannot be read: No such file or directory\n"


def test_check_needs_no_torch(log: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from frontier_oracle.property_tests.cli.app import run; "
    done = subprocess.run([sys.executable, "-c", f"{code}sys.exit(run(['check', {str(log)!r}]))"], capture_output=True)
    assert done.returncode == 1, done.stderr
