"""A corpus: a directory of repro files, each with its explanation beside it. `fuzz` fills it, `gate` replays it.

A file is named by code, system and the scenario's fingerprint, so one finding has one file, whoever finds it again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from frontier_oracle.oracle import repro
from frontier_oracle.oracle.errors import RecordError, UsageError
from frontier_oracle.oracle.files import write_whole
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.property_tests.gate.results import FindingReport
from frontier_oracle.property_tests.gate.system import SystemUnderTest


@dataclass(frozen=True)
class Kept:
    """One file of a corpus."""

    path: Path
    repro: repro.Repro


def name_of(code: str, system: str, fingerprint: str) -> str:
    """The file's name: letters, digits, dots and dashes only."""
    return f"{code}-{re.sub('[^A-Za-z0-9_.]+', '-', system)}-{fingerprint}.json"


def repro_of(finding: FindingReport, system: SystemUnderTest, seed: int) -> tuple[str, repro.Repro]:
    """The name and the content of a finding's file."""
    scenario = parse(finding.scenario)
    plain = Finding(finding.code, finding.round, finding.request, finding.depth, finding.position, dict(finding.detail))
    name = name_of(finding.code, system.name, repro.fingerprint(scenario))
    return name, repro.Repro(scenario, system.name, seed, plain, system.policy)


def keep(folder: Path, finding: FindingReport, system: SystemUnderTest, seed: int) -> Path:
    """Write a finding: the explanation first, so that a repro file is never without one. Both are whole or not there.

    Raises RecordError where the folder cannot be written."""
    name, file = repro_of(finding, system, seed)
    path = folder / name
    try:
        write_whole(path.with_suffix(".txt"), "\n".join(finding.story) + "\n")
    except OSError as error:
        raise RecordError(f"{path.with_suffix('.txt')}: cannot be written: {error.strerror}") from None
    repro.write(path, file)
    return path


def read(folder: Path) -> list[Kept]:
    """Every repro file of a corpus (``*.json``), by name. Raises UsageError for one that cannot be replayed: which, and
    why."""
    if not folder.is_dir():
        raise UsageError(f"--corpus {folder}: no such directory; 'fuzz --corpus {folder}' makes one")
    return [Kept(path, repro.read(path)) for path in sorted(folder.glob("*.json"))]
