"""What the doctor found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from frontier_oracle.property_tests.doctor import Diagnosis
from frontier_oracle.property_tests.render.jsonout import dumps

Found = Mapping[str, Sequence[Diagnosis]]


def render(found: Found) -> str:
    """A line per check, how to mend it below what is wrong, and a sentence."""
    lines: list[str] = []
    for name, diagnoses in found.items():
        lines += [name, *(line for diagnosis in diagnoses for line in _lines(diagnosis))]
    wrong = sum(not diagnosis.ok for diagnoses in found.values() for diagnosis in diagnoses)
    total = sum(map(len, found.values()))
    verdict = (
        f"Healthy: all {total} checks passed." if not wrong else f"{wrong} of {total} checks failed: mend them first."
    )
    return "\n".join([*lines, verdict])


def as_json(found: Found) -> str:
    """{healthy, systems: [{name, checks: [{check, ok, message, how_to_mend}]}]}."""
    systems = [{"name": name, "checks": [asdict(d) for d in diagnoses]} for name, diagnoses in found.items()]
    healthy = all(d.ok for diagnoses in found.values() for d in diagnoses)
    return dumps({"healthy": healthy, "systems": systems})


def _lines(d: Diagnosis) -> list[str]:
    mend = [f"{'':28}mend: {d.how_to_mend}"] if d.how_to_mend else []
    return [f"  {'ok' if d.ok else 'WRONG':<6}{d.check:<20}{d.message}", *mend]
