"""InferenceX golden acceptance-length curves (YAML): one published mean per model, mode and number of drafts."""

from __future__ import annotations

import re

from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.readers.base import TextReader


class GoldenCurves(TextReader):
    """Reference values for synthetic acceptance: published means with no rounds under them (pitfall 12)."""

    name = "golden-al-yaml"
    header_fields = {
        "bonus_included": True,
        "order_known": "mean",
        "aggregation_of_source_mean": "pooled",
    }
    needles = (b"Acceptance Length (AL) reference", b"value = golden AL")
    opens = True
    _key = re.compile(r"^(\s*)([^\s#:][^:]*):\s*$")
    _value = re.compile(r"^\s+(\d{1,4}):\s*([\d.]{1,20})\s*$")

    def __init__(self) -> None:
        self.path: list[tuple[int, str]] = []

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        key, value = self._key.match(text), self._value.match(text)
        if key:
            indent = len(key[1])
            self.path = [(depth, name) for depth, name in self.path if depth < indent] + [(indent, key[2])]
        elif value:
            where = " ".join(name for _, name in self.path)
            out.add(
                Unit(f"{where} k={value[1]}", line, kind="aggregate", category=where, reported_mean=float(value[2]))
            )
        return True
