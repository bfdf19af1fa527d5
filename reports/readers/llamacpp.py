"""llama.cpp server: ``timings`` of responses and of receipts that hold many, and both forms of its log."""

from __future__ import annotations

import re

from frontier_oracle.reports.builder import TraceBuilder, Unit, as_float, as_int
from frontier_oracle.reports.canonical import Header
from frontier_oracle.reports.readers.base import JsonReader, Record, TextReader, finish_reason, request_name, section
from frontier_oracle.reports.readers.vllm_log import recover_steps


def unit_of(holder: Record, timings: Record, name: str, line: int) -> Unit:
    """A request's totals. No step count is told (PR 27676 was closed); mlx-vlm adds ``draft_rounds``.

    draft_n is only present when something was drafted. predicted_n counts the prefill token (pitfall 3) and, in some
    builds, tokens past the end of sequence, so that completion_tokens is preferred where both are given.
    """
    drafted, accepted = as_int(timings.get("draft_n")), as_int(timings.get("draft_n_accepted"))
    if not drafted:
        drafted = accepted = None
    predicted = as_int(timings.get("predicted_n"))
    return Unit(
        name,
        line,
        category=holder.get("category") if isinstance(holder.get("category"), str) else None,
        prompt_tokens=as_int(timings.get("prompt_n")),
        completion_tokens=predicted,
        finish_reason=finish_reason(holder.get("finish_reason")),
        verify_steps=as_int(timings.get("draft_rounds")),
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

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        timings = section(record, "timings")
        if "draft_kind" in timings:
            out.header.source_engine = "mlx-vlm"
        choices = record.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else record
        unit = unit_of(record, timings, request_name(record, line, "id", "id_slot"), line)
        unit.finish_reason = finish_reason(choice.get("finish_reason"))
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
        return any(True for _ in self._requests(record))

    def _requests(self, record: Record) -> list[tuple[str, Record, Record]]:
        runs = record.get("runs")
        found = []
        for n, run in enumerate(runs if isinstance(runs, list) else ()):
            if not isinstance(run, dict):
                continue
            inner = run.get("records")
            label = " ".join(str(run[key]) for key in ("backend", "label") if run.get(key)) or f"run {n}"
            for item in inner if isinstance(inner, list) else [run]:
                if not isinstance(item, dict):
                    continue
                timings = section(item, "timings") or item
                if "predicted_n" in timings:
                    name = str(item.get("prompt_id") or item.get("id") or f"request {n}")
                    found.append((f"{label} / {name}" if isinstance(inner, list) else name, item, timings))
        return found

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        for name, item, timings in self._requests(record):
            out.add(unit_of(item, timings, name, line))
        delta = section(record, "metrics_delta")
        rounds = as_float(delta.get("llamacpp:spec_decode_num_drafts_total"))
        accepted = as_float(delta.get("llamacpp:spec_decode_num_accepted_tokens_total"))
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
        r"(?:, mean (?:acceptance length|len) =\s*([\d.]+))?(?:, acceptance rate per position = \(([^)]*)\))?"
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
            return False
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
            return False
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
        r"#acc tokens =\s*(\d+)(?:, #mean acc len =\s*([\d.]+))?(?:, #acc rate/pos = \(([^)]*)\))?"
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
            return False
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
