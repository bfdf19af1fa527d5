"""A fuzz run: hands out units, enters what comes back in order, makes findings small, keeps them in the corpus."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from frontier_oracle.property_tests import corpus
from frontier_oracle.property_tests.fuzz.ledger import Ledger
from frontier_oracle.property_tests.fuzz.pool import Job, Pool
from frontier_oracle.property_tests.fuzz.results import Progress
from frontier_oracle.property_tests.fuzz.space import rules_of
from frontier_oracle.property_tests.fuzz.units import Plan, Raw, UnitResult, loaded, run_unit, shrunk
from frontier_oracle.property_tests.gate.results import FindingReport

TICK = 0.5


@dataclass(frozen=True)
class Limits:
    """When a run ends. Seconds and request-rounds, None for no limit."""

    seconds: float | None = None
    rounds: int | None = None


@dataclass
class Session:
    """One run while it goes on. Its content is the plan's units in order, from the first that the ledger lacks, however
    many workers there are. kept: paths that the corpus had before; findings: new ones by path."""

    plan: Plan
    folder: Path
    limits: Limits
    progress: Progress
    started: float = field(default_factory=time.monotonic)
    kept: frozenset[str] = frozenset()
    findings: dict[str, FindingReport] = field(default_factory=dict)
    units: int = 0
    scenarios: int = 0
    rounds: int = 0

    def __post_init__(self) -> None:
        self._early: dict[int, UnitResult] = {}
        self._flying: set[Job] = set()
        self._shrinking: dict[Job, tuple[int, Raw]] = {}
        self._asked: set[tuple[int, str]] = set()
        self._told: set[str] = set()

    def run(self, ledger: Ledger, start_pool: Callable[[], Pool]) -> None:
        """Until a limit is reached, and findings are small: all of them; when time is up, the first of each code."""
        self.ledger, self._next = ledger, ledger.units
        self.pool = start_pool()
        try:
            self._run()
        finally:
            self.pool.stop()

    def _run(self) -> None:
        while True:
            while len(self._flying) < self.pool.capacity:
                job = self._shrink_job() or self._unit_job()
                if job is None:
                    break
                self._flying.add(job)
                self.pool.submit(job)
            if self._over:
                break
            for job, result in self.pool.ready(TICK):
                self._flying.discard(job)
                if job in self._shrinking:
                    self._settle(*self._shrinking.pop(job), result)
                else:
                    self._early[result.index] = result
                    self._enter_in_order()
                self._tell(job.label)
            self._tell(self.progress.label)

    @property
    def _late(self) -> bool:
        """Time is up, and something ran."""
        limit = self.limits.seconds
        return limit is not None and self.units > 0 and time.monotonic() - self.started >= limit

    @property
    def _enough(self) -> bool:
        return self.limits.rounds is not None and self.rounds >= self.limits.rounds

    @property
    def _over(self) -> bool:
        """Nothing more is to come. When time is up, units under way are finished; those past ``limits.rounds`` are not
        this run's: they are dropped."""
        under_way = self._shrinking if self._enough else self._flying
        return (self._late or self._enough) and not under_way

    def _unit_job(self) -> Job | None:
        if self._late or self._enough:
            return None
        job = Job(f"unit {self._next}", run_unit, (self.plan, self._next))
        self._next += 1
        return job

    def _shrink_job(self) -> Job | None:
        for unit, raw in self.ledger.open:
            if (unit, raw.code) in self._asked or self._late and raw.code in self._told:
                continue
            self._asked.add((unit, raw.code))
            self._told.add(raw.code)
            job = Job(f"{raw.code} of unit {unit}", shrunk, (self.plan, raw))
            self._shrinking[job] = (unit, raw)
            return job
        return None

    def _enter_in_order(self) -> None:
        while self.ledger.units in self._early and not self._enough:
            result = self._early.pop(self.ledger.units)
            self.ledger.enter(result)
            self.units += 1
            self.scenarios += result.scenarios
            self.rounds += result.rounds

    def _settle(self, unit: int, raw: Raw, small: FindingReport | None) -> None:
        """The repro file first, then the ledger's line: a crash in between writes the same file again."""
        name = ""
        if small is not None:
            path = corpus.keep(self.folder, small, loaded(self.plan.system), self.plan.seed)
            name = path.name
            if name not in self.kept:
                self.findings.setdefault(name, replace(small, repro=str(path)))
        self.ledger.settle(unit, raw.code, name)

    def _tell(self, label: str) -> None:
        p = self.progress
        p.seconds, p.label = time.monotonic() - self.started, label
        p.units, p.scenarios, p.rounds = self.units, self.scenarios, self.rounds
        p.pairs, p.rules = len(self.ledger.pairs), len(rules_of(self.ledger.pairs))
        p.known_pairs = max(p.known_pairs, p.pairs)
        p.findings = len(self.findings)
        p.on_change(p)
