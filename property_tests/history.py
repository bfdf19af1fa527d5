"""Judged histories (Tier 0) as the report that the gate's writers render. Needs no torch."""

from __future__ import annotations

from frontier_oracle.oracle.explain import explain, text
from frontier_oracle.oracle.history.check import Checked, RuleResult
from frontier_oracle.oracle.rules import RULES, Finding
from frontier_oracle.property_tests.gate.environment import environment
from frontier_oracle.property_tests.gate.results import (
    DIVERGENCE,
    EQUAL,
    NOTHING_RAN,
    CheckResult,
    FindingReport,
    GateReport,
    SystemResult,
)

PROFILE = "history"
UNSEEN = "Not judged: values in the cache (attention, conv ring, checkpoints), and what was not logged."


def report(histories: list[Checked], seconds: float) -> GateReport:
    """One system a history, one check a rule; skipped rules stand there with the reason."""
    systems = []
    for done in histories:
        checks = tuple(_check(done, rule) for rule in done.rules)
        systems.append(SystemResult(done.history.path, checks))
    verdict, sentence = _verdict(histories)
    return GateReport(verdict, sentence, 0, PROFILE, tuple(systems), (), (), environment(), seconds)


def _check(done: Checked, rule: RuleResult) -> CheckResult:
    notes = []
    if rule.unknown:
        notes.append(f"{rule.unknown} more not judged: the log lacks the value that they must have")
    if len(rule.findings) > 1:
        notes.append(f"the first of {len(rule.findings)} findings is told")
    told = tuple(_finding(done, f) for f in rule.findings[:1])
    rounds = 0 if rule.skipped else done.played.outcome.request_rounds
    name = f"{rule.code} {RULES[rule.code].title}"
    return CheckResult(name, "history", rule.judged, rounds, told, skipped=rule.skipped, notes=tuple(notes))


def _finding(done: Checked, f: Finding) -> FindingReport:
    rule, where = RULES[f.code], f"{done.history.path}:{done.lines[f.round]}"
    story = text(explain(f, done.played), where, label="logged").splitlines()
    return FindingReport(
        f.code, rule.title, rule.rule, False, f.round, f.request, f.depth, f.position, f.detail, story=tuple(story)
    )


def _verdict(histories: list[Checked]) -> tuple[str, str]:
    rounds = sum(done.played.outcome.request_rounds for done in histories)
    applied = [rule for done in histories for rule in done.rules if not rule.skipped]
    skipped = sorted({rule.code for done in histories for rule in done.rules if rule.skipped})
    if not rounds or not any(rule.judged for rule in applied):
        return NOTHING_RAN, "Nothing was judged: no round, or none of the fields that a rule needs."
    bad = [done for done in histories if done.findings]
    if bad:
        count = sum(len(done.findings) for done in bad)
        first = bad[0].findings[0]
        where = f"{bad[0].history.path}:{bad[0].lines[first.round]}"
        said = f"{count} finding{'s' * (count != 1)} over {rounds:,} logged request-rounds"
        return DIVERGENCE, f"Divergence: {said}, the first {first.code} at {where}."
    names = len({rule.code for rule in applied})
    without = f"; skipped: {', '.join(skipped)}" if skipped else ""
    return EQUAL, f"Equal: {rounds:,} logged request-rounds keep to {names} rules{without}. {UNSEEN}"
