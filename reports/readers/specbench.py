"""Spec-Bench answers and its forks: accept_lengths flat over the turns, and EAGLE-family answers with idxs only."""

from __future__ import annotations

from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.readers.base import JsonReader, positions_before
from frontier_oracle.reports.readers.fields import Fields, Record


class SpecBench(JsonReader):
    """Lengths include the target's token. Whether the last round of a turn is cut differs per method (pitfall 2).

    sum == new_tokens: the lengths are committed ones, and only the last round's raw length is unknown. A sum above it
    by less than the last length: raw lengths, cut by the difference. Anything else: taken as reported, truncation
    unknown. The list is flat over turns and is cut with decoding_steps (pitfall 9).
    """

    name = "specbench"
    header_fields = {
        "bonus_included": True,
        "order_known": "rounds",
        "aggregation_of_source_mean": "unknown",
    }

    def __init__(self) -> None:
        self.truncation: set[str] = set()

    def recognise(self, record: Record) -> bool:
        return any("accept_lengths" in choice for choice in _choices(record))

    def read(self, record: Fields, out: TraceBuilder) -> None:
        out.header.model = out.header.model or record.text("model_id")
        name, category = record.name("question_id", "id"), record.text("category")
        for index, choice in enumerate(record.sections("choices")):
            # forks write a scalar where upstream writes a list of one per turn
            lengths = choice.integers("accept_lengths", scalar=True)
            if lengths is None:
                out.problem("unreadable record", record.line, f"choice {index} of {name!r} has no list accept_lengths")
                continue
            if not lengths:
                out.problem("empty accept_lengths", record.line, f"request {name!r} has no verify round")
            steps = choice.integers("decoding_steps", scalar=True)
            tokens = choice.integers("new_tokens", scalar=True)
            number = choice.integer("index")
            base = Unit(name, record.line, choice=index if number is None else number, category=category)
            self._turns(base, lengths, steps, tokens, out)
        out.header.truncation = next(iter(self.truncation)) if len(self.truncation) == 1 else "unknown"

    def _turns(
        self, base: Unit, lengths: list[int], steps: list[int] | None, tokens: list[int] | None, out: TraceBuilder
    ) -> None:
        cut = steps is not None and sum(steps) == len(lengths) and min(steps, default=0) >= 0
        of_turns = len(steps) if steps is not None and cut else 0  # the tokens of a turn are checked with it
        for name, values in (("decoding_steps", steps), ("new_tokens", (tokens or [])[of_turns:])):
            if min(values or (), default=0) < 0:
                out.problem("negative count", base.line, f"request {base.request_id!r}: {name} is {values}")
        if steps is None or not cut:
            if len(lengths):
                out.problem(
                    "turns cannot be cut",
                    base.line,
                    f"request {base.request_id!r}: {len(lengths)} lengths, "
                    f"decoding_steps {steps}; rounds are kept in one piece, positions unknown",
                )
            self._unit(base, None, lengths, None, out)
            return
        at = 0
        for turn, step in enumerate(steps):
            count = tokens[turn] if tokens is not None and turn < len(tokens) else None
            self._unit(base, turn, lengths[at : at + step], count, out)
            at += step

    def _unit(self, base: Unit, turn: int | None, lengths: list[int], tokens: int | None, out: TraceBuilder) -> None:
        unit = Unit(
            base.request_id, base.line, turn=turn, choice=base.choice, category=base.category, completion_tokens=tokens
        )
        excess = None if tokens is None else sum(lengths) - tokens
        if not lengths:
            unit.verify_steps = 0
        elif excess in (0, -1):
            # -1: the prefill token is in new_tokens and in no round
            unit.prefill_in_rounds = excess == 0
            unit.rounds = {"al_raw": [*lengths[:-1], None], "al_committed": lengths}
            self.truncation.add("committed")
        elif excess is not None and 0 < excess < lengths[-1]:
            unit.prefill_in_rounds = True
            cut = [*lengths[:-1], lengths[-1] - excess]
            unit.rounds = {"al_raw": lengths, "al_committed": cut, "truncated": [0] * (len(lengths) - 1) + [1]}
            self.truncation.add("both")
        else:
            if tokens is not None:
                out.problem(
                    "committed + prefill != completion",
                    base.line,
                    f"request {base.request_id!r}: lengths sum "
                    f"to {sum(lengths)}, new_tokens is {tokens}; truncation unknown",
                )
            unit.rounds = {"al_raw": lengths}
            self.truncation.add("unknown")
        if unit.rounds is not None and turn is not None:
            unit.rounds["out_pos"] = positions_before(lengths, 0 if unit.prefill_in_rounds is not False else 1)
        out.add(unit)


class EagleAnswers(JsonReader):
    """EAGLE, Medusa and REST answers: the index of the last step, 0-based (pitfall 8), and new_tokens per turn."""

    name = "eagle-answers"
    header_fields = {
        "bonus_included": True,
        "order_known": "totals",
        "truncation": "committed",
    }

    def recognise(self, record: Record) -> bool:
        return any("idxs" in choice and "accept_lengths" not in choice for choice in _choices(record))

    def read(self, record: Fields, out: TraceBuilder) -> None:
        out.header.model = out.header.model or record.text("model_id")
        name, category = record.name("question_id", "id"), record.text("category")
        for index, choice in enumerate(record.sections("choices")):
            idxs, tokens = choice.integers("idxs", scalar=True), choice.integers("new_tokens", scalar=True)
            if idxs is None or tokens is None or len(idxs) != len(tokens):
                out.problem("unreadable record", record.line, f"request {name!r}: idxs and new_tokens do not match")
                continue
            for turn, (idx, count) in enumerate(zip(idxs, tokens, strict=True)):
                out.add(
                    Unit(
                        name,
                        record.line,
                        turn=turn,
                        choice=index,
                        category=category,
                        verify_steps=idx + 1,
                        completion_tokens=count,
                        prefill_in_rounds=True,
                    )
                )


def _choices(record: Record) -> list[Record]:
    choices = record.get("choices")
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []
