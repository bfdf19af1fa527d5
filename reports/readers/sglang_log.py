"""SGLang's "Decode batch" lines: a mean and a rate per window of decode steps, and no counts."""

from __future__ import annotations

import re

from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.readers.base import TextReader

_RATE = re.compile(r"accept rate: ([\d.]+)")


class SglangLog(TextReader):
    """``Decode batch``, an optional ``[iteration]``, a comma, and fields of which only accept len and rate matter.

    The lengths are raw: the window's pooled mean before the end of sequence cut.
    """

    name = "sglang-log"
    engine = "sglang"
    header_fields = {
        "bonus_included": True,
        "aggregation_of_source_mean": "window",
        "order_known": "mean",
        "truncation": "raw",
        "reported_mean": "al_raw_printed",
        "reported_rate": "rate_configured_printed",
    }
    needles = (b"accept len: ",)
    _line = re.compile(r"Decode batch(?: ?\[\d+\])?, #running-req: (\d+),.*?, accept len: ([\d.]+)")

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        match = self._line.search(text)
        if match is None:
            return self.unread("Decode batch", text, line, out)
        if "cap len: " in text:
            out.note("DSpark caps the verify width per round")
        rate = _RATE.search(text)
        out.note("windows of decode steps without counts: they cannot be weighted into one mean")
        out.add(
            Unit(
                f"window {len(out)}",
                line,
                kind="window",
                reported_mean=float(match[2]),
                reported_rate=float(rate[1]) if rate else None,
            )
        )
        return True
