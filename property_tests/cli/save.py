"""``gate --save DIR``: a repro file for each failing scenario, named by code, system and fingerprint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from frontier_oracle.oracle import repro
from frontier_oracle.property_tests.corpus import repro_of
from frontier_oracle.property_tests.gate.results import CheckResult, GateReport
from frontier_oracle.property_tests.gate.system import resolve


def name_repros(report: GateReport, folder: Path) -> tuple[GateReport, dict[Path, repro.Repro]]:
    """The report with the paths of its repro files in it, and the files, which are still to be written."""
    files: dict[Path, repro.Repro] = {}
    systems = []
    for system in report.systems:
        checks = tuple(_named(check, system.name, report.seed, folder, files) for check in system.checks)
        systems.append(replace(system, checks=checks))
    return replace(report, systems=tuple(systems)), files


def _named(check: CheckResult, system: str, seed: int, folder: Path, files: dict[Path, repro.Repro]) -> CheckResult:
    findings = []
    for finding in check.findings:
        if not finding.declared and finding.scenario:
            name, file = repro_of(finding, resolve(system), seed)
            files[folder / name] = file
            finding = replace(finding, repro=str(folder / name))
        findings.append(finding)
    return replace(check, findings=tuple(findings))
