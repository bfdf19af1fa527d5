"""What a GPU run keeps of the gate's report, tried with a report of its twin on a CPU."""

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from frontier_oracle.cuda_impl import gpu_run
from frontier_oracle.cuda_impl.gpu_table import MEANING, gate_section
from frontier_oracle.property_tests.gate.results import (
    CheckResult,
    FindingReport,
    GateReport,
    MutantResult,
    SystemResult,
)
from frontier_oracle.property_tests.render import jsonout

WRONG = FindingReport("FO301", "replay differs from eager", "S23", False, 1, "", -1, -1)


def report(*findings: FindingReport) -> GateReport:
    checks = (
        CheckResult("known", "known", 54, 1448, findings),
        CheckResult("traces k=4", "traces", 0, 0, skipped="no traces here"),
    )
    mutants = (
        MutantResult("ids_at_accept", "frontier", "FO101", "FO101"),
        MutantResult("captured_tail", "cuda_graph", "FO205", "FO205"),
        MutantResult("captured_accepts", "cuda_tape", "FO301", ""),
    )
    return GateReport("equal", "Equal: all.", 7, "dev", (SystemResult("cuda_graph", checks),), mutants, (), {}, 12.4)


def test_the_gate_is_kept_as_what_each_check_did(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def verb(*arguments: str) -> object:
        asked.append(arguments)
        return json.loads(jsonout.render(report(WRONG)))

    monkeypatch.setattr(gpu_run, "verb", verb)
    kept = gpu_run.gate()
    assert asked == [("gate", "--require-cuda", "--system", "cuda_graph", "--profile", "dev")]
    assert (kept["verdict"], kept["planted"], kept["killed"]) == ("equal", 3, 2)
    assert [p["base"] for p in kept["planted_in_captures"]] == ["cuda_graph", "cuda_tape"]
    text = "\n".join(gate_section(kept))
    assert "(seed 7, 12 s): Equal: all." in text
    assert "| known | 54 | 1,448 | FO301 |" in text
    assert "| traces k=4 | 0 | 0 | no traces here |" in text
    assert "| captured_accepts | cuda_tape | FO301 | survived |" in text


def test_a_verb_that_cannot_run_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="gpu_run: replay nonsense failed with exit code 2"):
        gpu_run.verb("replay", "nonsense")
    assert gpu_run.verb("replay", "k2 | a: p1 | a1")["verdict"] == "equal"


def outcome(**changed: Any) -> dict[str, Any]:
    clean = {"memcheck": "clean", "racecheck": "not run: compute-sanitizer is not installed"}
    return {"equivalence": {"findings": []}, "gate": {"verdict": "equal"}, "sanitizer": clean} | changed


def test_what_was_found_is_told_line_by_line_and_a_missing_sanitizer_is_no_finding() -> None:
    assert gpu_run.troubles(outcome()) == []
    assert gpu_run.troubles(outcome(equivalence={"findings": [1, 2]})) == ["equivalence: 2 findings"]
    assert gpu_run.troubles(outcome(gate={"verdict": "divergence"})) == ["gate: divergence"]
    hazards = "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"
    assert gpu_run.troubles(outcome(sanitizer={"memcheck": "clean", "racecheck": hazards})) == [f"racecheck: {hazards}"]
    assert gpu_run.troubles(outcome(failed={"capture": "it broke"})) == ["capture: it broke"]
    assert gpu_run.troubles(outcome(sanitizer={"memcheck": "not running"})) == ["memcheck: not running"]


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("equal\n========= ERROR SUMMARY: 0 errors", "clean"),
        ("equal\n========= ERROR SUMMARY: 10 errors", "ERROR SUMMARY: 10 errors"),
        # memcheck ends the program at its first bad access: that is a finding, not a sanitizer that did not run
        ("========= ERROR SUMMARY: 3 errors\nno launch", "failed: ERROR SUMMARY: 3 errors; no launch"),
        ("========= ERROR SUMMARY: 0 errors\nAssertionError", "failed: ERROR SUMMARY: 0 errors; AssertionError"),
        ("Error: no debugger here", "not run: Error: no debugger here"),
    ],
)
def test_what_the_sanitizer_says_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, expected: str
) -> None:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\n")
    tool.chmod(tool.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert expected in gpu_run.sanitize("memcheck")
    assert gpu_run.sanitize("memcheck").startswith("not run: ") == expected.startswith("not run: ")


def test_a_sanitizer_that_is_not_there_or_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_run.sanitize("memcheck") == "not run: compute-sanitizer is not installed"
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    tool.chmod(tool.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setattr(gpu_run, "SANITIZER_LIMIT_S", 0.2)
    assert gpu_run.sanitize("memcheck").endswith("did not end in 0.2 s")


# What the programs and the verb gave in a kept run, in the form that they have now.
KEPT = json.loads((Path(gpu_run.__file__).parents[1] / "reports/results/2026-12-01-h200-c2f5846.json").read_text())
ROWS = [{"operation": "item", "tape": "refused", "graph": "refused", "reason": "synchronizes", "why": ""}]
TWINS = [{"k": 4, "steps": 3, "H": 16, "buckets": [1, 2, 4, 7], "rounds": 14}]
MACHINE = {name: KEPT[name] for name in ("date", "gpu", "driver", "torch", "triton", "commit")}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A run with no device under it. Returns what its programs write; an exception among that is raised."""
    programs: dict[str, Any] = {
        "gpu_equivalence.py": KEPT["equivalence"] | {"twins": TWINS},
        "capture_list.py": {"operations": ROWS, "differences": []},
    }

    def program(name: str, *arguments: str) -> Any:
        if isinstance(programs[name], Exception):
            raise programs[name]
        return programs[name]

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(gpu_run, "machine", lambda: dict(MACHINE))
    monkeypatch.setattr(gpu_run, "program", program)
    monkeypatch.setattr(gpu_run, "verb", lambda *arguments: KEPT)
    monkeypatch.setattr(gpu_run, "gate", lambda: KEPT["gate"])
    monkeypatch.setattr(gpu_run, "sanitize", lambda tool: "not run: compute-sanitizer is not installed")
    monkeypatch.setattr("frontier_oracle.cuda_impl.bench_window.tune", lambda: [])
    return programs


def run(monkeypatch: pytest.MonkeyPatch, folder: Path) -> tuple[int, dict[str, Any], str]:
    files = ["--out", str(folder / "deep" / "gpu.json"), "--table", str(folder / "gpu.md")]
    monkeypatch.setattr("sys.argv", ["gpu_run", *files])
    code = gpu_run.main()
    return code, json.loads((folder / "deep" / "gpu.json").read_text()), (folder / "gpu.md").read_text()


def test_a_run_that_found_nothing(device: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, kept, page = run(monkeypatch, tmp_path)
    assert code == 0
    assert kept["seconds"].keys() == {"round", "equivalence", "capture", "sanitizer", "gate", "tune"}
    assert page.count("\n## ") == 6
    assert f"seed {KEPT['seed']};" in page
    assert "| 4 | 3 | 16 | 1, 2, 4, 7 | 14 |" in page
    assert "| sampled in place | " in page or "sampled in place" not in KEPT["equivalence"]["parts"]
    assert "memcheck: not run: compute-sanitizer is not installed; racecheck: not run" in page


def test_a_part_that_fails_costs_its_own_section_alone(
    device: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device["gpu_equivalence.py"] = RuntimeError("gpu_equivalence.py ended with exit code 1, its error stands above")
    code, kept, page = run(monkeypatch, tmp_path)
    assert code == 1
    assert "equivalence" not in kept
    assert "This part failed: gpu_equivalence.py ended with exit code 1" in page
    assert "seed unknown" in page
    assert "- refused by both (1): item" in page
    assert "gpu_run: equivalence: gpu_equivalence.py ended" in capsys.readouterr().err


def test_a_program_that_fails_names_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match=r"^capture_list.py ended with exit code 2, its error stands above$"):
        gpu_run.program("capture_list.py", "--nonsense")


def test_the_page_has_a_word_for_every_kind_of_run() -> None:
    sys.path.insert(0, str(gpu_run.TESTS))
    import gpu_equivalence

    assert MEANING.keys() == gpu_equivalence.KINDS.keys()
    assert gpu_equivalence.buckets_of(13) == [1, 2, 4, 8, 13]
