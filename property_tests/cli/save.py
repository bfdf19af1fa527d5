"""``gate --save DIR``: a repro file for each failing scenario, named by code, system and fingerprint."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from frontier_oracle.oracle import repro
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.property_tests.gate.results import CheckResult, FindingReport, GateReport
from frontier_oracle.property_tests.gate.system import resolve


def save_repros(report: GateReport, folder: Path) -> GateReport:
    """Write the files; returns the report with their paths in it. Raises RecordError where one cannot be written."""
    systems = []
    for system in report.systems:
        checks = tuple(_saved(check, system.name, report.seed, folder) for check in system.checks)
        systems.append(replace(system, checks=checks))
    return replace(report, systems=tuple(systems))


def _saved(check: CheckResult, system: str, seed: int, folder: Path) -> CheckResult:
    findings = tuple(
        finding if finding.declared or not finding.scenario else _write(finding, system, seed, folder)
        for finding in check.findings
    )
    return replace(check, findings=findings)


def _write(finding: FindingReport, system: str, seed: int, folder: Path) -> FindingReport:
    scenario = parse(finding.scenario)
    plain = Finding(finding.code, finding.round, finding.request, finding.depth, finding.position, dict(finding.detail))
    name = f"{finding.code}-{re.sub('[^A-Za-z0-9_.]+', '-', system)}-{repro.fingerprint(scenario)}.json"
    path = folder / name
    repro.write(path, repro.Repro(scenario, system, seed, plain, resolve(system).policy))
    return replace(finding, repro=str(path))
