"""The gate: what it runs, how shards and verdicts are put together, and that a faulty system turns it red."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.language import parse
from frontier_oracle.property_tests import inductive
from frontier_oracle.property_tests.gate import checks, run
from frontier_oracle.property_tests.gate.judged import judge, report_failure
from frontier_oracle.property_tests.gate.profiles import PROFILES, Profile
from frontier_oracle.property_tests.gate.results import DIVERGENCE, EQUAL, NOTHING_RAN, CheckResult, FindingReport
from frontier_oracle.property_tests.gate.system import SystemUnderTest, resolve
from frontier_oracle.property_tests.registry import HardwareMissing
from frontier_oracle.reference_impl.frontier import Frontier

TINY = Profile("dev", 8, 600, ((2, 3),), ((4, 500),), 32, 2, 3)
THIRTY_EVENTS = "k4 page4 | a: p9 chunks 4,5 | b: p7 | " + ", ".join(
    f"a{1 + i % 4} b{1 + i % 3}" if i % 2 else f"b{1 + i % 4}" for i in range(28)
)


class OffByOne(Frontier):
    """Reads the stash and the verify rows one row late: the splice at accept instead of accept - 1."""

    def window_source_rows(self, accept_lengths):  # type: ignore[no-untyped-def]
        return (super().window_source_rows(accept_lengths) + 1).clamp(max=2 * self.k - 2)


def faulty() -> SystemUnderTest:
    return replace(resolve("frontier"), name="off_by_one", factory=OffByOne)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROFILES, "dev", TINY)
    monkeypatch.setattr(inductive, "inductive_specs", lambda profile: [inductive.aligned(3, 2)])


@pytest.mark.usefixtures("tiny")
def test_a_green_run_says_what_it_checked_and_what_it_does_not_prove() -> None:
    told: list[str] = []
    progress = run.Progress(on_change=lambda p, label: told.append(f"{p.done}/{p.total} {label}"))
    report = run.run_gate(run.GateOptions(profile="dev", jobs=1, mutants=False), progress)
    assert report.verdict == EQUAL, report.sentence
    full, light = ([s.name for s in report.systems if s.light is wanted] for wanted in (False, True))
    assert full == ["frontier", "tokenspeed_frontier"] and light == ["cuda_eager", "cuda_tape", "minimal"]
    work = {s.name: sum(c.request_rounds for c in s.checks if c.kind == "random") for s in report.systems}
    assert work["cuda_eager"] < work["frontier"]
    assert "Equal: frontier and tokenspeed_frontier kept their books over " in report.sentence
    assert ", cuda_eager, cuda_tape and minimal in a light run too; inductive" in report.sentence
    kinds = {check.kind for system in report.systems for check in system.checks}
    drawn = {"random", "exhaustive", "bulk", "traces", "known"}
    assert kinds == drawn | {"inductive", "base", "determinism", "replays", "refusals"}
    assert {d.id for d in report.deviations if d.seen} == {
        "mid_chunk_tail",
        "short_prompt",
        "short_chunk_after_hit",
        "donor_continuation",
    }
    assert "Not proven" in report.sentence and told[-1].startswith(f"{progress.total}/{progress.total}")


def test_with_cuda_the_systems_for_a_gpu_are_among_the_built_in_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(HardwareMissing, match="cuda_graph needs a CUDA device"):
        run.run_gate(run.GateOptions(cuda=True))


def test_unknown_profile_and_system_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="unknown profile 'fast'"):
        run.run_gate(run.GateOptions(profile="fast"))
    with pytest.raises(UsageError, match="unknown system"):
        run.run_gate(run.GateOptions(systems=("fronteer",)))


def test_a_fault_is_found_by_every_kind_of_check() -> None:
    system = faulty()
    found = [
        checks.known(system),
        checks.random(system, 0, 0, 4),
        checks.exhaustive(system, 3, 2),
        checks.bulk(system, 0, 600),
        checks.traces(system, [(1, 3, 2, 4)], 4, 32, 100),
    ]
    for check, _ in found:
        assert check.failed, check.id
        assert all(f.replay.startswith("frontier-oracle replay --system off_by_one ") for f in check.findings)


def test_thirty_events_shrink_to_a_handful_for_the_same_code() -> None:
    system, scenario = faulty(), parse(THIRTY_EVENTS)
    judged = judge(system, scenario)
    report = report_failure(system, scenario, judged)
    small = parse(report.scenario)
    assert len(scenario.events) == 30 and len(small.events) <= 4
    assert report.code == judged.undeclared[0].code and report.original.startswith("k4 page4")
    again = judge(system, small).undeclared[0]
    assert (again.code, again.round, again.position) == (report.code, report.round, report.position)


def test_a_declared_deviation_does_not_fail_and_its_absence_does() -> None:
    published = resolve("tokenspeed_frontier")
    scenario = parse("k4 page4 | a: p12 chunks 5,5,2 | a1")
    judged = judge(published, scenario)
    assert not judged.undeclared and judged.seen == {"mid_chunk_tail"}
    better = replace(published, factory=resolve("frontier").factory)
    absent = judge(better, scenario)
    assert absent.undeclared and "did not happen" in absent.undeclared[0].detail["because"]


def test_what_a_system_does_not_claim_is_not_asked_of_it() -> None:
    plain = replace(resolve("frontier"), capabilities=frozenset({"extend", "stash"}))
    check, _ = checks.known(plain)
    assert check.cases < len(checks.KNOWN) and "does not claim" in check.notes[0]


def test_shards_cover_everything_once_and_merge() -> None:
    assert [list(range(f, f + n)) for f, n in checks.shards(7, 3)] == [[0, 1], [2, 3], [4, 5, 6]]
    one = FindingReport("FO101", "wrong token", "S1", False, 0, "a", 0, 0)
    parts = [CheckResult("random", "random", 2, 5, (one,)), CheckResult("random", "random", 3, 7, (one,))]
    merged = run._merged(parts)
    assert len(merged) == 1 and (merged[0].cases, merged[0].request_rounds, len(merged[0].findings)) == (5, 12, 1)


def test_nothing_ran_is_not_green() -> None:
    assert run._verdict([], [], [])[0] == NOTHING_RAN


def test_a_surviving_mutant_turns_the_verdict() -> None:
    from frontier_oracle.property_tests.gate.results import MutantResult, SystemResult

    systems = [SystemResult("frontier", (CheckResult("known", "known", 1, 1),))]
    survivor = MutantResult("m", "frontier", "FO101", "")
    wrong_code = MutantResult("n", "frontier", "FO101", "FO201")
    for mutant in (survivor, wrong_code):
        assert run._verdict(systems, [mutant], [])[0] == DIVERGENCE


class WrongInBigBatches(Frontier):
    """Right for up to 64 rows: beyond them the last row reads its stash one entry late."""

    def window_source_rows(self, accept_lengths):  # type: ignore[no-untyped-def]
        rows = super().window_source_rows(accept_lengths)
        return rows if len(rows) <= 64 else (rows + 1).clamp(max=2 * self.k - 2)


def test_what_fails_only_in_a_batch_says_so() -> None:
    system = replace(resolve("frontier"), name="big", factory=WrongInBigBatches)
    check, _ = checks.exhaustive(system, 3, 5)
    assert check.failed and "only in a batch" in check.findings[0].detail["because"]
    assert check.findings[0].code in checks.BATCH_CODES.values()
