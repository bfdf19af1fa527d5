"""A comparison for people: the overall means, the categories, one verdict sentence."""

from __future__ import annotations

from collections.abc import Iterator

from frontier_oracle.reports.compare import CompareResult
from frontier_oracle.reports.render.formats import show
from frontier_oracle.reports.table import Table

SHOWN = ("overall", "category")


def render(done: CompareResult) -> str:
    """Aligned tables that have rows, what was wrong with the input, and the verdict."""
    tables = [*(table for table in done.tables if table.key in SHOWN), *done.input_tables]
    lines = [line for table in tables if table.rows for line in (*_lines(table), "")]
    return "\n".join([*lines, done.verdict])


def _lines(table: Table) -> Iterator[str]:
    cells = [[column.name for column in table.columns]]
    cells += [[show(cell, c.kind) for cell, c in zip(row, table.columns, strict=True)] for row in table.rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(table.columns))]
    yield table.title
    for line in cells:
        padded = [
            cell.ljust(width) if column.kind == "text" else cell.rjust(width)
            for cell, width, column in zip(line, widths, table.columns, strict=True)
        ]
        yield "  " + "  ".join(padded).rstrip()
