"""A replay for people: its findings, the story of the first, one verdict sentence."""

from __future__ import annotations

from frontier_oracle.oracle.language import render as scenario_text
from frontier_oracle.oracle.rules import RULES, Finding
from frontier_oracle.property_tests.gate.results import NOTHING_RAN
from frontier_oracle.property_tests.replay import Replay

MOST_LISTED = 6


def render(run: Replay, every: bool = False) -> str:
    """One screen; with ``every`` the stories of all findings."""
    told = run.findings if every else run.findings[:1]
    lines = []
    for finding, deviation in told:
        lines += [run.story(finding, deviation), ""]
    if not every and len(run.findings) > 1:
        lines += [*_listed(run), ""]
    if not run.findings:
        lines += [f"scenario  {scenario_text(run.source.scenario)}"]
    return "\n".join([*lines, *_about_file(run), sentence(run)])


def sentence(run: Replay) -> str:
    """The verdict in words."""
    rounds = run.played.outcome.request_rounds
    over = f"over {rounds} request-round{'s' * (rounds != 1)}"
    if run.undeclared:
        first = run.undeclared[0]
        where = f"in round {first.round}" if first.round >= 0 else "in no single round"
        count = f"{len(run.undeclared)} finding{'s' * (len(run.undeclared) != 1)}"
        return f"Divergence: {run.system.name} shows {count} {over}, first {first.code} {where}."
    if run.verdict == NOTHING_RAN:
        return f"Nothing ran: the scenario has no round, so {run.system.name} was not asked for anything."
    if run.declared:
        ids = ", ".join(sorted({deviation for _, deviation in run.declared}))
        return f"Equal: {run.system.name} deviates exactly as it declares ({ids}), and nowhere else, {over}."
    return f"Equal: {run.system.name} kept its books {over}."


def _listed(run: Replay) -> list[str]:
    """The findings behind the first, one a line."""
    rest = run.findings[1:]
    lines = [f"  then      {_short(finding)}{f'  declared: {d}' if d else ''}" for finding, d in rest[:MOST_LISTED]]
    if len(rest) > MOST_LISTED:
        lines.append(f"            and {len(rest) - MOST_LISTED} more (explain --all tells them)")
    return lines


def _short(f: Finding) -> str:
    entry = f" ({f.depth},{f.position})" if f.depth >= 0 else ""
    return f"round {f.round}  {f.code} {RULES[f.code].title}  {f.request or '(padding)'}{entry}"


def _about_file(run: Replay) -> list[str]:
    recorded = run.source.recorded
    if recorded is None:
        return []
    lines = [f"note: {run.note}"] if run.note else []
    if recorded.finding is not None:
        state = "is met again" if run.recurs else "is gone"
        lines.append(f"the finding of {run.source.path} ({recorded.finding.code}) {state}")
    return lines
