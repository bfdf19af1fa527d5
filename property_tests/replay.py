"""Runs a scenario, or a repro file, on a system again: the same text fails the same way, and the failure is told."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from frontier_oracle.oracle import repro
from frontier_oracle.oracle.explain import explain
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.played import Played
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.property_tests.gate.judged import weigh
from frontier_oracle.property_tests.gate.results import DIVERGENCE, EQUAL, NOTHING_RAN
from frontier_oracle.property_tests.gate.system import SystemUnderTest, resolve
from frontier_oracle.property_tests.watching import tell, watch_system

DEFAULT_SYSTEM = "frontier"


@dataclass(frozen=True)
class Source:
    """What is to be replayed: the scenario, and the repro file it came from, if any."""

    scenario: Scenario
    path: str = ""
    recorded: repro.Repro | None = None


@dataclass(frozen=True)
class Replay:
    """A replayed scenario. undeclared: findings that fail it, the cause first; declared: those that the system's
    design predicts, with their deviation ids."""

    source: Source
    system: SystemUnderTest
    played: Played
    undeclared: tuple[Finding, ...]
    declared: tuple[tuple[Finding, str], ...]

    @property
    def equal(self) -> bool:
        return not self.undeclared

    @property
    def verdict(self) -> str:
        """EQUAL, DIVERGENCE or NOTHING_RAN."""
        if self.undeclared:
            return DIVERGENCE
        return EQUAL if self.played.outcome.request_rounds else NOTHING_RAN

    @property
    def findings(self) -> tuple[tuple[Finding, str], ...]:
        """(finding, deviation id or ""), the undeclared ones first."""
        return tuple((f, "") for f in self.undeclared) + self.declared

    @property
    def recurs(self) -> bool | None:
        """Whether the finding of the repro file was met again; None without one."""
        recorded = self.source.recorded
        if recorded is None or recorded.finding is None:
            return None
        return recorded.finding.key in {f.key for f, _ in self.findings}

    @property
    def note(self) -> str:
        """That the repro file was recorded under another prefix policy than the system's, "" if it was not."""
        recorded = self.source.recorded
        if recorded is None or recorded.policy in (None, self.system.policy):
            return ""
        return f"recorded under prefix policy {recorded.policy}, {self.system.name} is {self.system.policy} now"

    def story(self, finding: Finding, deviation: str = "") -> str:
        """The explanation on one screen."""
        return tell(self.played, self.system.name, finding, deviation)


def load(source: str) -> Source:
    """A scenario's text, or the path of a repro file. Raises UsageError: what is wrong, and where."""
    if "|" not in source and (source.endswith(".json") or "/" in source or os.path.exists(source)):
        recorded = repro.read(source)
        return Source(recorded.scenario, source, recorded)
    return Source(parse(source))


def replay(source: str, system: str = "") -> Replay:
    """Run ``source`` on a system: by default the one a repro file names, else ``frontier``. Raises UsageError
    (AdapterError where the system raises)."""
    loaded = load(source)
    recorded = loaded.recorded
    under_test = resolve(system or (recorded.system if recorded is not None else DEFAULT_SYSTEM))
    played = watch_system(under_test, loaded.scenario)
    judged = weigh(under_test, loaded.scenario, played.outcome)
    return Replay(loaded, under_test, played, judged.undeclared, judged.declared)


def as_data(run: Replay, every: bool = False) -> dict[str, Any]:
    """The replay as plain data, for JSON: all findings, and the story of the first (or of every) one."""
    told = run.findings if every else run.findings[:1]
    return {
        "scenario": render(run.source.scenario),
        "system": run.system.name,
        "verdict": run.verdict,
        "request_rounds": run.played.outcome.request_rounds,
        "recurs": run.recurs,
        "note": run.note,
        "findings": [
            {
                "code": f.code,
                "declared": bool(deviation),
                "deviation": deviation,
                "round": f.round,
                "request": f.request,
                "depth": f.depth,
                "position": f.position,
                "detail": f.detail,
            }
            for f, deviation in run.findings
        ],
        "explanations": [explain(f, run.played).to_dict() for f, _ in told],
    }
