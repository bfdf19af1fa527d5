"""Prometheus text of vLLM, SGLang, TensorRT-LLM, llama.cpp and TokenSpeed: counters, one scrape or several."""

from __future__ import annotations

import re
from typing import ClassVar

from frontier_oracle.reports.builder import BAD_VALUE, TraceBuilder, Unit
from frontier_oracle.reports.readers.base import TextReader
from frontier_oracle.reports.readers.vllm_response import MOST_DRAFTS, set_k

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(\{.*\})?\s+(\S+)(?:\s+-?\d+)?\s*$")
_POSITION = re.compile(r'[{,]\s*position="([^"]*)"')

_COUNTERS = {
    "spec_decode_num_drafts": "steps",
    "spec_decode_num_draft_tokens": "drafted",
    "spec_decode_num_accepted_tokens": "accepted",
    "spec_decode_num_accepted_tokens_per_pos": "position",
    "spec_verify_calls": "steps",
}
_GAUGES = {
    "spec_accept_length": "mean",
    "spec_accept_rate": "rate",
    "spec_decode_acceptance_length": "mean",
    "spec_num_draft_tokens": "width",
}


POSITIONS = "positions != accepted_total"
"""The kind of defect of per-position counters that contradict the counter of accepted drafts."""


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e300 else None


def _position(labels: str) -> int | None:
    """The draft that a per-position counter is of; None if the label is absent or no possible number of a draft."""
    found = _POSITION.search(labels)
    if found is None or re.fullmatch(r"[0-9]{1,9}", found[1]) is None:
        return None
    return int(found[1]) if int(found[1]) < MOST_DRAFTS else None


class Prometheus(TextReader):
    """Counters are summed over engines (the ``engine`` label). Exact names only: a ``_created`` twin is a timestamp.

    A repeated series means several scrapes in one file: the increase is used, and a counter that falls was reset,
    so that the increase restarts from zero (pitfall 5).
    """

    prefix: ClassVar[str]

    def __init__(self) -> None:
        self.increase: dict[tuple[str, str], float] = {}
        self.latest: dict[tuple[str, str], float] = {}
        self.lines: dict[int, int] = {}
        self.gauges: dict[str, float] = {}
        self.scrapes = 1
        self.resets = 0
        self.line = 0

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        if text.startswith("#"):
            return False
        match = _SAMPLE.match(text)
        if match is None:
            name = re.split(r"[{\s]", text.removeprefix(self.prefix), maxsplit=1)[0].removesuffix("_total")
            known = text.startswith(self.prefix) and (name in _COUNTERS or name in _GAUGES)
            return known and self.unread(self.prefix, text, line, out)
        if not match[1].startswith(self.prefix):
            return False
        name = match[1][len(self.prefix) :]
        base = name.removesuffix("_total")
        if base not in _COUNTERS and name not in _GAUGES:
            return False
        self.line = self.line or line
        value = _finite(match[3])
        if value is None:
            out.problem(BAD_VALUE, line, f"{name} is {match[3][:40]}, not a finite number; left out")
        elif name in _GAUGES:
            self.gauges[_GAUGES[name]] = value
        elif value < 0:
            out.problem("negative count", line, f"counter {name} is {value}; left out")
        elif value != int(value):
            out.problem(BAD_VALUE, line, f"counter {name} is {value}, not a whole number; left out")
        elif _COUNTERS[base] == "position" and not self._at_position(match[2] or "", line):
            out.problem(BAD_VALUE, line, f"{name}{(match[2] or '')[:80]} names no draft's position; left out")
        else:
            self._count(base, match[2] or "", value)
        return True

    def _at_position(self, labels: str, line: int) -> bool:
        """Note the line of a counter's position; False if it has none."""
        position = _position(labels)
        if position is not None:
            self.lines.setdefault(position, line)
        return position is not None

    def _count(self, base: str, labels: str, value: float) -> None:
        series = (base, labels)
        before = self.latest.get(series)
        if before is None:
            self.increase[series] = 0.0
        else:
            self.scrapes = 2
            reset = value < before
            self.resets += reset
            self.increase[series] += value if reset else value - before
        self.latest[series] = value

    def finish(self, out: TraceBuilder) -> None:
        if not self.latest and not self.gauges:
            return
        values = self.increase if self.scrapes > 1 else self.latest
        totals: dict[str, float] = {}
        positions: dict[int, float] = {}
        for (base, labels), value in values.items():
            kind = _COUNTERS[base]
            position = _position(labels) if kind == "position" else None
            if position is not None:
                positions[position] = positions.get(position, 0.0) + value
            else:
                totals[kind] = totals.get(kind, 0.0) + value
        self._notes(out)
        whole = {kind: int(value) for kind, value in totals.items()}
        per_position = self._per_position(positions, whole.get("accepted"), out)
        if per_position is not None:
            set_k(out, len(per_position))
        if "width" in self.gauges:
            set_k(out, int(self.gauges["width"]) - 1)
        out.add(
            Unit(
                "increase" if self.scrapes > 1 else "since start",
                self.line,
                kind="lifetime",
                verify_steps=whole.get("steps"),
                accepted_total=whole.get("accepted"),
                drafted_total=whole.get("drafted"),
                per_position=per_position,
            )
        )
        for kind in ("mean", "rate"):
            if kind in self.gauges:
                follows = "al_raw" if kind == "mean" else "rate_configured"
                out.number(f"{self.prefix} acceptance {kind} (gauge)", self.gauges[kind], follows, self.line)

    def _per_position(self, positions: dict[int, float], accepted: int | None, out: TraceBuilder) -> list[float] | None:
        """Rounds that accepted draft 0, 1, ..., up to the first position without a counter: what stands beyond a gap
        is counted as a defect and left out, since the number of drafts follows from the last position."""
        if not positions:
            return None
        whole = next(n for n in range(len(positions) + 1) if n not in positions)
        for position in sorted(positions):
            if position > whole:
                message = f"accepted drafts at position {position}, and no counter of position {whole}; left out"
                out.problem(BAD_VALUE, self.lines[position], message)
        kept = [positions[n] for n in range(whole)]
        if accepted is not None and sum(kept) != accepted:
            message = (
                f"{int(sum(kept))} drafts accepted over all positions, {accepted} in the counter of accepted drafts"
            )
            out.problem(POSITIONS, self.lines[min(positions)], message)
        return kept or None

    def _notes(self, out: TraceBuilder) -> None:
        if self.scrapes == 1:
            out.note("one scrape: counters since the server started, warm-up traffic is in them")
        elif self.resets:
            out.note(f"{self.resets} counter resets (server restarts) between the scrapes; increases restart from zero")


class VllmMetrics(Prometheus):
    """vLLM's counters; all exclude the bonus token."""

    name = "vllm-metrics"
    engine = "vllm"
    prefix = "vllm:"
    header_fields = {"bonus_included": False, "truncation": "raw"}
    needles = (b"vllm:spec_decode_",)


class SglangMetrics(Prometheus):
    """SGLang's gauges and its counter of verify calls."""

    name = "sglang-metrics"
    engine = "sglang"
    prefix = "sglang:"
    header_fields = {"bonus_included": True, "truncation": "raw"}
    needles = (b"sglang:spec_",)


class LlamaCppMetrics(Prometheus):
    name = "llamacpp-metrics"
    engine = "llama.cpp"
    prefix = "llamacpp:"
    header_fields = {"bonus_included": False, "truncation": "raw"}
    needles = (b"llamacpp:spec_decode_",)


class TokenSpeedMetrics(Prometheus):
    """num_draft_tokens counts the verify width k per draft, not the k - 1 proposed tokens (pitfall 6)."""

    name = "tokenspeed-metrics"
    engine = "tokenspeed"
    prefix = "tokenspeed:"
    header_fields = {"bonus_included": False, "truncation": "raw"}
    needles = (b"tokenspeed:spec_decode_",)

    def finish(self, out: TraceBuilder) -> None:
        values = self.increase if self.scrapes > 1 else self.latest
        steps = sum(v for (base, _), v in values.items() if base == "spec_decode_num_drafts")
        rows = sum(v for (base, _), v in values.items() if base == "spec_decode_num_draft_tokens")
        if steps and rows % steps == 0:
            set_k(out, int(rows // steps) - 1)
            out.note(
                f"draft tokens are counted as verify width ({int(rows // steps)} per round); {int(rows - steps)} of "
                f"{int(rows)} are proposals"
            )
            for series in self.latest:
                if series[0] == "spec_decode_num_draft_tokens":
                    drafts = ("spec_decode_num_drafts", series[1])
                    values[series] -= values.get(drafts, 0.0)
        super().finish(out)


class TrtllmMetrics(Prometheus):
    """TensorRT-LLM's prefix is set by the server; the usual ones are tried."""

    name = "trtllm-metrics"
    engine = "tensorrt-llm"
    prefix = "trtllm"
    header_fields = {"bonus_included": False, "truncation": "raw"}
    needles = (b"trtllm_spec_decode_", b"trtllm:spec_decode_", b"tensorrt_llm")
    _prefixes = ("trtllm_", "trtllm:", "tensorrt_llm_", "tensorrt_llm:")

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        for prefix in self._prefixes:
            if text.startswith(prefix):
                return super().feed("trtllm" + text[len(prefix) :], line, out)
        return False
