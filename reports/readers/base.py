"""What a reader is: one small class per format, found by the content of what it reads."""

from __future__ import annotations

from itertools import accumulate, takewhile
from typing import Any, ClassVar

from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.canonical import Header
from frontier_oracle.reports.readers.fields import Fields, Record


class Reader:
    """A format. ``header()`` is what every trace of the format says; subclasses name the format and its engine."""

    name: ClassVar[str]
    engine: ClassVar[str | None] = None
    header_fields: ClassVar[dict[str, Any]] = {}

    def header(self) -> Header:
        return Header(source_format=self.name, source_engine=self.engine, **self.header_fields)

    def finish(self, out: TraceBuilder) -> None:
        """Called at the end of the file: what was held back (counters, paired lines) is added now."""


class JsonReader(Reader):
    """Reads JSON records: one per line, one per document, or the elements of an array."""

    def recognise(self, record: Record) -> bool:
        """True if the record has this format's shape. Called for every record; must not raise."""
        raise NotImplementedError

    def read(self, record: Fields, out: TraceBuilder) -> None:
        raise NotImplementedError


class TextReader(Reader):
    """Reads lines of a log or console. ``needles``: a line is passed on only if one of them occurs in it."""

    needles: ClassVar[tuple[bytes, ...]]
    opens: ClassVar[bool] = False
    """After the first needle every further line is passed on (formats whose lines look like nothing in particular)."""

    def feed(self, text: str, line: int, out: TraceBuilder) -> bool:
        """True if the line was this format's."""
        raise NotImplementedError

    def unread(self, mark: str, text: str, line: int, out: TraceBuilder) -> bool:
        """For a line that the pattern does not match: counted, and True, if ``mark`` shows it to be of this format."""
        if mark in text:
            out.problem("unreadable log line", line, f"a {self.name} line of an unknown layout or without its numbers")
        return mark in text


def section(record: Any, *path: str) -> Record:
    """The nested object at ``path``, or {}: ``section(r, "metrics", "speculative_decoding")``."""
    for key in path:
        record = record.get(key) if isinstance(record, dict) else None
    return record if isinstance(record, dict) else {}


def committed_from_raw(raw: list[int], completion: int | None, out: TraceBuilder, unit: Unit) -> list[int | None]:
    """al_committed per round of raw lengths, when the completion and the one prefill token before the rounds are known.

    Only the last round can be cut (a request ends in it), so what the rounds exceed the completion by was cut there.
    If that does not add up, nothing is known about the last round and the disagreement is recorded.
    """
    if completion is None or not raw:
        return [None] * len(raw)
    overshoot = sum(raw) + 1 - completion
    if 0 <= overshoot < raw[-1]:
        return [*raw[:-1], raw[-1] - overshoot]
    out.problem(
        "committed + prefill != completion",
        unit.line,
        f"request {unit.request_id!r}: rounds give {sum(raw)} "
        f"tokens and prefill 1, the completion has {completion}; the last round's cut is unknown",
    )
    return [*raw[:-1], None]


def positions_before(lengths: list[int] | list[int | None], first: int) -> list[int | None]:
    """out_pos: tokens emitted before each round, of which ``first`` before round 0."""
    whole = list(takewhile(lambda length: length is not None, lengths))
    positions: list[int | None] = list(accumulate((length for length in whole if length is not None), initial=first))
    return (positions + [None] * len(lengths))[: len(lengths)]
