"""What a gate run found, as data. Tables, JSON, JUnit, Markdown and annotations are rendered from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from frontier_oracle.oracle.rules import RULES, Finding

EQUAL, DIVERGENCE, NOTHING_RAN = "equal", "divergence", "nothing ran"


@dataclass(frozen=True)
class FindingReport:
    """One finding as it is shown: the rule, where, on which (shrunk) scenario, and how to see it again.

    declared: the system declared this deviation, so it does not fail the gate. scenario: text of the shrunk scenario
    ("" for checks that have none); original: the one it was found on. story: the lines of the explanation. repro: path
    of the repro file, "" if none was written.
    """

    code: str
    title: str
    rule: str
    declared: bool
    round: int
    request: str
    depth: int
    position: int
    detail: dict[str, Any] = field(default_factory=dict)
    scenario: str = ""
    original: str = ""
    story: tuple[str, ...] = ()
    replay: str = ""
    repro: str = ""


def reported(
    finding: Finding, declared: bool = False, scenario: str = "", original: str = "", replay: str = ""
) -> FindingReport:
    """A finding as it is shown, under its rule's title."""
    rule = RULES[finding.code]
    return FindingReport(
        code=finding.code,
        title=rule.title,
        rule=rule.rule,
        declared=declared,
        round=finding.round,
        request=finding.request,
        depth=finding.depth,
        position=finding.position,
        detail=finding.detail,
        scenario=scenario,
        original=original,
        replay=replay,
    )


@dataclass(frozen=True)
class CheckResult:
    """One check of one system. kind: "inductive", "base", "exhaustive", "known", "random", "bulk", "traces",
    "determinism", "replays", "refusals", "model", "corpus". skipped: why it did not run (counted as skipped, never as
    passed). notes: facts worth a line, such as how many trace rounds were clipped to k."""

    id: str
    kind: str
    cases: int
    request_rounds: int
    findings: tuple[FindingReport, ...] = ()
    seconds: float = 0.0
    skipped: str = ""
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return any(not f.declared for f in self.findings)


@dataclass(frozen=True)
class SystemResult:
    """All checks of one system. light: the light form of the profile."""

    name: str
    checks: tuple[CheckResult, ...]
    light: bool = False

    @property
    def failed(self) -> bool:
        return any(check.failed for check in self.checks)


@dataclass(frozen=True)
class MutantResult:
    """One planted fault on one base system. expected: the code of the rule that names it; got: the code it was killed
    by, "" if it survived; scenario: the text that killed it; rounds: request-rounds until the kill."""

    id: str
    base: str
    expected: str
    got: str
    scenario: str = ""
    rounds: int = 0

    @property
    def killed(self) -> bool:
        return self.got == self.expected


@dataclass(frozen=True)
class ModelResult:
    """The bundled model on real text. checks: one a design; fault: a verification that is not lossless; opening: what
    it showed, in a sentence."""

    checks: tuple[CheckResult, ...]
    fault: MutantResult
    opening: str


@dataclass(frozen=True)
class DeviationSeen:
    """A declared deviation of a system, and whether any check met it."""

    id: str
    system: str
    text: str
    seen: bool


@dataclass(frozen=True)
class GateReport:
    """A whole run. verdict is EQUAL, DIVERGENCE or NOTHING_RAN; sentence says it in words; environment: version,
    python, torch, numpy, machine, cores, commit; opening: what the bundled model showed, "" where it did not run."""

    verdict: str
    sentence: str
    seed: int
    profile: str
    systems: tuple[SystemResult, ...]
    mutants: tuple[MutantResult, ...]
    deviations: tuple[DeviationSeen, ...]
    environment: dict[str, str]
    seconds: float
    opening: str = ""
