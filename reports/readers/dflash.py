"""DFlash-style samples with acceptance_lengths, and dflash-mlx benchmark runs with cycles per run."""

from __future__ import annotations

from frontier_oracle.reports.builder import TraceBuilder, Unit, as_float, as_int, int_list
from frontier_oracle.reports.readers.base import (
    JsonReader,
    Record,
    positions_before,
    request_name,
    section,
    text_or_none,
)
from frontier_oracle.reports.readers.vllm_response import set_k

_TOKENS = ("num_output_tokens", "output_tokens", "completion_tokens", "generated_tokens", "new_tokens")


class DflashSamples(JsonReader):
    """One sample a record: lengths with the bonus, normally not cut at the end (pitfall 2).

    The cut is derived only if the sample's output tokens are told and exceed nothing but the last round. A warm-up
    sample flagged in the list is kept and marked (pitfall 5).
    """

    name = "dflash-samples"
    header_fields = {"bonus_included": True, "order_known": "rounds", "truncation": "raw"}

    def recognise(self, record: Record) -> bool:
        return isinstance(record.get("acceptance_lengths"), list)

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        name = request_name(record, line, "sample_id", "question_id", "request_id", "id", "idx", "index")
        lengths = int_list(record["acceptance_lengths"])
        if lengths is None:
            out.problem("unreadable record", line, f"acceptance_lengths of {name!r} is not a list of integers")
            return
        if not lengths:
            out.problem("empty accept_lengths", line, f"request {name!r} has no verify round")
        tokens = next((count for key in _TOKENS if (count := as_int(record.get(key))) is not None), None)
        warm = record.get("is_warmup", record.get("warmup"))
        unit = Unit(
            name,
            line,
            category=text_or_none(record.get("category")),
            completion_tokens=tokens,
            is_warmup=warm if isinstance(warm, bool) else None,
        )
        rounds: dict[str, list[int | None]] = {"al_raw": [*lengths]}
        excess = None if tokens is None or not lengths else sum(lengths) - tokens
        if excess is not None and 0 <= excess < lengths[-1]:
            unit.prefill_in_rounds = True
            rounds["al_committed"] = [*lengths[:-1], lengths[-1] - excess]
            rounds["truncated"] = [*[0] * (len(lengths) - 1), int(excess > 0)]
            out.header.truncation = "both"
        rounds["out_pos"] = positions_before(lengths, 0)
        if unit.is_warmup is not None:
            rounds["is_warmup"] = [int(unit.is_warmup)] * len(lengths)
        unit.rounds = {key: values for key, values in rounds.items()}
        block = as_int(record.get("block_size"))
        if block:
            set_k(out, block - 1)
        out.add(unit)


class DflashRuns(JsonReader):
    """A benchmark run: verify cycles and accepted drafts; block sizes adapt, so a rate over drafts is not known."""

    name = "dflash-mlx-runs"
    engine = "dflash-mlx"
    header_fields = {
        "bonus_included": True,
        "aggregation_of_source_mean": "request",
        "reported_mean": "al_raw",
        "truncation": "unknown",
    }

    def recognise(self, record: Record) -> bool:
        return "cycles" in section(record, "dflash")

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        run = section(record, "dflash")
        block = as_int(record.get("block_tokens"))
        if block:
            set_k(out, block - 1)
        out.header.model = out.header.model or text_or_none(record.get("model"))
        name = f"{text_or_none(record.get('prompt_id')) or 'prompt'} run {as_int(record.get('run')) or line}"
        out.add(
            Unit(
                name,
                line,
                category=text_or_none(record.get("suite")),
                verify_steps=as_int(run.get("cycles")),
                accepted_total=as_int(run.get("accepted_from_draft")),
                reported_mean=as_float(run.get("tokens_per_cycle")),
            )
        )
        for key in ("acceptance_first_20_avg", "acceptance_last_20_avg"):
            out.number(f"{name}: {key}", run.get(key), None, line)
        for block_size, value in section(run, "adaptive_metrics", "tokens_per_cycle_by_block").items():
            out.number(f"{name}: tokens per cycle at block size {block_size}", value, None, line)
