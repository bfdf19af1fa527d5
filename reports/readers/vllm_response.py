"""vLLM responses with per-request speculative metrics, summary (histogram) or detailed (ordered rounds)."""

from __future__ import annotations

from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.readers.base import JsonReader, committed_from_raw, positions_before, section
from frontier_oracle.reports.readers.fields import Fields, Record


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

    def read(self, record: Fields, out: TraceBuilder) -> None:
        spec = record.section("metrics", "speculative_decoding")
        usage = record.section("usage")
        choice = next(iter(record.sections("choices")), record.section())
        unit = Unit(
            record.name("id"),
            record.line,
            choice=choice.integer("index"),
            prompt_tokens=usage.integer("prompt_tokens"),
            completion_tokens=usage.integer("completion_tokens"),
            finish_reason=choice.finish_reason(),
            verify_steps=spec.integer("num_spec_steps"),
            accepted_total=spec.integer("num_accepted_draft_tokens"),
            drafted_total=spec.integer("num_draft_tokens"),
            prefill_in_rounds=False,
            histogram=spec.integers("acceptance_histogram"),
            reported_mean=spec.number("mean_acceptance_length"),
            reported_rate=spec.number("draft_acceptance_rate"),
        )
        if unit.completion_tokens is not None:
            out.header.truncation = "both"
        out.header.model = out.header.model or record.text("model")
        set_k(out, spec.integer("num_spec_tokens"))
        ordered_rounds(unit, spec.integers("per_step_accepted"), spec.integers("per_step_drafted"), out)
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
