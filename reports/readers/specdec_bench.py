"""NVIDIA Model-Optimizer's specdec_bench: means per request and turn, and a histogram of streamed chunk sizes."""

from __future__ import annotations

from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.readers.base import JsonReader
from frontier_oracle.reports.readers.fields import Fields, Record


class SpecdecBench(JsonReader):
    """Chunks are what a client receives: committed lengths, the prefill token's chunk of one included (pitfalls 3, 14).

    One length-1 entry per request and turn is that chunk and is taken out, so that rounds remain; coalesced chunks
    cannot be told apart and would count as long rounds.
    """

    name = "specdec-bench"
    header_fields = {
        "bonus_included": True,
        "aggregation_of_source_mean": "request",
        "order_known": "histogram",
        "truncation": "committed",
        "reported_mean": "completion_over_iterations",
    }

    def recognise(self, record: Record) -> bool:
        return "Request_AL" in record or "Acceptance_Length_Histogram" in record

    def read(self, record: Fields, out: TraceBuilder) -> None:
        turns = 0
        line, means = record.line, record.section("Request_AL")
        for request, value in means.record.items():
            by_turn = means.section(request) if isinstance(value, dict) else Fields({"0": value}, line, out)
            for turn in by_turn.record:
                turns += 1
                number = int(turn) if turn.isdecimal() and len(turn) < 10 else None
                out.add(Unit(request, line, turn=number, reported_mean=by_turn.number(turn)))
        chunks = record.histogram("Acceptance_Length_Histogram")
        if chunks:
            self._rounds(chunks, turns, line, out)
        out.number(
            "Average_AL (mean of turn means, prefill chunk counted)",
            record.number("Average_AL"),
            "completion_over_iterations:requests",
            line,
        )
        for key in ("Conditional_Acceptance_Rate", "Joint_Acceptance_Rate"):
            listed = isinstance(record.record.get(key), list)
            rates = dict(enumerate(record.numbers(key) or ())) if listed else record.section(key).record
            for position, rate in rates.items():
                out.number(f"{key}[{position}]", rate, None, line)

    def _rounds(self, chunks: list[int], turns: int, line: int, out: TraceBuilder) -> None:
        by_length = [*chunks, *[0] * (2 - len(chunks))]
        if by_length[0]:
            out.problem("al_committed < 1", line, f"{by_length[0]} chunks of no token: left out, they are no rounds")
        if turns and by_length[1] >= turns:
            by_length[1] -= turns
            out.note(f"{turns} chunks of one token (one per request and turn) are prefill tokens and no rounds")
        else:
            out.note("the prefill chunks cannot be told from rounds and are counted as rounds of length 1")
        total = sum(length * n for length, n in enumerate(by_length))
        out.add(
            Unit(
                "all chunks",
                line,
                kind="aggregate",
                histogram=by_length[1:],
                committed_total=total,
                verify_steps=sum(by_length[1:]),
                requests=turns or None,
                completion_tokens=sum(length * n for length, n in enumerate(chunks)),
            )
        )
