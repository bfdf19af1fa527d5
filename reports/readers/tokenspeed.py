"""TokenSpeed: meta_info, the per-request log lines and the batch log lines."""

from __future__ import annotations

import re

from frontier_oracle.reports.builder import TraceBuilder, Unit, as_float, as_int
from frontier_oracle.reports.readers.base import JsonReader, Record, TextReader, request_name, section
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

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        meta = section(record, "meta_info")
        out.add(
            Unit(
                request_name(meta, line, "id", "rid"),
                line,
                prompt_tokens=as_int(meta.get("prompt_tokens")),
                completion_tokens=as_int(meta.get("completion_tokens")),
                verify_steps=as_int(meta.get("spec_verify_ct")),
                prefill_in_rounds=False,
                reported_mean=as_float(meta.get("accept_draft_tokens")),
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
        return bool(stats or short)

    def _request_stats(self, name: str, fields: dict[str, str], line: int, out: TraceBuilder) -> None:
        unit = self.units.setdefault(name, Unit(name, line))
        unit.completion_tokens = _whole(fields.get("output_tokens"))
        unit.prompt_tokens = _whole(fields.get("prompt_tokens"))
        unit.finish_reason = (fields.get("reason") or "").strip("'") or None
        unit.reported_rate = _real(fields.get("acc_rate"))
        unit.prefill_in_rounds = False
        mean = unit.reported_mean if unit.reported_mean is not None else _real(fields.get("acc_len"))
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
    }
    needles = (b"avg_accept_len: ",)
    _line = re.compile(r"Decode batch\. #running-req: \d+,.*?avg_accept_len: ([\d.]+), accept_rate: ([\d.]+)")

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        match = self._line.search(text)
        if match is None:
            return False
        out.note("windows of decode steps without counts: they cannot be weighted into one mean")
        out.add(
            Unit(
                f"window {len(out)}", line, kind="window", reported_mean=float(match[1]), reported_rate=float(match[2])
            )
        )
        return True


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 13 else None


def _real(text: str | None) -> float | None:
    try:
        return as_float(float(text)) if text is not None else None
    except ValueError:
        return None
