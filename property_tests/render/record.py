"""The gate report as the lines of a run record (oracle.records)."""

from __future__ import annotations

from collections.abc import Iterator

from frontier_oracle.oracle import records
from frontier_oracle.property_tests.gate.results import CheckResult, GateReport

FINDING = ("code", "declared", "round", "request", "depth", "position", "detail", "scenario", "original", "replay")


def lines(report: GateReport) -> list[records.Json]:
    """All lines; ``records.comparable`` of them is the same for two runs of one seed."""
    return list(_lines(report))


def _lines(report: GateReport) -> Iterator[records.Json]:
    version = report.environment.get("frontier_oracle", "unknown")
    yield records.header(version, report.seed, report.profile, [system.name for system in report.systems])
    for system in report.systems:
        for check in system.checks:
            yield from _check(system.name, check)
    for m in report.mutants:
        yield records.line(
            "mutant", id=m.id, base=m.base, expected=m.expected, got=m.got, scenario=m.scenario, rounds=m.rounds
        )
    for d in report.deviations:
        yield records.line("deviation", id=d.id, system=d.system, seen=d.seen)
    yield records.line("verdict", verdict=report.verdict)
    times = [{"system": s.name, "check": c.id, "seconds": c.seconds} for s in report.systems for c in s.checks]
    yield records.line("timing", environment=report.environment, seconds=report.seconds, checks=times)


def _check(system: str, check: CheckResult) -> Iterator[records.Json]:
    yield records.line(
        "check",
        system=system,
        id=check.id,
        kind=check.kind,
        cases=check.cases,
        request_rounds=check.request_rounds,
        skipped=check.skipped,
        notes=list(check.notes),
    )
    for finding in check.findings:
        fields = {name: getattr(finding, name) for name in FINDING}
        yield records.line("finding", system=system, check=check.id, **fields)
