"""Rows of ``bench oracle`` for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

COLUMNS = ("sweep", "k", "rounds", "batch", "context", "request_rounds")


def render(rows: Sequence[Mapping[str, Any]]) -> str:
    """An aligned table, and the ratio to checking one request at a time."""
    head = [name.replace("_", "-") for name in COLUMNS] + ["seconds", "request-rounds/s"]
    body = [
        [f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in COLUMNS]
        + [f"{row['seconds']:.3f}", f"{row['request_rounds_per_second']:,.0f}"]
        for row in rows
    ]
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in [head, *body]
    ]
    lines += [f"{row['ratio']:.0f} times as fast as one request at a time" for row in rows if "ratio" in row]
    return "\n".join(lines)
