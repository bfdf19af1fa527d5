"""vLLM responses with per-request speculative metrics, summary (histogram) or detailed (ordered rounds)."""

from __future__ import annotations

from frontier_oracle.reports.builder import TraceBuilder, Unit, as_float, as_int, int_list
from frontier_oracle.reports.readers.base import (
    JsonReader,
    Record,
    committed_from_raw,
    finish_reason,
    positions_before,
    request_name,
    section,
    text_or_none,
)


class VllmResponse(JsonReader):
    """``metrics.speculative_decoding`` at the response's root; counts exclude the bonus, the mean includes it.

    The mean counts tokens past the end of the sequence: it is raw (pitfall 2).
    """

    name = "vllm-response"
    engine = "vllm"
    header_fields = {
        "bonus_included": True,
        "aggregation_of_source_mean": "request",
        "reported_mean": "al_raw",
        "reported_rate": "rate_drafted",
        "order_known": "histogram",
        "truncation": "raw",
    }

    def recognise(self, record: Record) -> bool:
        spec = section(record, "metrics", "speculative_decoding")
        return "num_spec_steps" in spec or "acceptance_histogram" in spec

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        spec = section(record, "metrics", "speculative_decoding")
        usage = section(record, "usage")
        choices = record.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        unit = Unit(
            request_name(record, line, "id"),
            line,
            choice=as_int(choice.get("index")),
            prompt_tokens=as_int(usage.get("prompt_tokens")),
            completion_tokens=as_int(usage.get("completion_tokens")),
            finish_reason=finish_reason(choice.get("finish_reason")),
            verify_steps=as_int(spec.get("num_spec_steps")),
            accepted_total=as_int(spec.get("num_accepted_draft_tokens")),
            drafted_total=as_int(spec.get("num_draft_tokens")),
            prefill_in_rounds=False,
            histogram=int_list(spec.get("acceptance_histogram")),
            reported_mean=as_float(spec.get("mean_acceptance_length")),
            reported_rate=as_float(spec.get("draft_acceptance_rate")),
        )
        if unit.completion_tokens is not None:
            out.header.truncation = "both"
        out.header.model = out.header.model or text_or_none(record.get("model"))
        set_k(out, as_int(spec.get("num_spec_tokens")))
        ordered_rounds(unit, int_list(spec.get("per_step_accepted")), int_list(spec.get("per_step_drafted")), out)
        out.add(unit)


MOST_DRAFTS = 1 << 16
"""A configured number of drafts above this is taken for damage."""


def set_k(out: TraceBuilder, k_draft: int | None) -> None:
    """Note the configured number of drafts; a second, different one is a note and the larger is kept."""
    if k_draft is None:
        return
    if not 0 <= k_draft <= MOST_DRAFTS:
        out.problem("count out of range", None, f"{str(k_draft)[:20]} drafts per round were configured; read as null")
        return
    known = out.header.k_draft
    if known is not None and known != k_draft:
        out.note(
            f"requests were configured with different numbers of drafts ({known} and {k_draft}); the larger is used"
        )
    out.header.k_draft = max(k_draft, known or 0)
    out.header.k_verify_width = out.header.k_draft + 1


def ordered_rounds(unit: Unit, accepted: list[int] | None, drafted: list[int] | None, out: TraceBuilder) -> None:
    """Fill the unit's rounds from per-step lists of accepted and proposed drafts (accepted excludes the bonus)."""
    if not accepted:
        return
    if drafted is not None and len(drafted) != len(accepted):
        out.problem(
            "lists of different length",
            unit.line,
            f"request {unit.request_id!r}: per_step_drafted has "
            f"{len(drafted)} steps, per_step_accepted {len(accepted)}; drafted is read as null",
        )
        drafted = None
    raw = [j + 1 for j in accepted]
    committed = committed_from_raw(raw, unit.completion_tokens, out, unit)
    out_pos = positions_before(raw, 1)
    prompt = unit.prompt_tokens
    unit.rounds = {
        "al_raw": raw,
        "al_committed": committed,
        "out_pos": out_pos,
        "ctx_len": [None if prompt is None or at is None else prompt + at for at in out_pos],
        "truncated": [None if c is None else int(c < r) for r, c in zip(raw, committed, strict=True)],
    }
    if drafted is not None:
        unit.rounds["drafted"] = drafted
    out.header.order_known = "rounds"
    if unit.completion_tokens is not None:
        out.header.truncation = "both"
