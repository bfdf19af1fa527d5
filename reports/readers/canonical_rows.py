"""Our own traces as JSONL: one verify round a line (also a request a line), an optional header line first."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from frontier_oracle.reports.builder import TraceBuilder, Unit, as_int
from frontier_oracle.reports.canonical import Header
from frontier_oracle.reports.readers.base import JsonReader
from frontier_oracle.reports.readers.fields import Fields, Record
from frontier_oracle.reports.readers.vllm_response import MOST_DRAFTS

REQUEST_KEYS = ("request_id", "sample_id", "question_id", "prompt_id", "sample")
LENGTH_KEYS = ("al_raw", "al_committed", "accepted_drafts", "acceptance_length", "accept_length", "accept_len")
ROUND_KEYS = ("round", "round_idx", "step")
_ROUND_INTS = ("drafted", "al_committed", "out_pos", "ctx_len", "cap", "batch_size")
_REQUEST_INTS = ("prompt_tokens", "completion_tokens", "verify_steps", "accepted_total", "drafted_total")
_COLUMNS = (*_ROUND_INTS, "al_raw", "is_warmup", "truncated")


TWO_LENGTHS = "al_raw != accepted_drafts + 1"
"""The kind of defect of a round that states its length twice, and not alike."""

Row = tuple[int, int, list[int | None]]
"""(round number, line, values in the order of _COLUMNS)"""


def first(record: Record, keys: tuple[str, ...]) -> Any:
    return next((record[key] for key in keys if record.get(key) is not None), None)


class CanonicalRows(JsonReader):
    """Rows of the canonical schema, or one row per round under the names that DDTree-style dumps use.

    A length that is not said to be raw or committed is taken as raw, truncation unknown. Rows of a request may be
    interleaved with others'; they are ordered by their round number.
    """

    name = "canonical-jsonl"
    header_fields = {"order_known": "rounds"}

    def __init__(self) -> None:
        self.named: set[str] = set()
        self.units: dict[tuple[str, int | None, int | None], tuple[Unit, list[Row]]] = {}

    def recognise(self, record: Record) -> bool:
        if "schema_version" in record and "source_format" in record:
            return True
        if first(record, REQUEST_KEYS) is None:
            return False
        is_round = first(record, ROUND_KEYS) is not None and first(record, LENGTH_KEYS) is not None
        return is_round or any(record.get(key) is not None for key in ("verify_steps", "accepted_total"))

    def read(self, record: Fields, out: TraceBuilder) -> None:
        plain = record.record
        if "source_format" in plain and "schema_version" in plain:
            apply_header(plain, out)
            return
        key = (record.name(*REQUEST_KEYS), record.integer("turn"), record.integer("choice"))
        unit, rows = self.units.setdefault(key, (Unit(key[0], record.line, turn=key[1], choice=key[2]), []))
        unit.category = unit.category or record.text("category")
        if first(plain, ROUND_KEYS) is None or first(plain, LENGTH_KEYS) is None:
            self._request(record, unit)
            return
        number = record.integer(*ROUND_KEYS)
        rows.append((len(rows) if number is None else number, record.line, [row_value(record, n) for n in _COLUMNS]))
        self.named |= {name for name in LENGTH_KEYS if plain.get(name) is not None}

    def _request(self, record: Fields, unit: Unit) -> None:
        for name in _REQUEST_INTS:
            setattr(unit, name, record.integer(name))
        unit.finish_reason = record.text("finish_reason")
        unit.histogram = record.integers("histogram")
        unit.prefill_in_rounds = record.flag("prefill_token_in_rounds")
        unit.reported_mean = record.number("reported_mean")

    def finish(self, out: TraceBuilder) -> None:
        for unit, rows in self.units.values():
            numbers = [number for number, _, _ in rows]
            if numbers != list(range(len(numbers))):
                self._order(unit, rows, out)
            if rows:
                unit.rounds = {name: [row[2][n] for row in rows] for n, name in enumerate(_COLUMNS)}
            out.add(unit)
        if out.header.truncation == "unknown":
            out.header.truncation = truncation_of(self.named)
        self.units = {}

    def _order(self, unit: Unit, rows: list[Row], out: TraceBuilder) -> None:
        rows.sort(key=lambda row: row[0])
        for n, (number, line, _) in enumerate(rows):
            if n and number == rows[n - 1][0]:
                out.problem("repeated round", line, f"request {unit.request_id!r} has round {number} twice")
            elif n and number != rows[n - 1][0] + 1:
                out.problem(
                    "missing round",
                    line,
                    f"request {unit.request_id!r}: round {rows[n - 1][0]} is followed by {number}",
                )


def truncation_of(named: set[str]) -> str:
    """What the names of the length columns say about truncation; the names of other dumps say nothing."""
    raw, committed = bool(named & {"al_raw", "accepted_drafts"}), "al_committed" in named
    return "both" if raw and committed else "raw" if raw else "committed" if committed else "unknown"


def row_value(row: Fields, name: str) -> int | None:
    """A round column's value in a row: al_raw is also taken from accepted_drafts, or from a length of another name."""
    if name in ("is_warmup", "truncated"):
        flag = row.flag(name)
        return None if flag is None else int(flag)
    if name != "al_raw":
        return row.integer(name)
    if row.record.get("al_raw") is not None:
        raw, accepted = row.integer("al_raw"), row.integer("accepted_drafts")
        if raw is not None and accepted is not None and raw != accepted + 1:
            row.out.problem(TWO_LENGTHS, row.line, f"al_raw is {raw}, accepted_drafts {accepted}; al_raw is taken")
        return raw
    if row.record.get("accepted_drafts") is not None:
        accepted = row.integer("accepted_drafts")
        return None if accepted is None else accepted + 1
    return None if row.record.get("al_committed") is not None else row.integer(*LENGTH_KEYS)


def apply_header(record: Record, out: TraceBuilder) -> None:
    """Take over a trace's own header, except what belongs to this reading of it (file, digest)."""
    plain = {field.name: field.type for field in fields(Header)}
    for name, value in record.items():
        if name not in plain or name in ("source_format", "source_file", "source_file_sha256", "schema_version"):
            continue
        kind = str(plain[name])
        fits = (
            ("str" in kind and isinstance(value, str))
            or ("bool" in kind and isinstance(value, bool))
            or ("int" in kind and 0 <= (as_int(value) or 0) <= MOST_DRAFTS and as_int(value) is not None)
        )
        if name == "notes" and isinstance(value, list):
            out.header.notes += [note for note in value if isinstance(note, str)]
        elif fits:
            setattr(out.header, name, value)
        elif value is not None:
            out.problem("unreadable header field", 1, f"{name} = {value!r} is not of its type; ignored")
    origin = record.get("source_format")
    if isinstance(origin, str) and not origin.startswith("canonical"):
        out.note(f"written from {origin}")
    if not isinstance(record.get("schema_version"), int) or record["schema_version"] > out.header.schema_version:
        out.problem("newer schema", 1, f"schema_version {record.get('schema_version')!r} is not known to this version")
