"""Replay: the text of a failure fails again with the same findings; a repro file says whether its finding is met."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from frontier_oracle.oracle import repro
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.property_tests.drawing import random_scenario
from frontier_oracle.property_tests.gate.judged import judge, report_failure
from frontier_oracle.property_tests.gate.system import resolve
from frontier_oracle.property_tests.render import replayed
from frontier_oracle.property_tests.replay import Replay, as_data, load, replay

FAULTY = "cli_adapters:ids_at_accept"
DEVIATING = "k4 | a: p12 chunks 5,5,2 | a1, a1"


def keys(run: Replay) -> list[tuple[str, int, str, int, int]]:
    return [finding.key for finding, _ in run.findings]


def pasted(story: str) -> Replay:
    """What a person does with a printed failure: run its replay line."""
    line = next(line for line in story.splitlines() if line.startswith("  replay"))
    words = shlex.split(line)[1:]
    assert words[:3] == ["frontier-oracle", "replay", "--system"]
    return replay(words[4], words[3])


def test_an_exact_system_is_equal() -> None:
    run = replay("k4 page4 | a: p9 | a1, a4 | b: p2 | a1 b2 /4")
    assert run.equal and run.findings == () and run.recurs is None
    assert replayed.render(run).endswith("Equal: frontier kept its books over 6 request-rounds.")


@pytest.mark.parametrize("scenario", ["k4 page4 | a: p9 | a1, a2", "k3 page16 | a: p5 | b: p7 | a1 b3, b2"])
def test_the_text_of_a_failure_pastes_back_and_fails_identically(scenario: str) -> None:
    run = replay(scenario, FAULTY)
    assert not run.equal
    again = pasted(replayed.render(run))
    assert keys(again) == keys(run)
    assert replayed.render(again) == replayed.render(run)


def test_what_the_gate_reports_is_what_its_replay_line_shows() -> None:
    system = resolve(FAULTY)
    stream = (random_scenario(0, index) for index in range(100))
    scenario = next(scenario for scenario in stream if judge(system, scenario).undeclared)
    judged = judge(system, scenario)
    report = report_failure(system, scenario, judged, max_seconds=5.0)
    again = pasted("\n".join(report.story))
    assert keys(again)[0] == (report.code, report.round, report.request, report.depth, report.position)
    assert again.story(again.undeclared[0]).splitlines() == list(report.story)


def test_declared_deviations_are_told_and_are_no_divergence() -> None:
    run = replay(DEVIATING, "tokenspeed_frontier")
    assert run.equal and {d for _, d in run.declared} == {"mid_chunk_tail"} and len(run.declared) == 6
    told = replayed.render(run)
    assert told.startswith("FO101 wrong token (S1 S5 S7 S12 S13) - declared: mid_chunk_tail")
    assert told.endswith(
        "Equal: tokenspeed_frontier deviates exactly as it declares (mid_chunk_tail), and nowhere else, "
        "over 5 request-rounds."
    )
    assert len(told.splitlines()) < 25, "it fits one screen"
    assert replayed.render(run, every=True).count("  because") == 6


def test_a_round_with_a_host_read_is_told() -> None:
    run = replay("k4 | a: p4 | a2", "cli_adapters:host_read")
    assert run.undeclared[0].code == "FO302"
    assert "because   Tensor.item" in replayed.render(run)


def saved(path: Path, system: str, finding: Finding | None, policy: str | None = None) -> str:
    repro.write(path, repro.Repro(parse("k4 page4 | a: p9 | a1, a2"), system, 7, finding, policy))
    return str(path)


def test_a_repro_file_names_its_system_and_its_finding(tmp_path: Path) -> None:
    first = replay("k4 page4 | a: p9 | a1, a2", FAULTY).undeclared[0]
    path = saved(tmp_path / "bug.json", FAULTY, first)
    run = replay(path)
    assert run.system.name == FAULTY and run.recurs and run.undeclared[0].key == first.key
    assert f"the finding of {path} (FO101) is met again" in replayed.render(run)
    mended = replay(path, "frontier")
    assert mended.equal and mended.recurs is False
    assert f"the finding of {path} (FO101) is gone" in replayed.render(mended)


def test_a_file_recorded_under_another_prefix_policy_is_noted(tmp_path: Path) -> None:
    path = saved(tmp_path / "bug.json", "frontier", None, policy="tokens")
    assert "note: recorded under prefix policy tokens, frontier is successor now" in replayed.render(replay(path))


def test_the_replay_is_plain_data() -> None:
    data = json.loads(json.dumps(as_data(replay(DEVIATING, "tokenspeed_frontier"))))
    assert data["verdict"] == "equal" and len(data["findings"]) == 6 and len(data["explanations"]) == 1
    assert data["findings"][0]["deviation"] == "mid_chunk_tail"
    assert data["explanations"][0]["first_differing_write"]["position"] == 4
    assert len(as_data(replay(DEVIATING, "tokenspeed_frontier"), every=True)["explanations"]) == 6


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("k4 | a: p3 | a5", "outside 1..4"),
        ("k4 | a: p3 | a0", "every row is idle"),
        ("k4 | a: p3 | a1 tree", "expected a request and its accept length"),
        ("none.json", "none.json: cannot be read"),
        ("", "has no k"),
    ],
)
def test_what_is_no_scenario_and_no_file_is_refused(source: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(source)
