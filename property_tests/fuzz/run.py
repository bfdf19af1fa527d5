"""``run_fuzz``: opens ledger and pool, replays what the corpus has of the system, runs, and says what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from frontier_oracle.property_tests import corpus
from frontier_oracle.property_tests.fuzz.ledger import Ledger, path_of
from frontier_oracle.property_tests.fuzz.pool import Here, Pool, Processes
from frontier_oracle.property_tests.fuzz.results import FuzzReport, Progress, Replayed
from frontier_oracle.property_tests.fuzz.session import Limits, Session
from frontier_oracle.property_tests.fuzz.space import known_pairs, rules_of
from frontier_oracle.property_tests.fuzz.units import Plan, loaded
from frontier_oracle.property_tests.gate.environment import environment
from frontier_oracle.property_tests.gate.judged import judge
from frontier_oracle.property_tests.gate.results import DIVERGENCE, EQUAL, NOTHING_RAN
from frontier_oracle.property_tests.gate.system import SystemUnderTest


@dataclass(frozen=True)
class FuzzOptions:
    """folder: the corpus, with the ledger in it; jobs: worker processes, 0 for one a core, 1 for none; ray: address of
    a cluster, "" for none (jobs then counts the CPUs of a cluster started here)."""

    plan: Plan
    folder: Path
    limits: Limits = Limits()
    jobs: int = 0
    ray: str = ""


def run_fuzz(options: FuzzOptions, progress: Progress | None = None) -> FuzzReport:
    """Fuzz until a limit or an interrupt. What was entered by then is on disk, whatever ends the run. Raises UsageError
    for bad options, for an adapter that raises, and for files that are none of a corpus."""
    progress = progress or Progress()
    progress.known_pairs = known_pairs()
    system = loaded(options.plan.system)
    session = Session(options.plan, options.folder, options.limits, progress)
    with closing(Ledger(path_of(options.folder, options.plan), options.plan)) as ledger:
        interrupted, replayed = False, list[Replayed]()
        try:
            for result in _replay_corpus(options.folder, system, progress):
                replayed.append(result)
            session.kept = frozenset(Path(result.path).name for result in replayed)
            session.run(ledger, partial(_pool, options))
        except KeyboardInterrupt:
            interrupted = True
        return _report(options, session, ledger, tuple(replayed), interrupted)


def _replay_corpus(folder: Path, system: SystemUnderTest, progress: Progress) -> Iterator[Replayed]:
    """The system's own files, one after the other."""
    for file in corpus.read(folder):
        if file.repro.system == system.name:
            progress.label = f"replaying {file.path.name}"
            progress.on_change(progress)
            judged = judge(system, file.repro.scenario, guard=True)
            code = file.repro.finding.code if file.repro.finding else ""
            yield Replayed(str(file.path), code, bool(judged.undeclared))


def _pool(options: FuzzOptions) -> Pool:
    if options.ray:
        from frontier_oracle.property_tests.fuzz.ray_pool import Cluster

        return Cluster(options.ray, options.jobs)
    jobs = options.jobs or os.cpu_count() or 1
    return Here() if jobs == 1 else Processes(jobs)


def _report(
    options: FuzzOptions, session: Session, ledger: Ledger, replayed: tuple[Replayed, ...], interrupted: bool
) -> FuzzReport:
    findings = tuple(session.findings[name] for name in sorted(session.findings))
    still = [r for r in replayed if r.still]
    verdict = DIVERGENCE if findings or still or ledger.open else EQUAL if session.rounds else NOTHING_RAN
    rules = rules_of(ledger.pairs)
    report = FuzzReport(
        verdict=verdict,
        sentence="",
        system=options.plan.system,
        seed=options.plan.seed,
        guided=options.plan.guided,
        units=session.units,
        scenarios=session.scenarios,
        rounds=session.rounds,
        all_units=ledger.units,
        all_rounds=ledger.rounds,
        rules=rules,
        pairs=len(ledger.pairs),
        known_pairs=max(known_pairs(), len(ledger.pairs)),
        findings=findings,
        met=dict(sorted(ledger.met.items())),
        replayed=replayed,
        pending=tuple((raw.code, raw.scenario) for _, raw in ledger.open),
        interrupted=interrupted,
        corpus=str(options.folder),
        environment=environment(),
        seconds=time.monotonic() - session.started,
    )
    return replace(report, sentence=sentence(report))


def sentence(report: FuzzReport) -> str:
    """The verdict in words."""
    units = f"{report.units:,} unit{'s' * (report.units != 1)}"
    over = f"{report.rounds:,} request-rounds ({report.scenarios:,} scenarios in {units})"
    ended = "Interrupted. " if report.interrupted else ""
    if report.verdict == NOTHING_RAN:
        return f"{ended}Nothing ran: no unit was finished."
    if report.verdict == EQUAL:
        met = f"{len(report.rules)} rules met in {report.pairs:,} of {report.known_pairs:,} known situations"
        return f"{ended}Equal: {report.system} kept its books over {over}; {met}."
    still = sum(r.still for r in report.replayed)
    parts = [f"{len(report.findings)} new findings" if len(report.findings) != 1 else "1 new finding"]
    parts += [f"{still} of {len(report.replayed)} in the corpus still there"] if report.replayed else []
    parts += [f"{len(report.pending)} not made small yet"] if report.pending else []
    return f"{ended}Divergence: {report.system} over {over}: {', '.join(parts)}."
