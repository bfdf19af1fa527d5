"""What the inductive step hands to the gate: one finding, replayable where a scenario leads into a failing state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frontier_oracle.oracle.judge import ORDER
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.scenario import validate
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.gate.system import SystemUnderTest, resolve
from frontier_oracle.property_tests.inductive import base_check, inductive_check
from frontier_oracle.property_tests.inductive_reports import CODES, code_of, leading_in, report_cases
from frontier_oracle.property_tests.inductive_step import InductiveResult, run_inductive
from frontier_oracle.property_tests.mutants.planting import FRONTIER, PLANTED
from frontier_oracle.property_tests.mutants.survey import mutant_of

NATURAL = Spec(4, groups=(CacheGroup(4), CacheGroup(4, 4)))
SHALLOW = Spec(6, 1, groups=(CacheGroup(4),))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frontier_oracle.property_tests.gate.judged.SHRINK_SECONDS", 1.0)


def faulty(id_: str) -> SystemUnderTest:
    assert id_ in PLANTED
    return replace(resolve(FRONTIER), name=id_, factory=mutant_of(id_).system(FRONTIER))


def found(id_: str, *specs: Spec):  # type: ignore[no-untyped-def]
    system = faulty(id_)
    results = [run_inductive(system.factory, spec) for spec in specs]
    assert all(result.failures for result in results)
    return report_cases(system, results)


@pytest.mark.parametrize("id_", ["ids_at_accept", "stash_not_rolled", "sample_accept_row", "column0_last"])
def test_a_replayable_case_is_reported_alone_by_the_rule_that_names_it(id_: str) -> None:
    (finding,) = found(id_, NATURAL, Spec(3))
    assert finding.code == mutant_of(id_).code and finding.replay and finding.story


def test_a_state_behind_a_prefix_hit_is_replayed_by_a_hit() -> None:
    (finding,) = found("valid_length_after_write", SHALLOW)
    assert finding.code == "FO209" and " hit " in finding.scenario


def test_what_no_scenario_leads_to_is_told_in_words_once() -> None:
    """With steps = k-1 a hit leaves more than the stash holds: no scenario has a short one."""
    (finding,) = found("valid_length_after_write", NATURAL, Spec(3, groups=(CacheGroup(4),)))
    assert (finding.code, finding.scenario, finding.replay) == ("FO209", "", "")
    assert finding.detail["spec"] == "k4 page4,4w4" and "Spec(" not in str(finding.detail)
    assert finding.detail["inductive"].startswith("one round from the state a = ")
    assert "configurations 2;" in finding.detail["failing"]


def test_the_code_is_the_judge_s_first_and_stale_only_if_nothing_else_fits() -> None:
    told = [
        (1, 0, 1, "KV of depth 0, position 3"),
        (1, 0, 2, "stash"),
        (2, 0, 3, "column 0 is not the last committed token"),
    ]
    system = resolve(FRONTIER)
    assert [f.code for f in report_cases(system, [InductiveResult(NATURAL, failures=told)])] == ["FO106"]
    assert [f.code for f in report_cases(system, [InductiveResult(NATURAL, failures=told[:2])])] == ["FO206"]
    assert [f.code for f in report_cases(system, [InductiveResult(NATURAL, failures=told[:1])])] == ["FO201"]
    assert report_cases(system, []) == []


def test_every_difference_has_a_code_of_the_judge_s_order() -> None:
    assert set(CODES.values()) <= set(ORDER)
    assert code_of("KV of depth 1, shared page, position 3") == "FO209"
    assert code_of("stash of a slot that no one in the batch has") == "FO206"
    assert code_of("KV of depth 1, no one's cell") == "FO204"
    assert code_of("decode() returned int64 [2, 4], expected int32 [2, 4]") == "FO401"


def test_scenarios_that_lead_in_are_legal_and_few() -> None:
    system = faulty("valid_length_after_write")
    for spec in (NATURAL, SHALLOW, Spec(3, 3, groups=(CacheGroup(2), CacheGroup(3, 4)))):
        scenarios = list(leading_in(system, run_inductive(system.factory, spec)))
        assert len(scenarios) <= 7
        for scenario in scenarios:
            validate(scenario)
            assert parse(render(scenario)) == scenario


def test_a_fault_of_every_configuration_is_one_finding_of_the_check() -> None:
    check, _ = inductive_check(faulty("ids_at_accept"), "dev")
    assert check.failed and len(check.findings) == 1


def test_the_base_reports_each_code_once() -> None:
    check, _ = base_check(faulty("ids_not_shifted"), "dev")
    codes = [finding.code for finding in check.findings]
    assert codes and len(set(codes)) == len(codes)
