"""DFlash-style samples with acceptance_lengths, and dflash-mlx benchmark runs with cycles per run."""

from __future__ import annotations

from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.readers.base import JsonReader, positions_before, section
from frontier_oracle.reports.readers.fields import Fields, Record
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

    def read(self, record: Fields, out: TraceBuilder) -> None:
        name = record.name("sample_id", "question_id", "request_id", "id", "idx", "index")
        lengths = record.integers("acceptance_lengths")
        if lengths is None:
            return
        if not lengths:
            out.problem("empty accept_lengths", record.line, f"request {name!r} has no verify round")
        tokens = record.integer(*_TOKENS)
        unit = Unit(
            name,
            record.line,
            category=record.text("category"),
            completion_tokens=tokens,
            is_warmup=record.flag("is_warmup", "warmup"),
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
        block = record.integer("block_size")
        if block:
            set_k(out, block - 1)
        out.add(unit)


def _longest(metrics: Fields) -> int | None:
    """The largest block size used, if a cycle of it was accepted in full: that cycle gave as many tokens. If none was,
    no number tells the longest round."""
    cycles, full = metrics.section("cycles_by_block"), metrics.section("full_accepts_by_block")
    used = [size for size in cycles.record if size.isdecimal() and len(size) < 6 and (cycles.integer(size) or 0) > 0]
    largest = max(used, key=int, default=None)
    return int(largest) if largest is not None and (full.integer(largest) or 0) > 0 else None


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

    def read(self, record: Fields, out: TraceBuilder) -> None:
        run = record.section("dflash")
        block = record.integer("block_tokens")
        if block:
            set_k(out, block - 1)
        out.header.model = out.header.model or record.text("model")
        name = f"{record.text('prompt_id') or 'prompt'} run {record.integer('run') or record.line}"
        out.add(
            Unit(
                name,
                record.line,
                category=record.text("suite"),
                verify_steps=run.integer("cycles"),
                accepted_total=run.integer("accepted_from_draft"),
                reported_mean=run.number("tokens_per_cycle"),
                longest_round=_longest(run.section("adaptive_metrics")),
            )
        )
        for key in ("acceptance_first_20_avg", "acceptance_last_20_avg"):
            out.number(f"{name}: {key}", run.number(key), None, record.line)
        by_block = run.section("adaptive_metrics", "tokens_per_cycle_by_block")
        for size in by_block.record:
            out.number(f"{name}: tokens per cycle at block size {size}", by_block.number(size), None, record.line)
