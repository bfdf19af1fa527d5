"""GitHub's workflow commands: what fails shows on the run's page."""

from __future__ import annotations

from collections.abc import Iterator

from frontier_oracle.property_tests.gate.results import GateReport
from frontier_oracle.property_tests.render.table import story


def render(report: GateReport) -> str:
    """One command a line, "" when there is nothing to say."""
    return "\n".join(_commands(report))


def _commands(report: GateReport) -> Iterator[str]:
    for system in report.systems:
        for check in system.checks:
            for finding in check.findings:
                if not finding.declared:
                    title = f"{finding.code} {finding.title} ({system.name}, {check.id})"
                    yield _command("error", title, "\n".join(story(finding)))
    for m in report.mutants:
        if not m.killed:
            message = f"expected {m.expected}, got {m.got or 'nothing'}"
            yield _command("error", f"planted fault survived: {m.id} on {m.base}", message)
    for d in report.deviations:
        if not d.seen:
            yield _command("warning", f"declared deviation not seen: {d.id} ({d.system})", d.text)


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title={_escape(title, ',:')}::{_escape(message)}"


def _escape(text: str, more: str = "") -> str:
    """Percent codes for what would end the command: line ends, and in a property commas and colons."""
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
