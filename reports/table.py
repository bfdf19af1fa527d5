"""A table of results with its explanation: what every renderer (HTML, CSV, Parquet, Markdown, JSON) is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Column:
    """``kind``: text, int, number (3 decimals), fine (4 decimals) or percent (of a fraction)."""

    name: str
    kind: str = "text"
    help: str = ""


@dataclass
class Table:
    """Rows under columns, or ``unavailable``: one sentence saying what the input does not tell."""

    key: str
    title: str
    columns: list[Column] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)
    note: str = ""
    unavailable: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "columns": [column.name for column in self.columns],
            "rows": self.rows,
            "note": self.note,
            "unavailable": self.unavailable,
        }


def finite(value: float) -> float | None:
    """A float for a cell: None for NaN and infinities, which JSON does not have."""
    number = float(value)
    return number if number - number == 0 else None


def missing(key: str, title: str, reason: str) -> Table:
    return Table(key, title, unavailable=reason)
