"""SGLang per-request counters: ``meta_info`` (new, old and oldest names) and the OpenAI ``sglext`` extension."""

from __future__ import annotations

from typing import Any

from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.readers.base import JsonReader, section
from frontier_oracle.reports.readers.fields import Fields, Record
from frontier_oracle.reports.readers.vllm_response import set_k

_FIELDS: dict[str, Any] = {
    "bonus_included": True,
    "aggregation_of_source_mean": "request",
    "reported_mean": "completion_over_verify",
    "reported_rate": "rate_drafted",
    "order_known": "histogram",
    "truncation": "both",
}


def counters(spec: Fields, unit: Unit, out: TraceBuilder) -> None:
    """Fill a unit from SGLang's counters under any of their names (PR 18332 renamed them).

    Proposals are reconstructed by the engine as verify_ct * (num_draft_tokens - 1), which gives k. The histogram
    counts accepted drafts before the end of sequence cut (pitfall 15), grows on demand, and excludes the bonus.
    """
    unit.verify_steps = spec.integer("spec_verify_ct")
    unit.accepted_total = spec.integer("spec_num_correct_drafts", "spec_accept_token_num")
    unit.drafted_total = spec.integer("spec_num_proposed_drafts", "spec_draft_token_num")
    unit.histogram = spec.integers("spec_correct_drafts_histogram", "spec_accept_histogram") or None
    unit.reported_mean = spec.number("spec_accept_length")
    unit.reported_rate = spec.number("spec_accept_rate")
    unit.prefill_in_rounds = False
    if spec.number("spec_cap_length"):
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

    def read(self, record: Fields, out: TraceBuilder) -> None:
        meta = record.section("meta_info")
        unit = Unit(
            meta.name("id", "rid"),
            record.line,
            prompt_tokens=meta.integer("prompt_tokens"),
            completion_tokens=meta.integer("completion_tokens"),
            finish_reason=meta.finish_reason(),
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

    def read(self, record: Fields, out: TraceBuilder) -> None:
        extension = record.section("sglext")
        listed = isinstance(extension.record.get("spec_tokens_details"), list)
        specs = extension.sections("spec_tokens_details") if listed else [extension.section("spec_tokens_details")]
        several = len(specs) > 1
        name, usage, choices = record.name("id"), record.section("usage"), record.sections("choices")
        out.header.model = out.header.model or record.text("model")
        for n, spec in enumerate(specs):
            choice = choices[n] if n < len(choices) else record.section()
            unit = Unit(
                name,
                record.line,
                choice=n,
                prompt_tokens=usage.integer("prompt_tokens"),
                # usage sums the choices: with more than one, no choice's own completion is known
                completion_tokens=None if several else usage.integer("completion_tokens"),
                finish_reason=choice.finish_reason(),
            )
            counters(spec, unit, out)
            out.add(unit)
