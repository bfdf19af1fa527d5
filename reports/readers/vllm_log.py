"""vLLM server logs: the V1 "SpecDecoding metrics" window lines, and V0's cumulative "Speculative metrics" lines."""

from __future__ import annotations

import re

from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.readers.base import TextReader
from frontier_oracle.reports.readers.vllm_response import set_k

_NUMBER = r"([\d.]+|nan)"


class VllmLog(TextReader):
    """One window of about ten seconds. The number of drafts is not printed; it is recovered where that is exact."""

    name = "vllm-log"
    engine = "vllm"
    header_fields = {
        "bonus_included": True,
        "aggregation_of_source_mean": "window",
        "reported_mean": "al_raw_printed",
        "reported_rate": "rate_drafted_printed",
        "truncation": "raw",
    }
    needles = (b"SpecDecoding metrics:",)
    _line = re.compile(
        rf"SpecDecoding metrics: Mean acceptance length: {_NUMBER},.*? Accepted: (\d+) tokens, Drafted: (\d+) tokens, "
        rf"Per-position acceptance rate: ([\d., nan]*), Avg Draft acceptance rate: {_NUMBER}%"
    )

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        match = self._line.search(text)
        if match is None:
            return self.unread("SpecDecoding metrics:", text, line, out)
        mean, accepted, drafted = float(match[1]), int(match[2]), int(match[3])
        rates = [float(rate) for rate in match[4].split(",") if rate.strip()]
        steps = recover_steps(mean, accepted, drafted, rates)
        if steps is None:
            out.problem(
                "drafts not recoverable",
                line,
                "the window's number of drafts is not printed and its rounded "
                "rates leave more than one choice; totals only",
            )
        set_k(out, len(rates) or None)
        out.add(
            Unit(
                f"window {len(out)}",
                line,
                kind="window",
                verify_steps=steps,
                accepted_total=accepted,
                drafted_total=drafted,
                per_position=None if steps is None else [r * steps for r in rates],
                reported_mean=mean,
                reported_rate=float(match[5]) / 100,
            )
        )
        return True


def recover_steps(mean: float, accepted: int, drafted: int, rates: list[float]) -> int | None:
    """The number of verify rounds behind a printed window, or None if rounding leaves more than one.

    A drafter of fixed length proposes len(rates) per round, so drafted / len(rates) is tried first. Otherwise every n
    that reproduces the mean (2 decimals) and the rates' sum (3 decimals each) is a candidate.
    """
    if accepted == 0 or mean <= 1:
        return drafted // len(rates) if rates and drafted % len(rates) == 0 and drafted else None

    def fits(n: int) -> bool:
        return abs(1 + accepted / n - mean) <= 0.0051 and abs(accepted / n - sum(rates)) <= 0.00051 * len(rates) + 1e-9

    if rates and drafted % len(rates) == 0 and drafted and fits(drafted // len(rates)):
        return drafted // len(rates)
    low, high = int(accepted / (mean - 1 + 0.0051)), int(accepted / max(mean - 1 - 0.0051, 1e-3)) + 1
    candidates = [n for n in range(max(low, 1), min(high, low + 10_000) + 1) if fits(n)]
    return candidates[0] if len(candidates) == 1 else None


class VllmV0Log(TextReader):
    """V0's line: counters since the start, so the last line of each life stands for it (pitfall 5)."""

    name = "vllm-v0-log"
    engine = "vllm"
    header_fields = {"bonus_included": False, "aggregation_of_source_mean": "pooled", "truncation": "raw"}
    needles = (b"Speculative metrics:",)
    _line = re.compile(
        r"Speculative metrics: Draft acceptance rate: ([\d.]+|nan).*? Number of speculative tokens: (\d+), "
        r"Number of accepted tokens: (\d+), Number of draft tokens: (\d+)"
    )

    def __init__(self) -> None:
        self.last: Unit | None = None

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        match = self._line.search(text)
        if match is None:
            return self.unread("Speculative metrics:", text, line, out)
        k, accepted, drafted = int(match[2]), int(match[3]), int(match[4])
        if self.last is not None and accepted < (self.last.accepted_total or 0):
            self.finish(out)
        set_k(out, k)
        self.last = Unit(
            f"life {len(out)}",
            line,
            kind="lifetime",
            accepted_total=accepted,
            drafted_total=drafted,
            verify_steps=drafted // k if k and drafted % k == 0 else None,
        )
        return True

    def finish(self, out: TraceBuilder) -> None:
        if self.last is not None:
            out.note("counters since the server started: warm-up traffic is in them")
            out.add(self.last)
            self.last = None
