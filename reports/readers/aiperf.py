"""AIPerf's engine-neutral acceptance records: with ordered steps, or with a histogram only."""

from __future__ import annotations

from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.readers.base import JsonReader, section
from frontier_oracle.reports.readers.fields import Fields, Record
from frontier_oracle.reports.readers.vllm_response import ordered_rounds, set_k

_MEMBERS = {"mean_acceptance_length", "acceptance_histogram", "num_spec_steps"}


class Aiperf(JsonReader):
    """The histogram is an object {accepted drafts: rounds}, keyed like vLLM's and TensorRT-LLM's (pitfall 17)."""

    name = "aiperf-record"
    header_fields = {
        "bonus_included": True,
        "aggregation_of_source_mean": "request",
        "reported_mean": "al_raw",
        "reported_rate": "rate_drafted",
        "order_known": "histogram",
        "truncation": "raw",
    }

    def recognise(self, record: Record) -> bool:
        return record.keys() >= _MEMBERS or section(record, "spec_decode_acceptance").keys() >= _MEMBERS

    def read(self, record: Fields, out: TraceBuilder) -> None:
        spec = record.section("spec_decode_acceptance") or record
        unit = Unit(
            record.name("request_id", "x_request_id", "id"),
            record.line,
            completion_tokens=spec.integer("completion_tokens"),
            prompt_tokens=spec.integer("prompt_tokens"),
            verify_steps=spec.integer("num_spec_steps"),
            accepted_total=spec.integer("num_accepted_draft_tokens"),
            drafted_total=spec.integer("num_draft_tokens"),
            histogram=spec.histogram("acceptance_histogram"),
            prefill_in_rounds=False,
            reported_mean=spec.number("mean_acceptance_length"),
            reported_rate=spec.number("draft_acceptance_rate"),
        )
        out.header.source_engine = out.header.source_engine or spec.text("engine")
        set_k(out, spec.integer("num_spec_tokens"))
        ordered_rounds(unit, spec.integers("per_step_accepted"), spec.integers("per_step_drafted"), out)
        out.add(unit)
