"""``report``: files in any engine's shape in, one HTML page, plots, tables, a JSON and a Markdown summary out."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.analysis.run import Analysis, analyse
from frontier_oracle.reports.canonical import Trace
from frontier_oracle.reports.gate_runs import kill_matrix
from frontier_oracle.reports.gate_runs import tables as gate_tables
from frontier_oracle.reports.load import Loaded, load
from frontier_oracle.reports.output import PAGE, Output
from frontier_oracle.reports.problems import ProblemLog
from frontier_oracle.reports.render import html, markdown, overview, plots, tables

MAX_SECTIONS = 24


@dataclass(frozen=True)
class ReportResult:
    """Where the report is and what it says. ``exit_code`` is 0, or 2 under ``strict`` with defects in the input."""

    html: Path
    summary: dict[str, Any]
    exit_code: int
    message: str


def report(
    paths: Sequence[str | Path],
    out_dir: str | Path,
    *,
    input_format: str | None = None,
    strict: bool = False,
    draft_cost: float | None = None,
    title: str = "Accept-length report",
    max_sections: int = MAX_SECTIONS,
) -> ReportResult:
    """Read ``paths`` (files, directories, globs) and write the report into ``out_dir``, which is made.

    Writes index.html, summary.json, summary.md, tables/, plots/ and canonical/. Gate and fuzz records are rendered too.
    draft_cost is the cost of one draft step in target steps, for the recommended number of drafts. UsageError if a
    named file cannot be read, or nothing at all was recognised.
    """
    if draft_cost is not None and not 0 <= draft_cost < 100:
        raise UsageError(f"--draft-cost {draft_cost}: expected the cost of a draft step in target steps, such as 0.05")
    output = Output(out_dir)
    loaded = load(paths, input_format=input_format, output=out_dir)
    if not loaded.traces and not loaded.gate_runs:
        raise UsageError(_nothing(loaded))
    content = _Content(title, loaded, analyse_all(loaded.traces, draft_cost=draft_cost), loaded.all_problems())
    for analysis in content.analyses[:max_sections]:
        analysis.add_what_if()
    result = summary_of(content)
    with output.writing() as folder:
        _write_page(folder, content, max_sections)
        _write_tables(folder, content)
        (folder / "summary.json").write_text(json.dumps(result, indent=1, allow_nan=False), encoding="utf-8")
        (folder / "summary.md").write_text(_markdown(content), encoding="utf-8")
    defects, page = loaded.defects(), Path(out_dir) / PAGE
    message = f"{_lead(content)} Report: {page}"
    if strict and defects:
        message = f"{defects} defects in the input (--strict): see {page}"
    return ReportResult(page, result, 2 if strict and defects else 0, message)


def _markdown(content: _Content) -> str:
    tables_shown = [
        overview.overview_table(content.analyses),
        *(kill_matrix(run, f"Kill matrix of {os.path.basename(run.path)}") for run in content.loaded.gate_runs),
        overview.problem_counts(content.problems),
        overview.passed_over(content.loaded),
    ]
    return markdown.summary(content.title, _lead(content), tables_shown)


@dataclass(frozen=True)
class _Content:
    """What is written: the analyses (most rounds first), the gate runs in ``loaded``, and every problem."""

    title: str
    loaded: Loaded
    analyses: list[Analysis]
    problems: ProblemLog


def _write_page(out: Path, content: _Content, max_sections: int) -> None:
    (out / "plots").mkdir()
    detailed = content.analyses[:max_sections]
    made = [plots.plots(analysis) for analysis in detailed]
    overview_plot = plots.overview(content.analyses)
    sections = [html.section_of(a, n, p) for n, (a, p) in enumerate(zip(detailed, made, strict=True))]
    runs = content.loaded.gate_runs
    sections += [html.gate_section(run, os.path.basename(run.path), n) for n, run in enumerate(runs)]
    text = html.page(
        {
            "title": content.title,
            "lead": _lead(content),
            "version": html.version(),
            "overview": overview.overview_table(content.analyses),
            "overview_plot": overview_plot,
            "sections": sections,
            "left_out": _left_out(len(content.analyses), max_sections),
            "engine_numbers": overview.engine_numbers(content.analyses),
            "definitions": overview.definitions_table(),
            "problem_counts": overview.problem_counts(content.problems),
            "problem_rows": overview.problem_rows(content.problems, overview.SHOWN_PROBLEMS),
            "passed_over": overview.passed_over(content.loaded),
        }
    )
    (out / PAGE).write_text(text, encoding="utf-8")
    named = [("overview", [overview_plot] if overview_plot else []), *((f"input-{n}", p) for n, p in enumerate(made))]
    for stem, drawn in named:
        for plot in drawn:
            (out / "plots" / f"{stem}-{plot.key}.svg").write_text(plot.svg, encoding="utf-8")
            (out / "plots" / f"{stem}-{plot.key}.png").write_bytes(plot.png())


def _write_tables(out: Path, content: _Content) -> None:
    (out / "tables").mkdir()
    (out / "canonical").mkdir()
    shared = [overview.overview_table(content.analyses), overview.definitions_table()]
    named = [("", table) for table in [*shared, overview.problem_rows(content.problems, None)]]
    named += [(a.name, table) for a in content.analyses for table in a.tables]
    named += [(os.path.basename(run.path), table) for run in content.loaded.gate_runs for table in gate_tables(run)]
    tables.write_tables(out / "tables", named)
    for n, analysis in enumerate(content.analyses):
        tables.write_canonical(out / "canonical", analysis.trace, f"input-{n}")


def _nothing(loaded: Loaded) -> str:
    first = next((problem.message for problem in loaded.problems.rows()), None)
    why = f"; first error: {first}" if first else ""
    return f"none of {loaded.files} files is of a known format{why}"


def analyse_all(traces: list[Trace], *, draft_cost: float | None = None) -> list[Analysis]:
    """Analyses, the inputs with the most rounds first."""
    names = trace_names(traces)
    analyses = [analyse(trace, name, draft_cost=draft_cost) for trace, name in zip(traces, names, strict=True)]
    return sorted(
        analyses, key=lambda a: -a.trace.n_rounds if a.basis is None else -max(a.basis.rounds, a.trace.n_rounds)
    )


def trace_names(traces: list[Trace]) -> list[str]:
    """A short, unique name per trace: the path below what all share, and the format if a file holds several."""
    files = [trace.header.source_file for trace in traces]
    shared = os.path.dirname(os.path.commonprefix([os.path.abspath(file) + "/" for file in files]) + "x")
    names: list[str] = []
    for trace, file in zip(traces, files, strict=True):
        name = os.path.relpath(os.path.abspath(file), shared) if len(set(files)) > 1 else os.path.basename(file)
        if files.count(file) > 1:
            name += f" ({trace.header.source_format})"
        name = re.sub(r"[\x00-\x1f\x7f]", "?", name)
        names.append(name if name not in names else f"{name} #{len(names)}")
    return names


def _left_out(count: int, most: int) -> str:
    if count <= most:
        return ""
    return f"Details are shown for the {most} inputs with the most rounds; tables/ and summary.json have all {count}."


def _lead(content: _Content) -> str:
    loaded, analyses = content.loaded, content.analyses
    units = sum(a.trace.n_units for a in analyses)
    rounds = sum(a.trace.n_rounds for a in analyses)
    parts = []
    if analyses:
        parts.append(
            f"{len(analyses)} inputs from {loaded.files} files, {units:,} requests or windows, "
            f"{rounds:,} ordered rounds."
        )
    parts += [f"{os.path.basename(run.path)}: {run.verdict or 'no verdict'}." for run in loaded.gate_runs]
    if content.problems.total():
        parts.append(f"{content.problems.total():,} problems in the input, all counted below.")
    if loaded.unrecognised:
        parts.append(f"{len(loaded.unrecognised)} files of no known format.")
    return " ".join(parts)


def summary_of(content: _Content) -> dict[str, Any]:
    """The JSON summary: plain data, no NaN."""
    return {
        "title": content.title,
        "version": html.version(),
        "files": content.loaded.files,
        "unrecognised": content.loaded.unrecognised,
        "skipped": content.loaded.skipped,
        "problems": overview.problem_summary(content.problems),
        "gate_runs": [
            {
                "file": run.path,
                "header": run.header,
                "verdict": run.verdict,
                "tables": {table.key: table.to_dict() for table in [kill_matrix(run), *gate_tables(run)]},
            }
            for run in content.loaded.gate_runs
        ],
        "inputs": [
            {
                "name": a.name,
                "header": a.trace.header.to_dict(),
                "units": a.trace.n_units,
                "rounds": a.trace.n_rounds,
                "basis": None if a.basis is None else a.basis.what,
                "headline": {
                    key: {
                        "value": e.value,
                        "low": e.low,
                        "high": e.high,
                        "definition": e.formula,
                        "reason": e.reason,
                    }
                    for key, e in a.headline.items()
                },
                "tables": {table.key: table.to_dict() for table in a.tables},
            }
            for a in content.analyses
        ],
    }
