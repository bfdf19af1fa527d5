"""The check "corpus": what was found once is replayed for ever."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from frontier_oracle.oracle.language import parse, render
from frontier_oracle.property_tests import corpus
from frontier_oracle.property_tests.gate.checks import Checked, supported
from frontier_oracle.property_tests.gate.judged import describe, judge
from frontier_oracle.property_tests.gate.results import CheckResult, FindingReport
from frontier_oracle.property_tests.gate.system import SystemUnderTest
from frontier_oracle.property_tests.watching import tell, watch_system

# (path of the repro file, the scenario's text)
Text = tuple[str, str]


def texts(folder: Path) -> list[Text]:
    """The corpus as a task takes it. Raises UsageError for a file that cannot be replayed: which, and why."""
    return [(str(kept.path), render(kept.repro.scenario)) for kept in corpus.read(folder)]


def replayed(system: SystemUnderTest, files: Sequence[Text]) -> Checked:
    """Every file's scenario on the system, whichever system it was found on. They are small: each that fails is told as
    it stands."""
    started, rounds, cases = time.perf_counter(), 0, 0
    findings: list[FindingReport] = []
    seen: set[str] = set()
    for path, text in files:
        scenario = parse(text)
        if not supported(system, scenario):
            continue
        judged = judge(system, scenario, guard=True)
        cases, rounds, seen = cases + 1, rounds + judged.outcome.request_rounds, seen | judged.seen
        if judged.undeclared:
            finding = judged.undeclared[0]
            story = tuple(tell(watch_system(system, scenario), system.name, finding).splitlines())
            findings.append(replace(describe(system, scenario, finding), story=story, repro=path))
    left_out = len(files) - cases
    notes = (f"{left_out} of {len(files)} files need what the system does not claim to support",) * (left_out > 0)
    skipped = "no repro file in it" if not files else "" if cases else notes[0]
    seconds = time.perf_counter() - started
    check = CheckResult("corpus", "corpus", cases, rounds, tuple(findings), seconds, skipped, notes if cases else ())
    return check, frozenset(seen)
