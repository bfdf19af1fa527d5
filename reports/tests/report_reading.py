"""Shared by the tests of the readers: text in, what was loaded out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from frontier_oracle.reports.canonical import Trace
from frontier_oracle.reports.load import Loaded, load


def read(tmp_path: Path, text: str, name: str = "input.txt", **options: Any) -> Loaded:
    path = tmp_path / name
    path.write_text(text)
    return load([path], **options)


def one(loaded: Loaded) -> Trace:
    (trace,) = loaded.traces
    return trace


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)
