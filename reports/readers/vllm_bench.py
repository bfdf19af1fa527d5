"""The JSON result of ``vllm bench serve``: one aggregate over the run, counters taken after warm-up."""

from __future__ import annotations

import math
import re

from frontier_oracle.reports.builder import BAD_VALUE, TraceBuilder, Unit, as_int
from frontier_oracle.reports.readers.base import JsonReader, TextReader
from frontier_oracle.reports.readers.fields import Fields, Record
from frontier_oracle.reports.readers.vllm_response import set_k

_FIELDS = {
    "bonus_included": True,
    "aggregation_of_source_mean": "pooled",
    "reported_mean": "al_raw",
    "reported_rate": "rate_drafted",
    "truncation": "raw",
}


class VllmBench(JsonReader):
    """The acceptance rate is a percentage, the per-position rates are fractions (pitfall 17)."""

    name = "vllm-bench"
    engine = "vllm"
    header_fields = _FIELDS

    def recognise(self, record: Record) -> bool:
        return "spec_decode_num_drafts" in record or "spec_decode_acceptance_length" in record

    def read(self, record: Fields, out: TraceBuilder) -> None:
        steps = record.integer("spec_decode_num_drafts")
        percent = record.number("spec_decode_acceptance_rate")
        rates = record.numbers("spec_decode_per_position_acceptance_rates") or []
        unit = Unit(
            "run" if not len(out) else f"run {len(out)}",
            record.line,
            kind="aggregate",
            verify_steps=steps,
            accepted_total=record.integer("spec_decode_accepted_tokens"),
            drafted_total=record.integer("spec_decode_draft_tokens"),
            completion_tokens=record.integer("total_output_tokens"),
            requests=record.integer("completed"),
            per_position=counts_of(rates, steps),
            prefill_in_rounds=False,
            reported_mean=record.number("spec_decode_acceptance_length"),
            reported_rate=None if percent is None else percent / 100,
        )
        out.header.model = out.header.model or record.text("model_id")
        set_k(out, len(rates) or None)
        # Output tokens of the whole benchmark and counters of the engine: requests that failed are in one of them
        # only, so the committed total is not derived.
        unit.prefill_in_rounds = None
        out.add(unit)


def counts_of(rates: list[float], steps: int | None) -> list[float] | None:
    """Rounds that accepted each position, from rates over all rounds; None if either is not told."""
    return [rate * steps for rate in rates] if rates and steps is not None else None


class VllmBenchConsole(TextReader):
    """The console block "Speculative Decoding" of the same benchmark."""

    name = "vllm-bench-console"
    engine = "vllm"
    header_fields = _FIELDS
    needles = (
        b"Acceptance rate (%):",
        b"Acceptance length:",
        b"Drafts:",
        b"Draft tokens:",
        b"Accepted tokens:",
        b"  Position ",
    )
    _line = re.compile(
        r"^(Acceptance rate \(%\)|Acceptance length|Drafts|Draft tokens|Accepted tokens|  Position \d+):"
        r"\s+([\d.]+|nan|inf)\s*$"
    )

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.line = 0

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        match = self._line.match(text)
        if match is None:
            return False
        if match[1] in self.values:
            self.finish(out)
        self.line = self.line or line
        value = float(match[2])
        if math.isfinite(value):
            self.values[match[1]] = value
        else:
            out.problem(BAD_VALUE, line, f"{match[1].strip()} is {match[2]}, not a finite number; read as null")
        return True

    def finish(self, out: TraceBuilder) -> None:
        values, self.values = self.values, {}
        if "Drafts" in values:
            steps = int(values["Drafts"])
            rates = [values[key] / 100 for key in values if key.startswith("  Position")]
            set_k(out, len(rates) or None)
            out.add(
                Unit(
                    f"run {len(out)}",
                    self.line,
                    kind="aggregate",
                    verify_steps=steps,
                    accepted_total=as_int(values.get("Accepted tokens")),
                    drafted_total=as_int(values.get("Draft tokens")),
                    per_position=counts_of([*rates], steps),
                    reported_mean=values.get("Acceptance length"),
                    reported_rate=None if "Acceptance rate (%)" not in values else values["Acceptance rate (%)"] / 100,
                )
            )
        self.line = 0
