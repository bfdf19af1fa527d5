"""``report``: files in any engine's shape in, one HTML page, plots, tables, a JSON and a Markdown summary out."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.analysis.run import Analysis, analyse
from frontier_oracle.reports.canonical import Trace
from frontier_oracle.reports.definitions import DEFINITIONS
from frontier_oracle.reports.invariants import INVARIANTS
from frontier_oracle.reports.load import Loaded, load
from frontier_oracle.reports.problems import ProblemLog
from frontier_oracle.reports.render import html, markdown, plots, tables
from frontier_oracle.reports.table import Cell, Column, Table

MAX_SECTIONS = 24
_SHOWN_PROBLEMS = 500


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

    Writes index.html, summary.json, summary.md, problems.csv, tables/, plots/ and canonical/. draft_cost is the cost of
    one draft step in target steps, for the recommended number of drafts. UsageError if a named file cannot be read, or
    nothing at all was recognised.
    """
    if draft_cost is not None and not 0 <= draft_cost < 100:
        raise UsageError(f"--draft-cost {draft_cost}: expected the cost of a draft step in target steps, such as 0.05")
    loaded = load(paths, input_format=input_format)
    if not loaded.traces:
        raise UsageError(_nothing(loaded))
    out = _make(Path(out_dir))
    analyses = analyse_all(loaded.traces, draft_cost=draft_cost)
    problems = _problems(loaded)
    overview = overview_table(analyses)
    lead = _lead(loaded, analyses, problems)
    detailed = analyses[:max_sections]
    plot_lists = [plots.plots(analysis) for analysis in detailed]
    overview_plot = plots.overview(analyses)
    text = html.page(
        {
            "title": title,
            "lead": lead,
            "version": _version(),
            "overview": overview,
            "overview_plot": overview_plot,
            "sections": [html.section_of(a, n, p) for n, (a, p) in enumerate(zip(detailed, plot_lists, strict=True))],
            "left_out": _left_out(len(analyses), max_sections),
            "definitions": definitions_table(),
            "problem_counts": problem_counts(problems),
            "problem_rows": problem_rows(problems, _SHOWN_PROBLEMS),
            "passed_over": passed_over(loaded),
        }
    )
    (out / "index.html").write_text(text, encoding="utf-8")
    _write_plots(
        out / "plots",
        [
            ("overview", [overview_plot] if overview_plot else []),
            *((f"input-{n}", p) for n, p in enumerate(plot_lists)),
        ],
    )
    tables.write_tables(
        out / "tables",
        [
            ("", overview),
            ("", definitions_table()),
            ("", problem_rows(problems, None)),
            *((a.name, table) for a in analyses for table in a.tables),
        ],
    )
    for n, analysis in enumerate(analyses):
        tables.write_canonical(out / "canonical", analysis.trace, f"input-{n}")
    result = summary_of(title, loaded, analyses, problems)
    (out / "summary.json").write_text(json.dumps(result, indent=1, allow_nan=False), encoding="utf-8")
    text = markdown.summary(title, lead, [overview, problem_counts(problems)])
    (out / "summary.md").write_text(text, encoding="utf-8")
    defects = loaded.defects()
    message = f"{lead} Report: {out / 'index.html'}"
    if strict and defects:
        message = f"{defects} defects in the input (--strict): see {out / 'index.html'}"
    return ReportResult(out / "index.html", result, 2 if strict and defects else 0, message)


def _make(out: Path) -> Path:
    try:
        for name in ("tables", "plots", "canonical"):
            (out / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out}: cannot be made ({error.strerror}); give another directory with -o") from None
    return out


def _version() -> str:
    try:
        return metadata.version("frontier-oracle")
    except metadata.PackageNotFoundError:
        return "(not installed)"


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


def overview_table(analyses: list[Analysis]) -> Table:
    columns = [
        Column("input"),
        Column("format"),
        Column("model or method"),
        Column("requests", "int"),
        Column("rounds", "int"),
        Column("raw mean", "number", DEFINITIONS["al_raw"].formula),
        Column("raw low", "number"),
        Column("raw high", "number"),
        Column("committed mean", "number", DEFINITIONS["al_committed"].formula),
        Column("committed low", "number"),
        Column("committed high", "number"),
        Column("listed mean", "number", DEFINITIONS["al_reported"].formula),
        Column("engine's mean", "number", "mean of what the source states; its definition is in the input's section"),
        Column("rate", "percent", DEFINITIONS["rate_drafted"].formula),
        Column("defects", "int"),
    ]
    rows: list[list[Cell]] = []
    for a in analyses:
        raw, committed, rate = (a.headline[key] for key in ("al_raw", "al_committed", "rate_drafted"))
        steps = a.trace.known("verify_steps")
        total = float(steps[steps > 0].sum())
        stated = a.trace.reported_mean[a.trace.reported_mean == a.trace.reported_mean]
        rows.append(
            [
                a.name,
                a.trace.header.source_format,
                a.trace.header.method or a.trace.header.model,
                a.trace.n_units,
                int(total) or None,
                raw.value,
                raw.low,
                raw.high,
                committed.value,
                committed.low,
                committed.high,
                a.headline["al_reported"].value,
                float(stated.mean()) if stated.size else None,
                rate.value,
                a.trace.problems.total(),
            ]
        )
    note = (
        "Pooled means with 95 % bootstrap intervals over requests. An empty cell is a number the input does not tell."
    )
    return Table("overview", "All inputs", columns, rows, note)


def definitions_table() -> Table:
    columns = [Column("number"), Column("formula"), Column("meaning"), Column("used by"), Column("pitfalls")]
    rows: list[list[Cell]] = [
        [d.name, d.formula, d.text, d.used_by, ", ".join(map(str, d.pitfalls))] for d in DEFINITIONS.values()
    ]
    return Table("definitions", "What each number means", columns, rows)


def _problems(loaded: Loaded) -> ProblemLog:
    problems = ProblemLog()
    problems.merge(loaded.problems)
    for trace in loaded.traces:
        problems.merge(trace.problems)
    return problems


def problem_counts(problems: ProblemLog) -> Table:
    columns = [Column("kind"), Column("count", "int"), Column("meaning")]
    rows: list[list[Cell]] = [[kind, n, INVARIANTS.get(kind, "")] for kind, n in problems.counts.most_common()]
    table = Table("problem_counts", "Problems by kind", columns, rows)
    if not rows:
        table.unavailable = "no problem was found"
    return table


def problem_rows(problems: ProblemLog, most: int | None) -> Table:
    columns = [Column("kind"), Column("where"), Column("what")]
    rows: list[list[Cell]] = [[p.kind, p.where, p.message] for p in problems.rows()]
    table = Table("problems", "Every problem and its place", columns, rows[:most])
    if most is not None and len(rows) > most:
        table.note = f"The first {most} of {problems.total()}; tables/problems.csv has more."
    if not rows:
        table.unavailable = "no problem was found"
    return table


def passed_over(loaded: Loaded) -> Table:
    columns = [Column("file"), Column("why")]
    rows: list[list[Cell]] = [[name, "of no known format"] for name in loaded.unrecognised]
    rows += [[name, "a link or no regular file; not followed"] for name in loaded.skipped]
    table = Table("passed_over", "Files passed over", columns, rows)
    if not rows:
        table.unavailable = "every file was read"
    return table


def _left_out(count: int, most: int) -> str:
    if count <= most:
        return ""
    return f"Details are shown for the {most} inputs with the most rounds; tables/ and summary.json have all {count}."


def _lead(loaded: Loaded, analyses: list[Analysis], problems: ProblemLog) -> str:
    units = sum(a.trace.n_units for a in analyses)
    rounds = sum(a.trace.n_rounds for a in analyses)
    parts = [
        f"{len(analyses)} inputs from {loaded.files} files, {units:,} requests or windows, {rounds:,} ordered rounds."
    ]
    if problems.total():
        parts.append(f"{problems.total():,} problems in the input, all counted below.")
    if loaded.unrecognised:
        parts.append(f"{len(loaded.unrecognised)} files of no known format.")
    return " ".join(parts)


def _write_plots(folder: Path, named: list[tuple[str, list[plots.Plot]]]) -> None:
    for stem, made in named:
        for plot in made:
            (folder / f"{stem}-{plot.key}.svg").write_text(plot.svg, encoding="utf-8")
            (folder / f"{stem}-{plot.key}.png").write_bytes(plot.png())


def summary_of(title: str, loaded: Loaded, analyses: list[Analysis], problems: ProblemLog) -> dict[str, Any]:
    """The JSON summary: plain data, no NaN."""
    return {
        "title": title,
        "version": _version(),
        "files": loaded.files,
        "unrecognised": loaded.unrecognised,
        "skipped": loaded.skipped,
        "problems": {
            "counts": dict(problems.counts),
            "first": [vars(p) for p in problems.rows()[:_SHOWN_PROBLEMS]],
        },
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
                        "definition": e.definition.formula,
                        "reason": e.reason,
                    }
                    for key, e in a.headline.items()
                },
                "tables": {table.key: table.to_dict() for table in a.tables},
            }
            for a in analyses
        ],
    }
