"""What a GPU run keeps of the gate's report, tried with a report of its twin on a CPU."""

import json

import pytest

from frontier_oracle.cuda_impl import gpu_run
from frontier_oracle.cuda_impl.gpu_table import gate_section
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
