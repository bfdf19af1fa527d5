"""The gate report for people: what ran, what was found, one verdict sentence."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from itertools import zip_longest

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from frontier_oracle.property_tests.gate.results import CheckResult, FindingReport, GateReport, SystemResult

WIDTH = 110
MOST_STORIES = 5
COLORS = {"ok": "green", "FAILED": "bold red", "skipped": "yellow"}


def render(report: GateReport, color: bool = False) -> str:
    """The whole text, without a line end at its end. color: with escape codes, for a terminal."""
    out = StringIO()
    console = Console(file=out, width=WIDTH, force_terminal=color, highlight=False, emoji=False, markup=False)
    console.print(header(report), soft_wrap=True)
    if report.opening:
        console.print("\n" + report.opening, soft_wrap=True)
    console.print(_checks(report))
    for line in (*_mutants(report), *_deviations(report), *_notes(report)):
        console.print(line, soft_wrap=True)
    for story in stories(report):
        console.print("\n" + story, soft_wrap=True)
    console.print()
    style = "bold green" if report.verdict == "equal" else "bold red"
    console.print(Text(report.sentence, style=style), soft_wrap=True)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def header(report: GateReport) -> str:
    """Seed, versions and machine, on one line."""
    e = report.environment
    parts = [f"frontier-oracle {e.get('frontier_oracle', '')}", f"profile {report.profile}", f"seed {report.seed}"]
    parts += [f"{name} {e[name]}" for name in ("python", "torch", "numpy") if e.get(name)]
    parts += [f"{e['machine']}, {e.get('cores', '?')} cores"] if e.get("machine") else []
    parts += [f"commit {e['commit']}"] if e.get("commit") else []
    return " · ".join(parts)


def stories(report: GateReport, most: int = MOST_STORIES, each: bool = False) -> Iterator[str]:
    """What fails the gate, told; the first few, of what is left the number, or with ``each`` a line each. One that
    several checks met is told once."""
    met: dict[tuple[str, ...], list[str]] = {}
    told: dict[tuple[str, ...], FindingReport] = {}
    for system in report.systems:
        for check in system.checks:
            for finding in (f for f in check.findings if not f.declared):
                same = (system.name, finding.code, finding.scenario, *(finding.story or [str(finding.detail)]))
                told.setdefault(same, finding)
                checks = met.setdefault(same, [])
                checks += [check.id] * (check.id not in checks)
    for same in list(told)[:most]:
        yield f"{same[0]}, {', '.join(met[same])}:\n" + "\n".join(story(told[same]))
    rest = list(told)[most:]
    if rest and each:
        yield "\n".join(f"{same[0]}, {', '.join(met[same])}: {_short(told[same])}" for same in rest)
    elif rest:
        yield f"... and {len(rest)} more: --format json or --report lists them all"


def story(finding: FindingReport) -> list[str]:
    """The explanation, or what there is where a finding has none."""
    lines = list(finding.story)
    if not lines:
        lines = [f"{finding.code} {finding.title} ({finding.rule})"]
        if finding.round >= 0:
            entry = f", ({finding.depth},{finding.position})" if finding.depth >= 0 else ""
            lines.append(f"  round {finding.round}, request {finding.request or '(padding)'}{entry}")
        lines += [f"  scenario  {finding.scenario}"] * bool(finding.scenario)
        lines += [f"  {key:<9} {value}" for key, value in finding.detail.items()]
        lines += [f"  replay    {finding.replay}"] * bool(finding.replay)
    if finding.original and finding.original != finding.scenario:
        lines.append(f"  found on  {finding.original}")
    return lines + [f"  repro     {finding.repro}"] * bool(finding.repro)


def _short(finding: FindingReport) -> str:
    return f"{finding.code} {finding.title}" + f": {finding.scenario}" * bool(finding.scenario)


def result_of(check: CheckResult) -> str:
    """ "ok", "FAILED" or "skipped"."""
    if check.skipped:
        return "skipped"
    return "FAILED" if check.failed else "ok"


def _checks(report: GateReport) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("system", "check"):
        table.add_column(name, overflow="fold")
    for name in ("cases", "request-rounds", "findings", "declared", "seconds"):
        table.add_column(name, justify="right")
    table.add_column("result")
    for system in report.systems:
        names = [system.name, "(light)"][: 1 + system.light]
        for name, row in zip_longest(names, _rows(system), fillvalue=""):
            table.add_row(name, *row)
    return table


def _rows(system: SystemResult) -> Iterator[tuple[str | Text, ...]]:
    for check in system.checks:
        declared = sum(f.declared for f in check.findings)
        result = result_of(check)
        yield (
            check.id,
            f"{check.cases:,}",
            f"{check.request_rounds:,}",
            str(len(check.findings) - declared),
            str(declared),
            f"{check.seconds:.1f}",
            Text(result, style=COLORS[result]),
        )


def _mutants(report: GateReport) -> Iterator[str]:
    if not report.mutants:
        return
    killed = sum(m.killed for m in report.mutants)
    yield f"planted faults: {killed} of {len(report.mutants)} killed by the rule that names them"
    for m in report.mutants:
        if not m.killed:
            yield f"  SURVIVED  {m.id} on {m.base}: expected {m.expected}, got {m.got or 'nothing'}"


def _deviations(report: GateReport) -> Iterator[str]:
    if report.deviations:
        yield "declared deviations:"
    for d in report.deviations:
        yield f"  {'seen    ' if d.seen else 'NOT SEEN'}  {d.system}: {d.id} ({d.text})"


def _notes(report: GateReport) -> Iterator[str]:
    for system in report.systems:
        for check in system.checks:
            if check.skipped:
                yield f"skipped: {system.name}, {check.id}: {check.skipped}"
            for note in check.notes:
                yield f"note: {system.name}, {check.id}: {note}"
