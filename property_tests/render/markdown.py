"""The gate report as Markdown, for the summary of a CI step."""

from __future__ import annotations

import re
from collections.abc import Iterator

from frontier_oracle.property_tests.gate.results import GateReport
from frontier_oracle.property_tests.render.table import header, result_of, stories

HEAD = ("system", "check", "cases", "request-rounds", "findings", "declared", "seconds", "result")


def render(report: GateReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: GateReport) -> Iterator[str]:
    yield f"## frontier-oracle gate: {report.verdict}"
    for sentence in filter(None, (report.opening, report.sentence)):
        yield from ("", _cell(sentence))
    yield ""
    yield _row(HEAD)
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |"
    for system in report.systems:
        for check in system.checks:
            declared = sum(f.declared for f in check.findings)
            counts = [f"{n:,}" for n in (check.cases, check.request_rounds, len(check.findings) - declared, declared)]
            result = f"skipped: {check.skipped}" if check.skipped else result_of(check)
            name = f"{system.name} (light)" if system.light else system.name
            yield _row((name, check.id, *counts, f"{check.seconds:.1f}", result))
    if report.mutants:
        killed = sum(m.killed for m in report.mutants)
        yield from ("", f"Planted faults: {killed} of {len(report.mutants)} killed by the rule that names them.")
        for m in report.mutants:
            if not m.killed:
                got = f"expected {m.expected}, got {m.got or 'nothing'}"
                yield f"- **survived**: {_cell(m.id)} on {_cell(m.base)} ({got})"
    if report.deviations:
        yield from ("", "| declared deviation | system | seen |", "| --- | --- | --- |")
        for d in report.deviations:
            yield _row((f"{d.id}: {d.text}", d.system, "yes" if d.seen else "**no**"))
    for told in stories(report):
        fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", told))])
        yield from ("", fence + "text", told, fence)
    yield from ("", f"<sub>{_cell(header(report))}</sub>")


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(text: str) -> str:
    """Text that is no markup: a bar ends a cell, a line end ends the table, an angle bracket opens a tag."""
    escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return escaped.replace("\n", " ").replace("_", "\\_").replace("`", "\\`")
