"""The one self-contained page: escaped by jinja2's autoescape, its one script pinned by hash, no network."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from importlib import metadata, resources
from typing import Any

import jinja2

from frontier_oracle.reports.analysis.run import Analysis
from frontier_oracle.reports.gate_runs import GateRun, kill_matrix, tables
from frontier_oracle.reports.render.formats import show, with_interval
from frontier_oracle.reports.render.plots import Plot
from frontier_oracle.reports.table import Column, Table


@dataclass(frozen=True)
class Card:
    name: str
    value: str
    formula: str
    reason: str


@dataclass(frozen=True)
class Section:
    id: str
    name: str
    cards: list[Card]
    notes: list[str]
    plots: list[Plot]
    tables: list[Table]
    header: Table | None


def section_of(analysis: Analysis, index: int, plots: list[Plot]) -> Section:
    cards = [
        Card(
            e.definition.name,
            with_interval(e.value, e.low, e.high, percent=e.definition.is_rate),
            e.formula,
            e.reason,
        )
        for key, e in analysis.headline.items()
        if e.value is not None or key in ("al_raw", "al_committed")
    ]
    return Section(
        f"input-{index}",
        analysis.name,
        cards,
        analysis.trace.header.notes,
        plots,
        analysis.tables,
        header_table(analysis),
    )


def gate_section(run: GateRun, name: str, index: int) -> Section:
    """A gate or fuzz record: its verdict, and the kill matrix before the longer tables."""
    rounds = sum(check["request_rounds"] for check in run.checks)
    seconds = sum(run.seconds.values())
    cards = [
        Card("Verdict", run.verdict or "none", f"profile {run.header['profile']}, seed {run.header['seed']}", ""),
        Card("Planted faults killed", f"{run.killed} of {len(run.mutants)}", "killed by the rule that names them", ""),
        Card("Request-rounds judged", f"{rounds:,}", f"{len(run.checks)} checks", ""),
        Card("Throughput", f"{rounds / seconds:,.0f} / s" if seconds else "—", "request-rounds / seconds of the checks",
             "" if seconds else "the record has no timing"),
    ]  # fmt: skip
    return Section(f"gate-{index}", name, cards, [], [], [kill_matrix(run), *tables(run)], None)


def header_table(analysis: Analysis) -> Table:
    fields = analysis.trace.header.to_dict()
    rows: list[list[Any]] = [
        [name, "not told" if value is None else "; ".join(value) if isinstance(value, list) else str(value)]
        for name, value in fields.items()
    ]
    return Table("header", "What the source says about itself", [Column("field"), Column("value")], rows)


def version() -> str:
    try:
        return metadata.version("frontier-oracle")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def page(context: dict[str, Any]) -> str:
    """The HTML text. ``context`` holds the template's variables except style and script."""
    folder = resources.files(__package__)
    script = (folder / "page.js").read_text(encoding="utf-8")
    css = (folder / "page.css").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=False)
    template = environment.from_string((folder / "page.html.j2").read_text(encoding="utf-8"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = template.render(**context, show=show, css=css, script=script, script_hash=digest)
    return re.sub(r"\n\s*\n+", "\n", text)
