"""The gate report as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from frontier_oracle.oracle.files import plain
from frontier_oracle.property_tests.gate.results import GateReport


def as_data(report: GateReport) -> dict[str, Any]:
    """Plain data: verdict, seed, systems, mutants, declared_deviations, and how and where it ran."""
    survivors = [
        {"id": m.id, "base": m.base, "expected": m.expected, "got": m.got} for m in report.mutants if not m.killed
    ]
    return {
        "opening": report.opening,
        "verdict": report.verdict,
        "sentence": report.sentence,
        "seed": report.seed,
        "profile": report.profile,
        "environment": report.environment,
        "seconds": round(report.seconds, 3),
        "systems": [
            {"name": system.name, "light": system.light, "checks": [asdict(check) for check in system.checks]}
            for system in report.systems
        ],
        "mutants": {
            "total": len(report.mutants),
            "killed": sum(m.killed for m in report.mutants),
            "survivors": survivors,
            "kills": [asdict(m) for m in report.mutants],
        },
        "declared_deviations": [asdict(deviation) for deviation in report.deviations],
    }


def render(report: GateReport) -> str:
    return dumps(as_data(report))


def dumps(data: Any) -> str:
    """JSON for people and programs: indented, numpy values made plain, NaN refused."""
    return json.dumps(data, indent=2, allow_nan=False, default=plain)
