"""SGLang's bench_serving JSONL and /server_info: one mean, of the server and not of the run."""

from __future__ import annotations

from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.readers.base import JsonReader
from frontier_oracle.reports.readers.fields import Fields, Record


class SglangBench(JsonReader):
    """``accept_length`` is the server's average since its start or last internal-state update (pitfall 5).

    The file is appended to, so that each line is a run; null means no speculation.
    """

    name = "sglang-bench"
    engine = "sglang"
    header_fields = {
        "bonus_included": True,
        "aggregation_of_source_mean": "pooled",
        "order_known": "mean",
        "truncation": "raw",
        "reported_mean": "al_raw",
    }

    def recognise(self, record: Record) -> bool:
        return "accept_length" in record and "backend" in record and "total_output_tokens" in record

    def read(self, record: Fields, out: TraceBuilder) -> None:
        mean = record.number("accept_length")
        if record.record["accept_length"] is None:
            out.note("a run with accept_length null was made without speculation")
        out.note("accept_length is the server's average since its start, warm-up and earlier runs in it")
        out.add(
            Unit(
                f"run {len(out)}",
                record.line,
                kind="aggregate",
                reported_mean=mean,
                requests=record.integer("completed"),
                completion_tokens=record.integer("total_output_tokens"),
            )
        )


class SglangServerInfo(JsonReader):
    """``internal_states[].avg_spec_accept_length``, one per data-parallel rank."""

    name = "sglang-server-info"
    engine = "sglang"
    header_fields = {
        "bonus_included": True,
        "aggregation_of_source_mean": "pooled",
        "order_known": "mean",
        "truncation": "raw",
        "reported_mean": "al_raw",
    }

    def recognise(self, record: Record) -> bool:
        states = record.get("internal_states")
        return isinstance(states, list) and any(
            isinstance(state, dict) and "avg_spec_accept_length" in state for state in states
        )

    def read(self, record: Fields, out: TraceBuilder) -> None:
        out.note("the server's average since its start or last internal-state update")
        for n, state in enumerate(record.sections("internal_states")):
            mean = state.number("avg_spec_accept_length")
            out.add(Unit(f"state {n}", record.line, kind="lifetime", reported_mean=mean))
