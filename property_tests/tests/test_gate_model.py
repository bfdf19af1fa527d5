"""The gate's part on a real model: it says what it saw, and each of its faults turns it red."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from torch import Tensor

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.gate import model, run
from frontier_oracle.property_tests.gate.profiles import PROFILES
from frontier_oracle.property_tests.gate.results import DIVERGENCE, EQUAL, CheckResult, MutantResult
from frontier_oracle.property_tests.gate.system import resolve as resolve_system
from frontier_oracle.property_tests.render import jsonout, markdown, table
from frontier_oracle.property_tests.simulate import drafters
from frontier_oracle.property_tests.simulate.drafters import Named
from frontier_oracle.property_tests.simulate.lossless import relaxed
from frontier_oracle.property_tests.simulate.run import simulate
from frontier_oracle.property_tests.tests.gate_reports import GREEN
from frontier_oracle.property_tests.tests.small_model import OPTIONS, prompts, small_model
from frontier_oracle.reference_impl.frontier import Frontier


def judged() -> model.ModelResult:
    return model.judge_served(small_model(), prompts(5, 21), OPTIONS)


def test_a_green_part_says_what_it_saw() -> None:
    result = judged()
    assert [check.id for check in result.checks] == [
        "serve frontier",
        "serve tokenspeed_lookback",
        "serve tokenspeed_unrepaired",
    ]
    assert not any(check.failed for check in result.checks)
    assert result.fault == MutantResult(model.FAULT, "frontier", "FO501", "FO501", rounds=result.fault.rounds)
    assert "every output is the target's own" in result.opening and "stale entries change it by" in result.opening
    assert "drafts as recomputed in" in result.checks[0].notes[0]


def test_a_drafter_with_a_wrong_book_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stale(Frontier):
        def next_stash(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
            return ids[:, :-1], hidden[:, :-1]

    monkeypatch.setitem(drafters.BUILT_IN, "frontier", f"{__name__}:make_stale")
    monkeypatch.setattr(
        model, "resolve", lambda name: Named(name, Stale) if name == "frontier" else drafters.resolve(name)
    )
    (finding,) = judged().checks[0].findings
    assert finding.code == "FO201" and "were not drafted as from scratch" in finding.detail["because"]


def test_an_output_that_is_not_the_targets_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def lossy(*args: object) -> object:
        return simulate(*args[:4], relaxed)  # type: ignore[arg-type]

    monkeypatch.setattr(model, "simulate", lossy)
    result = judged()
    assert {f.code for check in result.checks for f in check.findings} >= {"FO501"}
    assert "OUTPUTS DIFFER" in result.opening


def test_a_part_that_tests_nothing_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "STALE", "minimal")
    (finding,) = judged().checks[-1].findings
    assert "nothing was tested" in finding.detail["because"]


def test_without_weights_nothing_passes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="safetensors there"):
        model.serve_text(2, 4, tmp_path)


def test_the_text_is_the_packages_own() -> None:
    served = model.source_prompts(4)
    assert len({p.category for p in served}) == 4
    assert all(name.endswith(".py") for name in {p.category for p in served})
    assert {len(p.tokens) for p in served} == {model.PROMPT_TOKENS}


def test_the_gate_opens_with_it_and_fails_with_it() -> None:
    frontier = resolve_system("frontier")
    work = [run.Task("known", "frontier", lambda: None), run.Task("real text", run.MODEL, lambda: None)]
    known = (CheckResult("known", "known", 1, 1), frozenset[str]())
    served = judged()
    options = run.GateOptions(profile="dev")
    report = run._report(options, [frontier], frozenset(), work, [known, served], 1.0)
    assert report.verdict == EQUAL and report.opening.startswith("On a real model")
    assert report.systems[-1].name == run.MODEL and "no design changes its output" in report.sentence
    assert report.mutants == (served.fault,)
    bad = replace(served, checks=(replace(served.checks[0], findings=(judged_finding(),)),))
    assert run._report(options, [frontier], frozenset(), work, [known, bad], 1.0).verdict == DIVERGENCE
    survivor = replace(served, fault=replace(served.fault, got=""))
    assert run._report(options, [frontier], frozenset(), work, [known, survivor], 1.0).verdict == DIVERGENCE


def test_the_ci_profile_serves_the_model_where_no_system_is_named() -> None:
    assert all(PROFILES[name].served[0] for name in ("dev", "ci", "nightly"))


def judged_finding() -> model.FindingReport:
    return model.reported(model.Finding("FO501", 0, "p0"))


def test_every_report_opens_with_it() -> None:
    report = replace(GREEN, opening="On a real model: so it was.")
    assert jsonout.as_data(report)["opening"] == report.opening
    for text in (table.render(report), markdown.render(report)):
        assert text.index(report.opening) < text.index("request-rounds")
