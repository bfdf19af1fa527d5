"""The summary for a CI step: one Markdown table of means, and what was wrong with the input."""

from __future__ import annotations

from frontier_oracle.reports.render.formats import markdown_cell, show
from frontier_oracle.reports.table import Table

MAX_ROWS = 200
"""A CI step's summary holds one megabyte."""


def table_lines(table: Table) -> list[str]:
    if table.unavailable:
        return [markdown_cell(table.unavailable[0].upper() + table.unavailable[1:]) + ".", ""]
    head = "| " + " | ".join(markdown_cell(column.name) for column in table.columns) + " |"
    rule = "|" + "|".join(" --- " if column.kind == "text" else " ---: " for column in table.columns) + "|"
    rows = [
        "| "
        + " | ".join(markdown_cell(show(cell, column.kind)) for cell, column in zip(row, table.columns, strict=True))
        + " |"
        for row in table.rows[:MAX_ROWS]
    ]
    more = [f"{len(table.rows) - MAX_ROWS} more rows stand in the report's tables.", ""]
    return [head, rule, *rows, "", *(more if len(table.rows) > MAX_ROWS else ())]


def summary(title: str, lead: str, tables: list[Table]) -> str:
    lines = [f"## {markdown_cell(title)}", "", markdown_cell(lead), ""]
    for table in tables:
        lines += [f"### {markdown_cell(table.title)}", "", *table_lines(table)]
        if table.note and not table.unavailable:
            lines += [markdown_cell(table.note), ""]
    return "\n".join(lines)
