"""TokenSpeed: meta_info, the per-request log lines and the batch log lines."""

from __future__ import annotations

import re

from frontier_oracle.reports.builder import BAD_VALUE, TraceBuilder, Unit, as_float
from frontier_oracle.reports.readers.base import JsonReader, TextReader, section
from frontier_oracle.reports.readers.fields import Fields, Record
from frontier_oracle.reports.readers.vllm_response import set_k

_FIELDS = {
    "bonus_included": True,
    "aggregation_of_source_mean": "request",
    "truncation": "committed",
    "reported_mean": "completion_less_prefill",
    "reported_rate": "rate_verify_width",
}


class TokenSpeedMeta(JsonReader):
    """``accept_draft_tokens``, despite its name, is (completion - 1) / verify steps: a mean (pitfall 17)."""

    name = "tokenspeed-meta-info"
    engine = "tokenspeed"
    header_fields = _FIELDS

    def recognise(self, record: Record) -> bool:
        return "accept_draft_tokens" in section(record, "meta_info")

    def read(self, record: Fields, out: TraceBuilder) -> None:
        meta = record.section("meta_info")
        out.add(
            Unit(
                meta.name("id", "rid"),
                record.line,
                prompt_tokens=meta.integer("prompt_tokens"),
                completion_tokens=meta.integer("completion_tokens"),
                verify_steps=meta.integer("spec_verify_ct"),
                prefill_in_rounds=False,
                reported_mean=meta.number("accept_draft_tokens"),
            )
        )


class TokenSpeedLog(TextReader):
    """``Req: <id> Finish!`` lines, short or with RequestStats; one request may have both.

    acc_len = (output - 1) / verify steps, so the steps follow from a RequestStats line; acc_rate divides by the verify
    width k, not by k - 1 drafts (pitfall 6), so it never exceeds (k - 1) / k.
    """

    name = "tokenspeed-request-log"
    engine = "tokenspeed"
    header_fields = {
        **_FIELDS,
        "reported_mean": "completion_less_prefill_printed",
        "reported_rate": "rate_verify_width_printed",
    }
    needles = (b" Finish! ",)
    _short = re.compile(r"Req: (\S+) Finish! Accept_num_tokens_avg: ([\d.]+)")
    _stats = re.compile(r"Req: (\S+) Finish! RequestStats\((.*)\)")
    _field = re.compile(r"(\w+)=('(?:[^'\\]|\\.)*'|[^,]*)")

    def __init__(self) -> None:
        self.units: dict[str, Unit] = {}

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        short, stats = self._short.search(text), self._stats.search(text)
        if stats:
            self._request_stats(stats[1], dict(self._field.findall(stats[2])), line, out)
        elif short:
            unit = self.units.setdefault(short[1], Unit(short[1], line))
            unit.reported_mean = float(short[2])
        else:
            marks = ("Accept_num_tokens_avg", "RequestStats(")
            return any(self.unread(mark, text, line, out) for mark in marks)
        return True

    def _request_stats(self, name: str, fields: dict[str, str], line: int, out: TraceBuilder) -> None:
        def number(key: str) -> float | None:
            text = fields.get(key, "None").strip()
            value = _real(text)
            if value is None and text != "None":
                out.problem(BAD_VALUE, line, f"{key} of request {name!r} is {text[:40]}, not a finite number")
            return value

        def whole(key: str) -> int | None:
            value = number(key)
            if value is not None and value != int(value):
                out.problem(BAD_VALUE, line, f"{key} of request {name!r} is {value}, not a whole number")
                return None
            return None if value is None else int(value)

        unit = self.units.setdefault(name, Unit(name, line))
        unit.completion_tokens, unit.prompt_tokens = whole("output_tokens"), whole("prompt_tokens")
        unit.finish_reason = (fields.get("reason") or "").strip("'") or None
        unit.reported_rate = number("acc_rate")
        unit.prefill_in_rounds = False
        mean = number("acc_len")
        mean = mean if unit.reported_mean is None else unit.reported_mean
        unit.reported_mean = mean
        if unit.completion_tokens is None or not mean:
            return
        unit.verify_steps = steps = round((unit.completion_tokens - 1) / mean)
        if steps < 1 or abs((unit.completion_tokens - 1) / steps - mean) > 0.0051:
            unit.verify_steps = None
            return
        rate = unit.reported_rate
        if rate and mean > 1:
            width = (mean - 1) / rate
            if abs(width - round(width)) < 0.05:
                set_k(out, round(width) - 1)

    def finish(self, out: TraceBuilder) -> None:
        for unit in self.units.values():
            out.add(unit)
        self.units = {}


class TokenSpeedBatchLog(TextReader):
    """``Decode batch.`` with a period and ``avg_accept_len``: not SGLang's line. Its rate divides by k - 1."""

    name = "tokenspeed-batch-log"
    engine = "tokenspeed"
    header_fields = {
        "bonus_included": True,
        "aggregation_of_source_mean": "window",
        "order_known": "mean",
        "truncation": "raw",
        "reported_mean": "al_raw_printed",
        "reported_rate": "rate_configured_printed",
    }
    needles = (b"avg_accept_len: ",)
    _line = re.compile(r"Decode batch\. #running-req: \d+,.*?avg_accept_len: ([\d.]+), accept_rate: ([\d.]+)")

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        match = self._line.search(text)
        if match is None:
            return self.unread("Decode batch.", text, line, out)
        out.note("windows of decode steps without counts: they cannot be weighted into one mean")
        out.add(
            Unit(
                f"window {len(out)}", line, kind="window", reported_mean=float(match[1]), reported_rate=float(match[2])
            )
        )
        return True


def _real(text: str) -> float | None:
    try:
        return as_float(float(text))
    except ValueError:
        return None
