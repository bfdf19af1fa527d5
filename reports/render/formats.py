"""How a cell is written: the same digits in HTML and Markdown."""

from __future__ import annotations

from frontier_oracle.reports.table import Cell

_LONGEST = 300


def show(value: Cell, kind: str) -> str:
    """Text of a cell; an empty string for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"
    if kind == "percent":
        return f"{100 * value:.1f} %"
    if kind == "int":
        return f"{int(value):,}"
    if kind in ("number", "fine"):
        digits = 4 if kind == "fine" else 3
        return f"{value:,.{digits}f}" if not float(value).is_integer() or abs(value) < 1000 else f"{int(value):,}"
    return str(value)


def with_interval(value: float | None, low: float | None, high: float | None, *, percent: bool = False) -> str:
    """``2.51 [2.40, 2.63]``, or a dash."""
    if value is None:
        return "—"
    factor, unit, digits = (100, " %", 1) if percent else (1, "", 3)
    text = f"{factor * value:.{digits}f}{unit}"
    if low is None or high is None:
        return text
    return f"{text} [{factor * low:.{digits}f}, {factor * high:.{digits}f}]"


def markdown_cell(text: str) -> str:
    """A cell that cannot end its column, open a tag or a link, or break the line."""
    for char in ("\\", "|", "<", ">", "[", "]", "`", "*", "_"):
        text = text.replace(char, "\\" + char)
    return " ".join(text.split())
