"""SGLang's bench_serving JSONL and /server_info: one mean, of the server and not of the run."""

from __future__ import annotations

from frontier_oracle.reports.builder import TraceBuilder, Unit, as_float, as_int
from frontier_oracle.reports.readers.base import JsonReader, Record


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
    }

    def recognise(self, record: Record) -> bool:
        return "accept_length" in record and "backend" in record and "total_output_tokens" in record

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        mean = as_float(record.get("accept_length"))
        if mean is None:
            out.note("a run with accept_length null was made without speculation")
        out.note("accept_length is the server's average since its start, warm-up and earlier runs in it")
        out.add(
            Unit(
                f"run {len(out)}",
                line,
                kind="aggregate",
                reported_mean=mean,
                requests=as_int(record.get("completed")),
                completion_tokens=as_int(record.get("total_output_tokens")),
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
    }

    def recognise(self, record: Record) -> bool:
        states = record.get("internal_states")
        return isinstance(states, list) and any(
            isinstance(state, dict) and "avg_spec_accept_length" in state for state in states
        )

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        out.note("the server's average since its start or last internal-state update")
        for n, state in enumerate(record["internal_states"]):
            if isinstance(state, dict):
                out.add(
                    Unit(
                        f"state {n}", line, kind="lifetime", reported_mean=as_float(state.get("avg_spec_accept_length"))
                    )
                )
