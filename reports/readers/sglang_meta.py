"""SGLang per-request counters: ``meta_info`` (new, old and oldest names) and the OpenAI ``sglext`` extension."""

from __future__ import annotations

from typing import Any

from frontier_oracle.reports.builder import TraceBuilder, Unit, as_float, as_int, int_list
from frontier_oracle.reports.readers.base import JsonReader, Record, finish_reason, request_name, section, text_or_none
from frontier_oracle.reports.readers.vllm_response import set_k

_FIELDS: dict[str, Any] = {
    "bonus_included": True,
    "aggregation_of_source_mean": "request",
    "reported_mean": "completion_over_verify",
    "reported_rate": "rate_drafted",
    "order_known": "histogram",
    "truncation": "both",
}


def counters(spec: Record, unit: Unit, out: TraceBuilder) -> None:
    """Fill a unit from SGLang's counters under any of their names (PR 18332 renamed them).

    Proposals are reconstructed by the engine as verify_ct * (num_draft_tokens - 1), which gives k. The histogram
    counts accepted drafts before the end of sequence cut (pitfall 15), grows on demand, and excludes the bonus.
    """
    unit.verify_steps = as_int(spec.get("spec_verify_ct"))
    unit.accepted_total = as_int(spec.get("spec_num_correct_drafts", spec.get("spec_accept_token_num")))
    unit.drafted_total = as_int(spec.get("spec_num_proposed_drafts", spec.get("spec_draft_token_num")))
    unit.histogram = int_list(spec.get("spec_correct_drafts_histogram", spec.get("spec_accept_histogram"))) or None
    unit.reported_mean = as_float(spec.get("spec_accept_length"))
    unit.reported_rate = as_float(spec.get("spec_accept_rate"))
    unit.prefill_in_rounds = False
    if as_float(spec.get("spec_cap_length")):
        out.note("DSpark caps the verify width per round; rates over proposals use the uncapped width")
    steps, drafted = unit.verify_steps, unit.drafted_total
    if steps and drafted and steps > 0 and drafted % steps == 0:
        set_k(out, drafted // steps)
    if unit.histogram is None:
        out.header.order_known = "totals"


class SglangMeta(JsonReader):
    """``/generate`` responses. The mean is completion / verify steps: the prefill token is in it (pitfall 3)."""

    name = "sglang-meta-info"
    engine = "sglang"
    header_fields = _FIELDS

    def recognise(self, record: Record) -> bool:
        meta = section(record, "meta_info")
        return "spec_verify_ct" in meta and "accept_draft_tokens" not in meta

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        meta = section(record, "meta_info")
        unit = Unit(
            request_name(meta, line, "id", "rid"),
            line,
            prompt_tokens=as_int(meta.get("prompt_tokens")),
            completion_tokens=as_int(meta.get("completion_tokens")),
            finish_reason=finish_reason(meta.get("finish_reason")),
        )
        counters(meta, unit, out)
        out.add(unit)


class SglangChat(JsonReader):
    """OpenAI responses with ``return_spec_tokens_details``: an object, or a list with one element per choice."""

    name = "sglang-openai"
    engine = "sglang"
    header_fields = _FIELDS

    def recognise(self, record: Record) -> bool:
        return "spec_tokens_details" in section(record, "sglext")

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        details = section(record, "sglext").get("spec_tokens_details")
        usage = section(record, "usage")
        choices = record.get("choices")
        choices = choices if isinstance(choices, list) else []
        several = isinstance(details, list) and len(details) > 1
        out.header.model = out.header.model or text_or_none(record.get("model"))
        for n, spec in enumerate(details if isinstance(details, list) else [details]):
            if not isinstance(spec, dict):
                out.problem("unreadable record", line, f"spec_tokens_details[{n}] is not an object")
                continue
            choice = choices[n] if n < len(choices) and isinstance(choices[n], dict) else {}
            unit = Unit(
                request_name(record, line, "id"),
                line,
                choice=n,
                prompt_tokens=as_int(usage.get("prompt_tokens")),
                # usage sums the choices: with more than one, no choice's own completion is known
                completion_tokens=None if several else as_int(usage.get("completion_tokens")),
                finish_reason=finish_reason(choice.get("finish_reason")),
            )
            counters(spec, unit, out)
            out.add(unit)
