"""The gate run: tasks over systems, done by a few processes, put together in a fixed order into one report."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.gate import checks, shrink_budget
from frontier_oracle.property_tests.gate.corpus_check import replayed, texts
from frontier_oracle.property_tests.gate.environment import environment
from frontier_oracle.property_tests.gate.model import serve_text
from frontier_oracle.property_tests.gate.profiles import PROFILES, Profile
from frontier_oracle.property_tests.gate.refusals import refusals
from frontier_oracle.property_tests.gate.results import (
    DIVERGENCE,
    EQUAL,
    NOTHING_RAN,
    CheckResult,
    DeviationSeen,
    GateReport,
    ModelResult,
    MutantResult,
    SystemResult,
)
from frontier_oracle.property_tests.gate.shrink_budget import Budgets
from frontier_oracle.property_tests.gate.system import SystemUnderTest, resolve
from frontier_oracle.property_tests.inductive import base_check, inductive_check
from frontier_oracle.property_tests.mutants.survey import cases, survey
from frontier_oracle.property_tests.registry import DEFAULT, EAGER, LIGHT, NEED_CUDA
from frontier_oracle.property_tests.workers import no_interrupts, start_worker
from frontier_oracle.reports.traces import bundled_path, read_accept_lengths, read_directory

NOT_PROVEN = "Not proven: attention and rotary numerics, samplers, quantised KV, and the model's own quality."
MODEL = "bundled model"


@dataclass(frozen=True)
class GateOptions:
    """What to run. systems: names, each with the whole profile, () for the built-in ones, some of them with its light
    form; cuda: among these the ones that need a CUDA device; traces: a directory of accept sequences beside the bundled
    ones; jobs: worker processes, 0 for one a core; corpus: a directory of repro files to replay."""

    systems: tuple[str, ...] = ()
    profile: str = "ci"
    seed: int = 0
    traces: Path | None = None
    jobs: int = 0
    mutants: bool = True
    cuda: bool = False
    corpus: Path | None = None


@dataclass(frozen=True)
class Task:
    """One piece of work for a worker: ``call`` is a module-level function, its first argument a system name or None."""

    label: str
    system: str | None
    call: Callable[..., Any]
    args: tuple[Any, ...] = ()


@dataclass
class Progress:
    """Told after each task; the CLI shows it. ``total`` is known before the first."""

    total: int = 0
    done: int = 0
    on_change: Callable[[Progress, str], None] = field(default=lambda progress, label: None)


def run_gate(options: GateOptions, progress: Progress | None = None) -> GateReport:
    """Run every check of a profile on every system, and the mutants. Raises UsageError for bad options or adapters."""
    started = time.perf_counter()
    progress = progress or Progress()
    profile = PROFILES.get(options.profile)
    if profile is None:
        raise UsageError(f"unknown profile {options.profile!r}: known are {', '.join(PROFILES)}")
    built_in = DEFAULT + (NEED_CUDA if options.cuda else ())
    systems = [resolve(name) for name in dict.fromkeys(options.systems or built_in)]
    light = frozenset(() if options.systems else LIGHT)
    sequences = trace_sequences(options.traces)
    files = None if options.corpus is None else texts(options.corpus)
    work = []
    for system in systems:
        amount = profile.light() if system.name in light else profile
        work += list(system_tasks(system, amount, options.seed, sequences))
        work += [] if files is None else [Task("corpus", system.name, replayed, (files,))]
    jobs = options.jobs or os.cpu_count() or 1
    if not options.systems and profile.served[0]:
        work.append(Task("real text", MODEL, serve_text, profile.served))
    if options.mutants:
        parts = _parts(len(cases()), max(profile.shards, jobs))
        work += [Task("mutants", None, survey, (options.seed, part)) for part in parts]
    progress.total = len(work)
    outcomes = _run_all(work, jobs, progress, [system.name for system in systems])
    return _report(options, systems, light, work, outcomes, time.perf_counter() - started)


def system_tasks(
    system: SystemUnderTest, profile: Profile, seed: int, sequences: Sequence[Sequence[int]]
) -> Iterator[Task]:
    """A system's tasks: the long ones first, so that the workers end together."""
    parts = list(checks.shards(profile.scenarios, profile.shards))
    for first, count in parts:
        yield Task("random", system.name, checks.random, (seed, first, count))
    yield Task("inductive", system.name, inductive_check, (profile.name,))
    yield Task("base", system.name, base_check, (profile.name,))
    for k, rounds in profile.exhaustive:
        yield Task(f"exhaustive k={k}", system.name, checks.exhaustive, (k, rounds))
    yield Task("bulk", system.name, checks.bulk, (seed, profile.bulk_rounds))
    for k, rounds in profile.traces:
        yield Task(f"traces k={k}", system.name, checks.traces, (sequences, k, profile.trace_block, rounds))
    yield Task("known", system.name, checks.known)
    yield Task("refusals", system.name, refusals)
    if system.name in EAGER:
        yield Task("replays", system.name, checks.replays, (seed + 2, profile.twice))
    yield Task("determinism", system.name, checks.determinism, (seed + 1, profile.twice))


def trace_sequences(directory: Path | None) -> list[tuple[int, ...]]:
    """Accept sequences: the bundled ones, and a directory's."""
    sequences = read_accept_lengths(bundled_path())
    if directory is not None:
        sequences += read_directory(directory).sequences
    return [sequence.lengths for sequence in sequences]


def _parts(total: int, parts: int) -> list[range]:
    return [range(first, first + count) for first, count in checks.shards(total, parts) if count]


def _run_all(work: list[Task], jobs: int, progress: Progress, systems: list[str]) -> list[Any]:
    """Results in the order of ``work``, whichever worker was first."""
    context = multiprocessing.get_context("spawn")
    budgets = Budgets(systems, context)
    if jobs == 1 or len(work) == 1:
        shrink_budget.use(budgets)
        try:
            return [_tell(progress, task, _run_task(task)) for task in work]
        finally:
            shrink_budget.use(None)
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(min(jobs, len(work)), mp_context=context, initializer=_start_worker, initargs=(budgets,))
    with pool:
        futures: list[Future[Any]] = []
        with no_interrupts():
            for task in work:
                future = pool.submit(_run_task, task)
                future.add_done_callback(partial(_finished, progress, task))
                futures.append(future)
        try:
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
            return [future.result() for future in futures]
        except BrokenProcessPool:
            raise UsageError("a worker died: a crash or exit in a system under test; --jobs 1 shows where") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()  # a task can take a minute, and nobody wants its result any more
            raise


def _tell(progress: Progress, task: Task, result: Any) -> Any:
    progress.done += 1
    progress.on_change(progress, f"{task.system or 'planted faults'}: {task.label}")
    return result


def _finished(progress: Progress, task: Task, future: Future[Any]) -> None:
    if not future.cancelled() and future.exception() is None:
        _tell(progress, task, None)


def _start_worker(budgets: Budgets) -> None:
    start_worker()
    shrink_budget.use(budgets)


def _run_task(task: Task) -> Any:
    if task.system in (None, MODEL):
        return task.call(*task.args)
    return task.call(resolve(task.system), *task.args)


def _report(
    options: GateOptions,
    systems: list[SystemUnderTest],
    light: frozenset[str],
    work: list[Task],
    outcomes: list[Any],
    seconds: float,
) -> GateReport:
    results, deviations = [], []
    for system in systems:
        mine = [out for task, out in zip(work, outcomes, strict=True) if task.system == system.name]
        results.append(SystemResult(system.name, _merged([check for check, _ in mine]), system.name in light))
        seen = frozenset[str]().union(*(ids for _, ids in mine))
        for deviation in system.design.deviations if system.design else ():
            deviations.append(DeviationSeen(deviation.id, system.name, deviation.text, deviation.id in seen))
    mutants = [m for task, out in zip(work, outcomes, strict=True) if task.system is None for m in out]
    served: ModelResult | None = next(
        (out for task, out in zip(work, outcomes, strict=True) if task.system == MODEL), None
    )
    if served is not None:
        results.append(SystemResult(MODEL, served.checks))
        mutants += [served.fault] * options.mutants
    verdict, sentence = _verdict(results, mutants, deviations)
    return GateReport(
        verdict=verdict,
        sentence=sentence,
        seed=options.seed,
        profile=options.profile,
        systems=tuple(results),
        mutants=tuple(mutants),
        deviations=tuple(deviations),
        environment=environment(),
        seconds=seconds,
        opening=served.opening if served is not None else "",
    )


def _merged(results: list[CheckResult]) -> tuple[CheckResult, ...]:
    """Shards of one check put together, in the order they were planned; a finding of one code is kept once."""
    merged: dict[str, CheckResult] = {}
    for check in results:
        before = merged.get(check.id)
        if before is None:
            merged[check.id] = check
            continue
        known = {(f.code, f.declared) for f in before.findings}
        fresh = tuple(f for f in check.findings if not f.declared and (f.code, False) not in known)
        merged[check.id] = replace(
            before,
            cases=before.cases + check.cases,
            request_rounds=before.request_rounds + check.request_rounds,
            findings=before.findings + fresh,
            seconds=before.seconds + check.seconds,
            notes=before.notes + tuple(n for n in check.notes if n not in before.notes),
        )
    return tuple(merged.values())


def _verdict(
    results: list[SystemResult], mutants: list[MutantResult], deviations: list[DeviationSeen]
) -> tuple[str, str]:
    """One sentence. Green needs every check clean, every planted fault killed by its own code, and work done."""
    systems = [s for s in results if s.name != MODEL]
    rounds = sum(check.request_rounds for system in systems for check in system.checks)
    if not rounds:
        return NOTHING_RAN, "Nothing ran: no request-round was checked."
    bad = [system.name for system in results if system.failed]
    survivors = [m for m in mutants if not m.killed]
    faults = []
    if bad:
        faults.append(f"{', '.join(bad)} diverged from the oracle")
    if survivors:
        faults.append(f"{len(survivors)} of {len(mutants)} planted faults were not killed by their own code")
    if faults:
        return DIVERGENCE, f"Divergence: {'; '.join(faults)}."
    full, light = ([s.name for s in systems if s.light is wanted] for wanted in (False, True))
    parts = [f"{_listed(full or light)} kept {_its(full or light)} books over {rounds:,} checked request-rounds"]
    if full and light:
        parts[0] += f", {_listed(light)} in a light run too"
    if any(c.kind == "inductive" and not c.skipped for s in results for c in s.checks):
        restricted = sorted({d.system for d in deviations})
        domain = f" ({_listed(restricted)} inside {_its(restricted)} declared domain)" if restricted else ""
        parts.append(f"inductive under declared obliviousness and periodicity{domain}")
    if len(systems) < len(results):
        parts.append("the bundled model drafts as recomputed under exact designs and no design changes its output")
    if deviations:
        seen = sum(d.seen for d in deviations)
        parts.append(f"{seen} of {len(deviations)} declared deviations seen and no other")
    if mutants:
        parts.append(f"all {len(mutants)} planted faults killed by their own code")
    return EQUAL, f"Equal: {'; '.join(parts)}. {NOT_PROVEN}"


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1])] * (len(names) > 1) + names[-1:])


def _its(names: list[str]) -> str:
    return "its" if len(names) == 1 else "their"
