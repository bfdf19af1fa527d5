"""What a fuzz run found, as data. Its table and its JSON are rendered from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from frontier_oracle.property_tests.gate.results import FindingReport


@dataclass(frozen=True)
class Replayed:
    """A file of the corpus, replayed at the start: whether its finding, or another, is still there."""

    path: str
    code: str
    still: bool


@dataclass(frozen=True)
class FuzzReport:
    """A run. verdict: as a gate's; sentence: in words. units, scenarios, rounds: of this run; all_units, all_rounds:
    with those of the runs before it, which it went on from; rules: S-rules that were exercised; pairs: pairs of rule,
    state and event that were; known_pairs: how many there are known to be; findings: new ones, made small, with their
    repro files; met: in how many units each code was met, ever; replayed: the corpus; pending: code and scenario of
    findings that are still to be made small; interrupted: the user ended it."""

    verdict: str
    sentence: str
    system: str
    seed: int
    guided: bool
    units: int
    scenarios: int
    rounds: int
    all_units: int
    all_rounds: int
    rules: tuple[str, ...]
    pairs: int
    known_pairs: int
    findings: tuple[FindingReport, ...]
    met: dict[str, int]
    replayed: tuple[Replayed, ...]
    pending: tuple[tuple[str, str], ...]
    interrupted: bool
    corpus: str
    environment: dict[str, str]
    seconds: float


@dataclass
class Progress:
    """How a run stands; told after each unit, and now and then in between. The CLI shows it."""

    seconds: float = 0.0
    units: int = 0
    scenarios: int = 0
    rounds: int = 0
    rules: int = 0
    pairs: int = 0
    known_pairs: int = 0
    findings: int = 0
    label: str = "starting"
    on_change: Callable[[Progress], None] = field(default=lambda progress: None)
