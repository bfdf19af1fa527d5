"""The inductive step as a check of the gate: which configurations, and what a result is worth.

``inductive_check`` steps every state that the invariant allows, ``base_check`` drives every way into the invariant.
docs/inductive.md says what both together prove.
"""

from __future__ import annotations

import time

from frontier_oracle.oracle.inductive import Domain
from frontier_oracle.oracle.spec import CacheGroup, HiddenSemantic, Spec
from frontier_oracle.property_tests.gate.judged import judge, report_failure
from frontier_oracle.property_tests.gate.results import CheckResult, FindingReport
from frontier_oracle.property_tests.gate.system import SystemUnderTest
from frontier_oracle.property_tests.inductive_base import BaseResult, run_base
from frontier_oracle.property_tests.inductive_reports import plain, report_cases
from frontier_oracle.property_tests.inductive_step import InductiveResult, run_inductive
from frontier_oracle.property_tests.oblivious import run_oblivious

__all__ = [
    "BaseResult",
    "InductiveResult",
    "base_check",
    "inductive_check",
    "inductive_specs",
    "run_base",
    "run_inductive",
    "run_oblivious",
]

MAX_REPORTS = 3
FULL, RING = CacheGroup(4), CacheGroup(4, 4)


def inductive_specs(profile: str) -> list[Spec]:
    """The configurations of a profile ("dev", "ci", "nightly"), each with a period short enough to be run whole.

    Aligned: R divides the ring of pages. Natural: R = W-1+k, with no divisor in common with the ring of pages, so that
    every phase of one meets every phase of the other. docs/inductive.md lists what covers what.
    """
    dev = [aligned(k, k - 1) for k in (2, 3, 4, 8)] + natural(4, (3,))
    if profile == "dev":
        return dev
    ci = [aligned(k, k - 1) for k in range(2, 13)]
    ci += [one_group(k, k - 1) for k in range(13, 17)] + [aligned(k, 3, "target") for k in range(13, 17)]
    for k in range(2, 5):
        ci += natural(k, tuple(range(1, k + 1)))
    ci += [aligned(k, steps) for k in (5, 8) for steps in (1, k)] + [aligned(16, 1), one_group(12, 12)]
    ci += [
        Spec(5, 4, "chain", 4, (CacheGroup(4, 3), CacheGroup(2), CacheGroup(8, 9)), 8),
        Spec(4, 3, "target", 2, (CacheGroup(1, 1), CacheGroup(3)), 5),
        Spec(4, 3, "chain", 1, (CacheGroup(2, 5),), 4),
    ]
    if profile == "ci":
        return ci
    every = [aligned(k, steps, hidden) for k in range(2, 9) for steps in range(1, k + 1) for hidden in SEMANTICS]
    large = [aligned(k, steps, hidden) for k in range(9, 17) for steps in (2, k - 1, k) for hidden in SEMANTICS]
    wide = [
        Spec(k, k - 1, "chain", width, (CacheGroup(3, 5), CacheGroup(4)), width - 1 + k)
        for k in range(2, 7)
        for width in (1, 2, 3, 5)
    ]
    return [*dict.fromkeys(ci + every + large + wide)]


SEMANTICS: tuple[HiddenSemantic, ...] = ("chain", "target")


def aligned(k: int, steps: int, hidden: HiddenSemantic = "chain") -> Spec:
    """A full group and a sliding window; R is the least divisor of the ring of pages that is long enough."""
    span = RING.page_size * RING.cols(0, k)
    ring_rows = next(r for r in range(k + 3, span + 1) if span % r == 0)
    return Spec(k, steps, hidden, 4, (FULL, RING), ring_rows)


def one_group(k: int, steps: int) -> Spec:
    """One full group; R is the least multiple of the page size that is long enough, and the period."""
    return Spec(k, steps, "chain", 4, (FULL,), -(-(k + 3) // FULL.page_size) * FULL.page_size)


def natural(k: int, depths: tuple[int, ...]) -> list[Spec]:
    """R = W-1+k coprime to the ring of pages, for each number of depths and both hidden semantics."""
    groups = (CacheGroup(5), CacheGroup(5, 10)) if k == 3 else (FULL, RING)
    return [Spec(k, steps, hidden, 4, groups) for steps in depths for hidden in SEMANTICS]


def domain_of(system: SystemUnderTest) -> Domain:
    """A system that declares deviations is stepped where it claims to be exact, and the result says so."""
    return "declared" if system.deviates else "full"


def inductive_check(system: SystemUnderTest, profile: str) -> tuple[CheckResult, frozenset[str]]:
    """Step every configuration of the profile, and relabel the symbols of some. Nothing declared is seen here."""
    started, domain = time.perf_counter(), domain_of(system)
    failed: list[InductiveResult] = []
    cases, notes = 0, [InductiveResult(Spec(), domain).statement]
    for spec in inductive_specs(profile):
        result = run_inductive(system.factory, spec, domain)
        if result.skipped:
            return CheckResult("inductive", "inductive", 0, 0, skipped=result.skipped), frozenset()
        cases += result.cases
        failed += [result] if result.failures else []
    findings = report_cases(system, failed)
    relabelled = run_oblivious(system.factory, domain)
    if not any(finding.scenario for finding in findings):
        differing = list(dict.fromkeys(relabelled.failures))[:MAX_REPORTS]
        findings += [plain(code, {"because": f"not oblivious: {what}"}) for code, what in differing]
    notes.append(f"{relabelled.cases} cases under {relabelled.relabellings} relabellings of their symbols")
    seconds = time.perf_counter() - started
    check = CheckResult("inductive", "inductive", cases, cases, tuple(findings), seconds, notes=tuple(notes))
    return check, frozenset()


def base_check(system: SystemUnderTest, profile: str) -> tuple[CheckResult, frozenset[str]]:
    """Drive every way into the invariant: chunks, hits, resumes. What it covers shrinks with the domain."""
    domain = domain_of(system)
    result = run_base(system.factory, system.policy, domain, hits="adopt" in system.capabilities, profile=profile)
    findings: dict[str, FindingReport] = {}
    for text, _ in result.failures:
        scenario = result.scenarios[text]
        judged = judge(system, scenario)
        if judged.undeclared and judged.undeclared[0].code not in findings and len(findings) < MAX_REPORTS:
            findings[judged.undeclared[0].code] = report_failure(system, scenario, judged)
    check = CheckResult(
        "base",
        "base",
        result.cases,
        result.request_rounds,
        tuple(findings.values()),
        result.seconds,
        notes=(result.statement,),
    )
    return check, frozenset()
