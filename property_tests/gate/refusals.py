"""What a system must refuse, and what it must not (S15, S16): checked on systems that offer the hooks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from frontier_oracle.oracle.contract import MediaIds
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.timeline import Timeline
from frontier_oracle.property_tests.gate.results import CheckResult, FindingReport, reported
from frontier_oracle.property_tests.gate.system import SystemUnderTest
from frontier_oracle.property_tests.probe import DigestProbe
from frontier_oracle.property_tests.shield import placed_config

# (what is asked, whether it must be refused, change of the configuration, forward mode)
Case = tuple[str, bool, dict[str, Any], str]
CASES: tuple[Case, ...] = (
    ("data-parallel size 1", False, {"dp_size": 1}, ""),
    ("data-parallel size 2", True, {"dp_size": 2}, ""),
    ("an extend batch", False, {}, "extend"),
    ("a decode batch", False, {}, "decode"),
    ("a mixed batch", True, {}, "mixed"),
)
MEDIA_CASES: tuple[Case, ...] = (
    ("media with a substitute", False, {"media": MediaIds(100, ((100, 200, 7),))}, ""),
    ("media without a substitute", True, {"media": MediaIds(100, ())}, ""),
    ("a substitute outside the vocabulary", True, {"media": MediaIds(100, ((100, 200, 100),))}, ""),
    ("a negative substitute", True, {"media": MediaIds(100, ((100, 200, -1),))}, ""),
)


def refusals(system: SystemUnderTest) -> tuple[CheckResult, frozenset[str]]:
    """FO402 for what is served and must not be, FO403 for what is refused and must be served."""
    started = time.perf_counter()
    if "refusals" not in system.capabilities:
        why = 'the system does not claim "refusals": it has no hook to ask'
        return CheckResult("refusals", "refusals", 0, 0, skipped=why), frozenset()
    cases = CASES + (MEDIA_CASES if "media" in system.capabilities else ())
    findings = [found for case in cases for found in _ask(system, case)]
    seconds = time.perf_counter() - started
    return CheckResult("refusals", "refusals", len(cases), 0, tuple(findings), seconds), frozenset()


def _ask(system: SystemUnderTest, case: Case) -> list[FindingReport]:
    what, must_refuse, changes, mode = case
    config = placed_config(system.factory, replace(Timeline(parse("k3 page2 | a: p1")).config(), **changes))

    def serve() -> None:
        made = system.factory(config, DigestProbe(config))
        if mode:
            made.init_forward_metadata(mode)

    because = _refusal(serve)
    if (because != "") == must_refuse:
        return []
    code = "FO402" if must_refuse else "FO403"
    detail = {"because": f"{what} {'was served' if must_refuse else f'was refused: {because}'}"}
    return [reported(Finding(code, -1, "", detail=detail))]


def _refusal(action: Callable[[], None]) -> str:
    """The one line of a refusal, "" where there is none. Any other exception is no refusal and goes through."""
    try:
        action()
    except UsageError as error:
        return str(error)
    return ""
