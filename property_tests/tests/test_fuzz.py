"""Fuzzing: one seed gives the same findings whoever runs it, whatever ends it; what is found is kept and replayed."""

import json
import re
import signal
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import Popen

import pytest

from frontier_oracle.oracle import repro
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.property_tests import corpus
from frontier_oracle.property_tests.fuzz.ledger import Ledger, path_of
from frontier_oracle.property_tests.fuzz.pool import Job
from frontier_oracle.property_tests.fuzz.results import FuzzReport, Progress
from frontier_oracle.property_tests.fuzz.run import FuzzOptions, run_fuzz
from frontier_oracle.property_tests.fuzz.session import Limits, Session
from frontier_oracle.property_tests.fuzz.units import Plan, drawn, loaded, run_unit, shrunk
from frontier_oracle.property_tests.gate.corpus_check import replayed, texts
from frontier_oracle.property_tests.gate.system import resolve
from frontier_oracle.property_tests.tests.fuzz_targets import DYING, FAULTY, RAISING, start

EXACT = Plan("frontier", 5, True, 2)
BROKEN = Plan(FAULTY, 5, True, 2, 12)


def fuzz(folder: Path, plan: Plan, rounds: int | None, jobs: int = 1, seconds: float | None = None) -> FuzzReport:
    return run_fuzz(FuzzOptions(plan, folder, Limits(seconds, rounds), jobs))


def lines(folder: Path, plan: Plan) -> list[dict[str, object]]:
    return [json.loads(line) for line in path_of(folder, plan).read_text().splitlines()]


def done(folder: Path, plan: Plan) -> list[dict[str, object]]:
    return [line for line in lines(folder, plan) if line["type"] == "unit"]


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.suffix in (".json", ".txt")}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FuzzReport]:
    """A run on a faulty system, in this process."""
    folder = tmp_path_factory.mktemp("corpus")
    return folder, fuzz(folder, BROKEN, 120)


# ---- units ----------------------------------------------------------------------------------------------------------


def test_a_unit_is_a_function_of_plan_and_number() -> None:
    system = loaded("frontier")
    texts_ = [[render(s) for s in drawn(EXACT, index, system)] for index in (0, 1, 0)]
    assert texts_[0] == texts_[2] != texts_[1]
    for other in (replace(EXACT, seed=6), replace(EXACT, guided=False, scenarios=8)):
        assert [render(s) for s in drawn(other, 0, system)] != texts_[0]
    assert run_unit(BROKEN, 1) == run_unit(BROKEN, 1)


def test_units_do_not_overlap() -> None:
    plan, system = Plan("frontier", 5, False, 4), loaded("frontier")
    drawn_ = [render(s) for index in range(6) for s in drawn(plan, index, system)]
    assert len(set(drawn_)) == len(drawn_) == 24


def test_a_finding_that_was_mended_is_none() -> None:
    raw = next(raw for index in range(20) for raw in run_unit(BROKEN, index).raw)
    small = shrunk(BROKEN, raw)
    assert small is not None and small.code == raw.code and small.story
    assert shrunk(EXACT, raw) is None


def test_a_system_that_raises_is_told_with_its_scenario() -> None:
    with pytest.raises(UsageError, match=r"raised in decode.*ValueError: bad index.*; unit \d+ of seed 5, scenario 'k"):
        for index in range(9):
            run_unit(Plan(RAISING, 5, False, 4), index)


# ---- runs -----------------------------------------------------------------------------------------------------------


def test_an_exact_system_has_no_finding(tmp_path: Path) -> None:
    report = fuzz(tmp_path, EXACT, 60)
    assert (report.verdict, report.findings, report.pending) == ("equal", (), ())
    assert report.rounds >= 60 and report.scenarios == 2 * report.units == sum(
        u["scenarios"] for u in done(tmp_path, EXACT)
    )
    assert {"S4", "S17", "S19"} <= set(report.rules) and 100 < report.pairs < report.known_pairs
    assert re.match(r"Equal: frontier kept its books over [\d,]+ request-rounds", report.sentence)
    assert list(files(tmp_path)) == []


def test_findings_are_small_told_and_kept(found: tuple[Path, FuzzReport]) -> None:
    folder, report = found
    assert report.verdict == "divergence" and report.findings and not report.pending
    assert {f.code for f in report.findings} == set(report.met)
    for finding in report.findings:
        path = Path(finding.repro)
        kept = repro.read(path)
        assert kept.system == FAULTY and kept.finding is not None and kept.finding.code == finding.code
        assert path.name == corpus.name_of(finding.code, FAULTY, repro.fingerprint(kept.scenario))
        assert path.with_suffix(".txt").read_text().startswith(finding.code)
        assert len(render(parse(finding.scenario))) < len(finding.original)
    assert len(files(folder)) == 2 * len(report.findings)


def test_processes_find_what_one_process_finds(tmp_path: Path, found: tuple[Path, FuzzReport]) -> None:
    folder, report = found
    again = fuzz(tmp_path, BROKEN, 120, jobs=2)
    assert files(tmp_path) == files(folder)
    assert done(tmp_path, BROKEN) == done(folder, BROKEN)
    assert (again.rounds, again.pairs, again.met) == (report.rounds, report.pairs, report.met)
    assert [f.scenario for f in again.findings] == [f.scenario for f in report.findings]


def test_a_run_goes_on_where_the_last_one_ended(tmp_path: Path, found: tuple[Path, FuzzReport]) -> None:
    folder, report = found
    first = fuzz(tmp_path, BROKEN, 40)
    second = fuzz(tmp_path, BROKEN, report.rounds - first.rounds)
    assert second.units > 0 and first.units + second.units == second.all_units == report.units
    assert first.rounds + second.rounds == second.all_rounds == report.rounds
    assert files(tmp_path) == files(folder) and done(tmp_path, BROKEN) == done(folder, BROKEN)
    new = {f.repro for f in first.findings} & {f.repro for f in second.findings}
    assert not new, "what the corpus had before is not new"


def test_findings_left_in_the_corpus_fail_a_run_until_they_are_gone(tmp_path: Path) -> None:
    fuzz(tmp_path, BROKEN, 60)
    again = fuzz(tmp_path, BROKEN, 1)
    assert again.replayed and all(r.still for r in again.replayed) and again.verdict == "divergence"
    name = next(path for path in tmp_path.glob("*.json"))
    mended = replace(repro.read(name), system="frontier")
    fresh = tmp_path / "fresh"
    repro.write(fresh / name.name, mended)
    report = fuzz(fresh, EXACT, 1)
    assert [r.still for r in report.replayed] == [False] and report.verdict == "equal"


def test_time_ends_a_run_after_a_unit(tmp_path: Path) -> None:
    report = fuzz(tmp_path, EXACT, None, seconds=0.0)
    assert report.units == 1 and report.verdict == "equal"


@dataclass
class OneByOne:
    """A pool of three workers that are done in turn."""

    capacity: int = 3
    submitted: list[Job] = field(default_factory=list)
    flying: list[Job] = field(default_factory=list)

    def submit(self, job: Job) -> None:
        assert len(self.flying) < self.capacity, "handed out ahead"
        self.submitted.append(job)
        self.flying.append(job)

    def ready(self, seconds: float) -> list[tuple[Job, object]]:
        job = self.flying.pop(0)
        return [(job, job.call(*job.args))]

    def stop(self) -> None:
        pass


def with_pool(folder: Path, plan: Plan, limits: Limits) -> tuple[OneByOne, Session]:
    pool, session = OneByOne(), Session(plan, folder, limits, Progress())
    with closing(Ledger(path_of(folder, plan), plan)) as ledger:
        session.run(ledger, lambda: pool)
    return pool, session


def test_units_under_way_when_time_is_up_are_finished(tmp_path: Path) -> None:
    pool, session = with_pool(tmp_path, EXACT, Limits(seconds=0.0))
    assert len(pool.submitted) == session.units == 3 and not pool.flying
    assert [line["unit"] for line in done(tmp_path, EXACT)] == list(range(session.units))


def test_what_they_find_is_made_small(tmp_path: Path) -> None:
    _, session = with_pool(tmp_path, BROKEN, Limits(seconds=0.0))
    assert session.findings and {f.code for f in session.findings.values()} == set(session.ledger.met)


def test_units_past_the_rounds_asked_for_are_dropped(tmp_path: Path) -> None:
    pool, session = with_pool(tmp_path, EXACT, Limits(rounds=1))
    assert session.units == 1 < len(pool.submitted)


def test_progress_is_told(tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    progress = Progress(on_change=lambda p: seen.append((p.units, p.rounds, p.pairs)))
    run_fuzz(FuzzOptions(EXACT, tmp_path, Limits(rounds=40), 1), progress)
    assert seen == sorted(seen) and seen[-1][0] >= 2 and progress.known_pairs > 1000 and progress.rules > 5


def test_a_worker_that_dies_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a worker died, in one of unit 0.*-j 1 shows where"):
        fuzz(tmp_path, Plan(DYING, 5, True, 2), 100, jobs=2)


# ---- a run in a process of its own, killed --------------------------------------------------------------------------


def whole(folder: Path) -> None:
    """Only whole files: every repro file reads, and has its explanation."""
    for path in folder.glob("*.json"):
        repro.read(path)
        assert path.with_suffix(".txt").exists()


def wait_for(process: Popen[str], units: int) -> None:
    for line in process.stdout:
        if int(line.split()[0]) >= units:
            return


def test_killed_at_any_moment_it_goes_on(tmp_path: Path, found: tuple[Path, FuzzReport]) -> None:
    folder, report = found
    for units in (1, 4):
        process = start(FAULTY, tmp_path, 10**6)
        wait_for(process, units)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()
        whole(tmp_path)
        kept = done(tmp_path, BROKEN)
        assert [line["unit"] for line in kept] == list(range(len(kept)))
    before = sum(int(str(line["rounds"])) for line in done(tmp_path, BROKEN))
    if before < report.rounds:
        last = fuzz(tmp_path, BROKEN, report.rounds - before)
        assert last.all_rounds == report.rounds
        assert files(tmp_path) == files(folder) and done(tmp_path, BROKEN) == done(folder, BROKEN)
    whole(tmp_path)


def test_interrupted_it_saves_and_says_so(tmp_path: Path) -> None:
    process = start("frontier", tmp_path, 10**6)
    wait_for(process, 2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert re.search(r"^interrupted (\d+)$", out, re.MULTILINE)
    assert len(done(tmp_path, replace(EXACT, tries=12))) >= 2


# ---- the gate -------------------------------------------------------------------------------------------------------


def test_the_gate_replays_a_corpus(found: tuple[Path, FuzzReport]) -> None:
    folder, report = found
    files_ = texts(folder)
    check, _ = replayed(resolve(FAULTY), files_)
    assert check.failed and check.cases == len(files_) == len(check.findings)
    assert {f.repro for f in check.findings} == {str(path) for path in folder.glob("*.json")}
    assert all(f.story and f.replay for f in check.findings)
    mended, _ = replayed(resolve("frontier"), files_)
    assert not mended.failed and mended.cases == len(files_) and mended.request_rounds > 0


def test_the_gate_skips_an_empty_corpus_and_refuses_none(tmp_path: Path) -> None:
    check, _ = replayed(resolve("frontier"), texts(tmp_path))
    assert check.skipped == "no repro file in it" and check.cases == 0
    with pytest.raises(UsageError, match="no such directory"):
        texts(tmp_path / "none")


# Written by the first version of this project that wrote repro files.
OLD = """{"format": "frontier-oracle/repro", "version": 1, "scenario": "k4 page4 | a: p9 | a3, a1",
"spec": {"k": 4, "steps": 3, "hidden": "chain", "conv_width": 4, "groups": [{"page_size": 4, "window": null}],
"ring_rows": 7}, "hidden_size": 8, "slots": 4, "events": [{"type": "admit", "name": "a", "prompt": 9, "chunks": [],
"like": null, "held": false}, {"type": "decode", "rows": [["a", 3]], "bucket": null}, {"type": "decode", "rows":
[["a", 1]], "bucket": null}], "fingerprint": "2a5001eac8165bd8", "system": "cli_adapters:ids_at_accept", "seed": 3,
"tool_version": "0.1.0", "policy": "successor", "finding": {"code": "FO101", "round": 1, "request": "a", "depth": 0,
"position": 9, "detail": {"expected": 1, "got": 2}}}
"""


def test_a_file_of_an_older_version_replays_or_says_why_not(tmp_path: Path) -> None:
    path = tmp_path / "FO101-old.json"
    path.write_text(OLD)
    check, _ = replayed(resolve("frontier_oracle.property_tests.tests.cli_adapters:ids_at_accept"), texts(tmp_path))
    assert [f.code for f in check.findings] == ["FO101"]
    for edit, why in (
        (('"version": 1', '"version": 0'), "version 0 does not exist"),
        (('"version": 1', '"version": 9'), "version 9 is newer than 1"),
        (("a: p9 | a3", "a: p9 | a9"), "accept length 9 of request a is outside 1..4"),
    ):
        path.write_text(OLD.replace(*edit))
        with pytest.raises(UsageError) as caught:
            texts(tmp_path)
        assert str(caught.value).startswith(str(path)) and why in str(caught.value) and "\n" not in str(caught.value)
