"""The tables about all inputs together: their means, the definitions, what was wrong, what was passed over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from frontier_oracle.reports.analysis.basis import Basis
from frontier_oracle.reports.analysis.run import Analysis
from frontier_oracle.reports.canonical import NULL, NULL32, Trace
from frontier_oracle.reports.definitions import DEFINITIONS
from frontier_oracle.reports.invariants import INVARIANTS
from frontier_oracle.reports.load import Loaded
from frontier_oracle.reports.problems import ProblemLog
from frontier_oracle.reports.table import Cell, Column, Table

SHOWN_PROBLEMS = 500
SHOWN_NUMBERS = 5000


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
        Column("llama.cpp's mean", "number", DEFINITIONS["predicted_over_nondraft"].formula),
        Column("shortest", "int", "the shortest round, as listed"),
        Column("longest", "int", "the longest round, as listed, from a histogram, or as the source states it"),
        Column("engine's mean", "number", "mean of what the source states; its definition is in the input's section"),
        Column("engine's least", "number", "the smallest mean that the source states"),
        Column("engine's most", "number", "the largest mean that the source states"),
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
                a.headline["predicted_over_nondraft"].value,
                *_ends(a.trace, a.basis),
                *((float(v) for v in (stated.mean(), stated.min(), stated.max())) if stated.size else (None,) * 3),
                rate.value,
                a.trace.problems.total(),
            ]
        )
    note = (
        "Pooled means with 95 % bootstrap intervals over requests. An empty cell is a number the input does not tell."
    )
    table = Table("overview", "All inputs", columns, rows, note)
    if not rows:
        table.unavailable = "the input has no accept lengths"
    return table


def _ends(trace: Trace, basis: Basis | None) -> tuple[int | None, int | None]:
    """The shortest and the longest round of the lengths that the analyses run on. Without lengths: no shortest, and the
    longest if the source states it of every unit."""
    if basis is None or not basis.rounds:
        longest = trace.ints["longest_round"]
        return None, int(longest.max()) if longest.size and int(longest.min()) != NULL else None
    if basis.values is not None:
        known = basis.values[basis.values != NULL32]
        return int(known.min()), int(known.max())
    lengths = np.flatnonzero(basis.histogram) + 1
    return int(lengths[0]), int(lengths[-1])


def engine_numbers(analyses: list[Analysis]) -> Table:
    """Every input's engine numbers below each other, also of the inputs that have no section of their own."""
    kept = ("engine's number", "engine", "definition it follows", "ours, same definition", "agrees", "where")
    rows: list[list[Cell]] = []
    columns: list[Column] = []
    for analysis in analyses:
        table = analysis.table("engine")
        picked = [n for n, column in enumerate(table.columns) if column.name in kept]
        columns = [Column("input"), *(table.columns[n] for n in picked)]
        rows += [[analysis.name, *(row[n] for n in picked)] for row in table.rows]
    table = Table("engine_numbers", "The engines' own numbers, of every input", columns, rows[:SHOWN_NUMBERS])
    if len(rows) > SHOWN_NUMBERS:
        table.note = f"The first {SHOWN_NUMBERS} of {len(rows)}; tables/engine.csv has all."
    if not rows:
        table.unavailable = "no input states a mean or rate of its own"
    return table


def definitions_table() -> Table:
    columns = [Column("number"), Column("formula"), Column("meaning"), Column("used by"), Column("pitfalls")]
    rows: list[list[Cell]] = [
        [d.name, d.formula, d.text, d.used_by, ", ".join(map(str, d.pitfalls))] for d in DEFINITIONS.values()
    ]
    return Table("definitions", "What each number means", columns, rows)


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


def problem_summary(problems: ProblemLog) -> dict[str, Any]:
    """For a JSON summary: counts by kind, and the first of them with their places."""
    return {"counts": dict(problems.counts), "first": [vars(p) for p in problems.rows()[:SHOWN_PROBLEMS]]}


def first_defect(sides: Iterable[Loaded]) -> str:
    """The first defect with its place, for a message of one line."""
    for loaded in sides:
        for problem in loaded.all_problems().rows():
            return f"first: {problem.where}: {problem.message}"
        for name in loaded.unrecognised:
            return f"first: {name}: of no known format"
    return "none"


def passed_over(*sides: Loaded, records: bool = True) -> Table:
    """Files of which nothing is shown. ``records``: whether gate and fuzz records are shown."""
    columns = [Column("file"), Column("why")]
    rows: list[list[Cell]] = []
    for loaded in sides:
        rows += [[name, "of no known format"] for name in loaded.unrecognised]
        rows += [[name, "a link or no regular file; not followed"] for name in loaded.skipped]
        rows += [[name, "of an earlier report in the same place"] for name in loaded.own_output]
        rows += (
            [] if records else [[run.path, "a gate or fuzz record, without accept lengths"] for run in loaded.gate_runs]
        )
    table = Table("passed_over", "Files passed over", columns, rows)
    if not rows:
        table.unavailable = "every file was read"
    return table
