"""llama.cpp server: ``timings`` of responses and of receipts that hold many, and both forms of its log."""

from __future__ import annotations

import re

from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.canonical import Header
from frontier_oracle.reports.readers.base import JsonReader, TextReader, section
from frontier_oracle.reports.readers.fields import Fields, Record
from frontier_oracle.reports.readers.vllm_log import recover_steps


def unit_of(holder: Fields, timings: Fields, name: str) -> Unit:
    """A request's totals. No step count is told (PR 27676 was closed); mlx-vlm adds ``draft_rounds``.

    draft_n is only present when something was drafted. predicted_n counts the prefill token (pitfall 3) and, in some
    builds, tokens past the end of sequence, so that completion_tokens is preferred where both are given.
    """
    drafted, accepted = timings.integer("draft_n"), timings.integer("draft_n_accepted")
    if not drafted:
        drafted = accepted = None
    return Unit(
        name,
        holder.line,
        category=holder.text("category"),
        prompt_tokens=timings.integer("prompt_n"),
        completion_tokens=timings.integer("predicted_n"),
        finish_reason=holder.finish_reason(),
        verify_steps=timings.integer("draft_rounds"),
        accepted_total=accepted,
        drafted_total=drafted,
    )


class LlamaCppTimings(JsonReader):
    """One response with ``timings`` at its root."""

    name = "llamacpp-response"
    engine = "llama.cpp"
    header_fields = {"bonus_included": False, "truncation": "unknown"}

    def recognise(self, record: Record) -> bool:
        timings = section(record, "timings")
        return "predicted_n" in timings

    def read(self, record: Fields, out: TraceBuilder) -> None:
        timings = record.section("timings")
        if "draft_kind" in timings:
            out.header.source_engine = "mlx-vlm"
        unit = unit_of(record, timings, record.name("id", "id_slot"))
        for choice in record.sections("choices")[:1]:
            unit.finish_reason = choice.finish_reason()
        if unit.drafted_total is None:
            out.note("responses without draft_n drafted nothing")
        out.add(unit)


class LlamaCppReceipts(JsonReader):
    """A document of many runs, each with ``timings`` or with the same fields beside its id.

    ``metrics_delta``, if given, is the server's own counters over the same requests: kept as the engine's number, since
    it counts verify rounds, which ``timings`` do not.
    """

    name = "llamacpp-receipts"
    engine = "llama.cpp"
    header_fields = {"bonus_included": False, "truncation": "unknown"}

    def recognise(self, record: Record) -> bool:
        runs = record.get("runs")
        for run in runs if isinstance(runs, list) else ():
            inner = section(run).get("records")
            items = inner if isinstance(inner, list) else [run]
            if any("predicted_n" in (section(item, "timings") or section(item)) for item in items):
                return True
        return False

    def read(self, record: Fields, out: TraceBuilder) -> None:
        line = record.line
        for n, run in enumerate(record.sections("runs")):
            several = "records" in run
            parts = [run.record.get(key) for key in ("backend", "label")]
            label = " ".join(str(part) for part in parts if part) or f"run {n}"
            for item in run.sections("records") if several else [run]:
                timings = item.section("timings") or item
                name = str(item.record.get("prompt_id") or item.record.get("id") or f"request {n}")
                name = f"{label} / {name}" if several else name
                if "predicted_n" in timings:
                    out.add(unit_of(item, timings, name))
                else:
                    out.problem("unreadable record", line, f"{name!r} has no predicted_n")
        delta = record.section("metrics_delta")
        rounds = delta.number("llamacpp:spec_decode_num_drafts_total")
        accepted = delta.number("llamacpp:spec_decode_num_accepted_tokens_total")
        if rounds and accepted is not None:
            out.number("1 + accepted / drafts of metrics_delta", 1 + accepted / rounds, "predicted_over_nondraft", line)
            out.number("verify rounds of metrics_delta", rounds, None, line)


_EVAL = re.compile(r"(?<!prompt )eval time =.*?/\s*(\d+) (?:tokens|runs)")
_SLOT = re.compile(r"id\s+(\d+) \| task\s+(-?\d+)")


class LlamaCppLog(TextReader):
    """The newer per-request line, with a mean and per-position rates (PR 24536). Rounds = accepted / (mean - 1)."""

    name = "llamacpp-log"
    engine = "llama.cpp"
    header_fields = {
        "bonus_included": True,
        "aggregation_of_source_mean": "request",
        "truncation": "raw",
        "reported_mean": "al_raw_printed",
        "reported_rate": "rate_drafted_printed",
    }
    needles = (b"draft acceptance = ", b"eval time =")
    _line = re.compile(
        r"draft acceptance = ([\d.]+) \(\s*(\d+) accepted /\s*(\d+) generated\)"
        r"(?:, mean (?:acceptance length|len) =\s*([\d.]+|nan|inf))?(?:, acceptance rate per position = \(([^)]*)\))?"
    )

    def __init__(self) -> None:
        self.generated: dict[str, int] = {}

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        slot = _SLOT.search(text)
        key = f"slot {slot[1]} task {slot[2]}" if slot else ""
        eval_line = _EVAL.search(text)
        if eval_line:
            self.generated[key] = int(eval_line[1])
            return False
        match = self._line.search(text)
        if match is None:
            return self.unread("draft acceptance = ", text, line, out)
        accepted, drafted = int(match[2]), int(match[3])
        rates = [float(r) for r in (match[5] or "").split(",") if r.strip()]
        mean = float(match[4]) if match[4] else None
        steps = None if mean is None else recover_steps(mean, accepted, drafted, rates)
        out.add(
            Unit(
                key or f"request {len(out)}",
                line,
                verify_steps=steps,
                accepted_total=accepted,
                drafted_total=drafted,
                completion_tokens=self.generated.pop(key, None),
                prefill_in_rounds=None,
                per_position=[r * steps for r in rates] if steps and rates else None,
                reported_mean=mean,
                reported_rate=float(match[1]),
            )
        )
        return True


class LlamaCppOldLog(TextReader):
    """The older per-request line: accepted and generated only."""

    name = "llamacpp-log-old"
    engine = "llama.cpp"
    header_fields = {
        "bonus_included": False,
        "aggregation_of_source_mean": "request",
        "truncation": "raw",
        "reported_rate": "rate_drafted_printed",
    }
    needles = (b"draft acceptance rate = ",)
    _line = re.compile(r"draft acceptance rate = ([\d.]+) \(\s*(\d+) accepted /\s*(\d+) generated\)")

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        match = self._line.search(text)
        if match is None:
            return self.unread("draft acceptance rate = ", text, line, out)
        out.add(
            Unit(
                f"request {len(out)}",
                line,
                accepted_total=int(match[2]),
                drafted_total=int(match[3]),
                reported_rate=float(match[1]),
            )
        )
        return True


class LlamaCppStatistics(TextReader):
    """``statistics draft-xxx`` lines: CUMULATIVE since the start, one per kind of drafter; the last of each counts.

    ``#gen drafts`` are the rounds, ``#acc drafts`` the rounds with at least one accepted draft.
    """

    name = "llamacpp-statistics"
    engine = "llama.cpp"
    header_fields = {
        "bonus_included": True,
        "aggregation_of_source_mean": "pooled",
        "truncation": "raw",
        "reported_mean": "al_raw_printed",
    }
    needles = (b"#gen drafts",)
    _line = re.compile(
        r"statistics\s+([\w-]+):.*?#gen drafts =\s*(\d+), #acc drafts =\s*(\d+), #gen tokens =\s*(\d+), "
        r"#acc tokens =\s*(\d+)(?:, #mean acc len =\s*([\d.]+|nan|inf))?(?:, #acc rate/pos = \(([^)]*)\))?"
    )

    def __init__(self) -> None:
        self.last: dict[str, Unit] = {}

    def header(self) -> Header:
        header = super().header()
        header.notes.append("counters since the server started: warm-up traffic is in them")
        return header

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        match = self._line.search(text)
        if match is None:
            return self.unread("statistics ", text, line, out)
        kind, steps, accepted = match[1], int(match[2]), int(match[5])
        before = self.last.get(kind)
        if before is not None and accepted < (before.accepted_total or 0):
            out.note(f"the counters of {kind} were reset (server restart); each life is kept")
            out.add(self.last.pop(kind))
        rates = [float(r) for r in (match[7] or "").split(",") if r.strip()]
        self.last[kind] = Unit(
            kind,
            line,
            kind="lifetime",
            verify_steps=steps,
            accepted_total=accepted,
            drafted_total=int(match[4]),
            per_position=[r * steps for r in rates] or None,
            reported_mean=float(match[6]) if match[6] else None,
        )
        return True

    def finish(self, out: TraceBuilder) -> None:
        for unit in self.last.values():
            out.add(unit)
        self.last = {}
