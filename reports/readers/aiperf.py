"""AIPerf's engine-neutral acceptance records: with ordered steps, or with a histogram only."""

from __future__ import annotations

from frontier_oracle.reports.builder import TraceBuilder, Unit, as_float, as_int, int_list
from frontier_oracle.reports.readers.base import JsonReader, Record, request_name, section, text_or_none
from frontier_oracle.reports.readers.vllm_response import ordered_rounds, set_k

_MEMBERS = {"mean_acceptance_length", "acceptance_histogram", "num_spec_steps"}
_LONGEST = 4096


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

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        spec = section(record, "spec_decode_acceptance") or record
        unit = Unit(
            request_name(record, line, "request_id", "x_request_id", "id"),
            line,
            completion_tokens=as_int(spec.get("completion_tokens")),
            prompt_tokens=as_int(spec.get("prompt_tokens")),
            verify_steps=as_int(spec.get("num_spec_steps")),
            accepted_total=as_int(spec.get("num_accepted_draft_tokens")),
            drafted_total=as_int(spec.get("num_draft_tokens")),
            histogram=histogram_of(spec.get("acceptance_histogram")),
            prefill_in_rounds=False,
            reported_mean=as_float(spec.get("mean_acceptance_length")),
            reported_rate=as_float(spec.get("draft_acceptance_rate")),
        )
        out.header.source_engine = out.header.source_engine or text_or_none(spec.get("engine"))
        set_k(out, as_int(spec.get("num_spec_tokens")))
        ordered_rounds(unit, int_list(spec.get("per_step_accepted")), int_list(spec.get("per_step_drafted")), out)
        out.add(unit)


def histogram_of(value: object) -> list[int] | None:
    """{"0": 1, "2": 4} as a dense list, or a list as it is; None if a key or count is no small whole number."""
    if isinstance(value, list):
        return int_list(value)
    if not isinstance(value, dict) or not value:
        return None
    pairs = []
    for key, count in value.items():
        number = as_int(count)
        if not str(key).isdecimal() or int(str(key)[:9]) > _LONGEST or number is None:
            return None
        pairs.append((int(key), number))
    dense = [0] * (max(j for j, _ in pairs) + 1)
    for j, count in pairs:
        dense[j] = count
    return dense
