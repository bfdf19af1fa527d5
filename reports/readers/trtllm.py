"""TensorRT-LLM: iteration statistics, per-request performance metrics, and the bench report and console."""

from __future__ import annotations

import re

from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.readers.base import JsonReader, TextReader, section
from frontier_oracle.reports.readers.fields import Fields, Record
from frontier_oracle.reports.readers.vllm_response import set_k


class TrtllmIterations(JsonReader):
    """``specDecodingStats``: one row per iteration over the whole batch. acceptanceLength pools that iteration only.

    Requests without draft tokens are in no denominator (pitfall 6); rows with none are no verify step.
    """

    name = "trtllm-iteration-stats"
    engine = "tensorrt-llm"
    header_fields = {
        "bonus_included": True,
        "aggregation_of_source_mean": "window",
        "reported_mean": "al_raw",
        "truncation": "raw",
    }

    def recognise(self, record: Record) -> bool:
        return "numAcceptedTokens" in section(record, "specDecodingStats")

    def read(self, record: Fields, out: TraceBuilder) -> None:
        stats = record.section("specDecodingStats")
        steps = stats.integer("numRequestsWithDraftTokens")
        mean = stats.number("acceptanceLength")
        out.add(
            Unit(
                record.name("iter"),
                record.line,
                kind="iteration",
                verify_steps=steps,
                accepted_total=stats.integer("numAcceptedTokens"),
                drafted_total=stats.integer("numDraftTokens"),
                reported_mean=mean if steps else None,
            )
        )


class TrtllmPerfMetrics(JsonReader):
    """Totals of a request, from the perf-metrics JSON or a response's choices. No step count.

    All zero before PR 17082 in the PyTorch flow: a request with zero drafts is read as unknown, not as zero rounds.
    """

    name = "trtllm-perf-metrics"
    engine = "tensorrt-llm"
    header_fields = {
        "bonus_included": False,
        "aggregation_of_source_mean": "request",
        "reported_rate": "rate_drafted",
        "truncation": "raw",
    }

    _paths = (
        ("perf_metrics", "speculative_decoding"),
        ("request_perf_metrics", "speculative_decoding"),
        ("speculative_decoding",),
    )

    def _path(self, holder: Record) -> tuple[str, ...] | None:
        """Where the counters of a record or of one of its choices stand."""
        return next((path for path in self._paths if "total_accepted_draft_tokens" in section(holder, *path)), None)

    def recognise(self, record: Record) -> bool:
        choices = record.get("choices")
        if choices is not None and not isinstance(choices, list):
            return False
        holders = [record, *(choice for choice in choices or () if isinstance(choice, dict))]
        return any(self._path(holder) for holder in holders)

    def read(self, record: Fields, out: TraceBuilder) -> None:
        holders = [record, *record.sections("choices")]
        found = [(h.section(*path), h) for h in holders if (path := self._path(h.record)) is not None]
        completion = record.section("usage").integer("completion_tokens")
        name = record.name("request_id", "id")
        for spec, holder in found:
            drafted = spec.integer("total_draft_tokens")
            accepted = spec.integer("total_accepted_draft_tokens")
            if drafted == 0:
                out.note("a request with zero draft tokens: nothing was drafted, or the version does not fill them in")
                drafted = accepted = None
            unit = Unit(
                name,
                record.line,
                choice=holder.integer("index") if holder is not record else None,
                completion_tokens=completion if len(found) == 1 else None,
                finish_reason=holder.finish_reason(),
                verify_steps=spec.integer("num_spec_steps"),
                accepted_total=accepted,
                drafted_total=drafted,
                histogram=spec.integers("acceptance_histogram"),
                prefill_in_rounds=False,
                reported_rate=spec.number("acceptance_rate"),
            )
            if unit.histogram is not None:
                out.header.order_known = "histogram"
            set_k(out, spec.integer("num_spec_tokens"))
            mean = holder.number("avg_decoded_tokens_per_iter")
            if mean is not None:
                out.header.reported_mean = "completion_over_iterations"
                unit.reported_mean = mean
            out.add(unit)


PER_REQUEST = "completion_over_iterations"
_BENCH_FIELDS = {
    "bonus_included": True,
    "aggregation_of_source_mean": "request",
    "order_known": "mean",
    "truncation": "committed",
    "reported_mean": f"{PER_REQUEST}:requests",
    "reported_rate": "rate_configured:requests",
}


class TrtllmBench(JsonReader):
    """trtllm-bench's JSON report: percentiles over requests of AL = output tokens / (decode iterations + 1)."""

    name = "trtllm-bench"
    engine = "tensorrt-llm"
    header_fields = _BENCH_FIELDS

    def recognise(self, record: Record) -> bool:
        return "acceptance_length_percentiles" in section(record, "decoding_stats")

    def read(self, record: Fields, out: TraceBuilder) -> None:
        stats = record.section("decoding_stats")
        lengths = stats.section("acceptance_length_percentiles")
        rates = stats.section("draft_acceptance_rate_percentiles")
        out.note("draft tokens in this report are reconstructed from the configured maximum: an upper bound")
        out.add(
            Unit(
                f"run {len(out)}",
                record.line,
                kind="aggregate",
                reported_mean=lengths.number("average"),
                reported_rate=rates.number("average"),
            )
        )
        for key in lengths.record:
            if key != "average":
                number = lengths.number(key)
                out.number(f"acceptance length {key} over requests", number, f"{PER_REQUEST}:{key}", record.line)


class TrtllmBenchConsole(TextReader):
    """The console's ``[AL] AVERAGE: 2.10`` lines (also [DT], [ADT], [DAR])."""

    name = "trtllm-bench-console"
    engine = "tensorrt-llm"
    header_fields = _BENCH_FIELDS
    needles = (b"[AL]", b"[DAR]", b"[ADT]", b"[DT]")
    _line = re.compile(r"\[(AL|DAR|ADT|DT)\]\s+(MINIMUM|MAXIMUM|AVERAGE|P\d+)\s*:\s*([\d.]+|nan|inf)")
    _statistic = re.compile(r"\[(?:AL|DAR|ADT|DT)\]\s+(?:MINIMUM|MAXIMUM|AVERAGE|P\d+)")
    _names = {
        "AL": "acceptance length",
        "DAR": "draft acceptance rate",
        "ADT": "accepted draft tokens",
        "DT": "draft tokens",
    }

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        match = self._line.search(text)
        if match is None:
            stated = self._statistic.search(text)
            return stated is not None and self.unread(stated[0], text, line, out)
        value = float(match[3])
        follows = f"{PER_REQUEST}:{match[2].lower()}" if match[1] == "AL" else None
        if (match[1], match[2]) != ("AL", "AVERAGE"):
            out.number(f"{self._names[match[1]]} {match[2].lower()} over requests", value, follows, line)
        if (match[1], match[2]) == ("AL", "AVERAGE"):
            out.note("acceptance length here is output tokens / (decode iterations + 1), a mean over requests")
            out.add(Unit(f"run {len(out)}", line, kind="aggregate", reported_mean=value))
        return True
