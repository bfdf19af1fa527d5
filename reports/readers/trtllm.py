"""TensorRT-LLM: iteration statistics, per-request performance metrics, and the bench report and console."""

from __future__ import annotations

import re

from frontier_oracle.reports.builder import TraceBuilder, Unit, as_float, as_int, int_list
from frontier_oracle.reports.readers.base import JsonReader, Record, TextReader, finish_reason, request_name, section
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

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        stats = section(record, "specDecodingStats")
        steps = as_int(stats.get("numRequestsWithDraftTokens"))
        out.add(
            Unit(
                request_name(record, line, "iter"),
                line,
                kind="iteration",
                verify_steps=steps,
                accepted_total=as_int(stats.get("numAcceptedTokens")),
                drafted_total=as_int(stats.get("numDraftTokens")),
                reported_mean=as_float(stats.get("acceptanceLength")) if steps else None,
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

    def _found(self, record: Record) -> list[tuple[Record, Record]]:
        """(spec section, its holder) of the record itself or of each of its choices."""
        holders = [record, *(c for c in record.get("choices") or () if isinstance(c, dict))]
        found = []
        for holder in holders:
            for path in (
                ("perf_metrics", "speculative_decoding"),
                ("request_perf_metrics", "speculative_decoding"),
                ("speculative_decoding",),
            ):
                spec = section(holder, *path)
                if "total_accepted_draft_tokens" in spec:
                    found.append((spec, holder))
                    break
        return found

    def recognise(self, record: Record) -> bool:
        choices = record.get("choices")
        return (choices is None or isinstance(choices, list)) and bool(self._found(record))

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        found = self._found(record)
        completion = as_int(section(record, "usage").get("completion_tokens")) if len(found) == 1 else None
        for spec, holder in found:
            drafted = as_int(spec.get("total_draft_tokens"))
            accepted = as_int(spec.get("total_accepted_draft_tokens"))
            if drafted == 0:
                out.note("a request with zero draft tokens: nothing was drafted, or the version does not fill them in")
                drafted = accepted = None
            unit = Unit(
                request_name(record, line, "request_id", "id"),
                line,
                choice=as_int(holder.get("index")) if holder is not record else None,
                completion_tokens=completion,
                finish_reason=finish_reason(holder.get("finish_reason")),
                verify_steps=as_int(spec.get("num_spec_steps")),
                accepted_total=accepted,
                drafted_total=drafted,
                histogram=int_list(spec.get("acceptance_histogram")),
                prefill_in_rounds=False,
                reported_rate=as_float(spec.get("acceptance_rate")),
            )
            if unit.histogram is not None:
                out.header.order_known = "histogram"
            set_k(out, as_int(spec.get("num_spec_tokens")))
            mean = as_float(holder.get("avg_decoded_tokens_per_iter"))
            if mean is not None:
                out.header.reported_mean = "completion_over_iterations"
                unit.reported_mean = mean
            out.add(unit)


class TrtllmBench(JsonReader):
    """trtllm-bench's JSON report: percentiles over requests of AL = output tokens / (decode iterations + 1)."""

    name = "trtllm-bench"
    engine = "tensorrt-llm"
    header_fields = {
        "bonus_included": True,
        "aggregation_of_source_mean": "request",
        "order_known": "mean",
        "truncation": "committed",
    }

    def recognise(self, record: Record) -> bool:
        return "acceptance_length_percentiles" in section(record, "decoding_stats")

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        stats = section(record, "decoding_stats")
        lengths = section(stats, "acceptance_length_percentiles")
        rates = section(stats, "draft_acceptance_rate_percentiles")
        out.note("draft tokens in this report are reconstructed from the configured maximum: an upper bound")
        out.add(
            Unit(
                f"run {len(out)}",
                line,
                kind="aggregate",
                reported_mean=as_float(lengths.get("average")),
                reported_rate=as_float(rates.get("average")),
            )
        )
        for key, value in lengths.items():
            out.number(f"acceptance length {key} over requests", value, None, line)


class TrtllmBenchConsole(TextReader):
    """The console's ``[AL] AVERAGE: 2.10`` lines (also [DT], [ADT], [DAR])."""

    name = "trtllm-bench-console"
    engine = "tensorrt-llm"
    header_fields = {
        "bonus_included": True,
        "aggregation_of_source_mean": "request",
        "order_known": "mean",
        "truncation": "committed",
    }
    needles = (b"[AL]", b"[DAR]", b"[ADT]", b"[DT]")
    _line = re.compile(r"\[(AL|DAR|ADT|DT)\]\s+(MINIMUM|MAXIMUM|AVERAGE|P\d+)\s*:\s*([\d.]+)")
    _names = {
        "AL": "acceptance length",
        "DAR": "draft acceptance rate",
        "ADT": "accepted draft tokens",
        "DT": "draft tokens",
    }

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        match = self._line.search(text)
        if match is None:
            return False
        value = as_float(float(match[3]))
        out.number(f"{self._names[match[1]]} {match[2].lower()} over requests", value, None, line)
        if (match[1], match[2]) == ("AL", "AVERAGE"):
            out.note("acceptance length here is output tokens / (decode iterations + 1), a mean over requests")
            out.add(Unit(f"run {len(out)}", line, kind="aggregate", reported_mean=value))
        return True
