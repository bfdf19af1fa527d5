"""Our own traces as JSONL: one verify round a line (also a request a line), an optional header line first."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from frontier_oracle.reports.builder import TraceBuilder, Unit, as_float, as_int, int_list
from frontier_oracle.reports.canonical import Header
from frontier_oracle.reports.readers.base import JsonReader, Record, text_or_none
from frontier_oracle.reports.readers.vllm_response import MOST_DRAFTS

REQUEST_KEYS = ("request_id", "sample_id", "question_id", "prompt_id", "sample")
LENGTH_KEYS = ("al_raw", "al_committed", "accepted_drafts", "acceptance_length", "accept_length", "accept_len")
ROUND_KEYS = ("round", "round_idx", "step")
_ROUND_INTS = ("drafted", "al_committed", "out_pos", "ctx_len", "cap", "batch_size")
_REQUEST_INTS = ("prompt_tokens", "completion_tokens", "verify_steps", "accepted_total", "drafted_total")
_COLUMNS = (*_ROUND_INTS, "al_raw", "is_warmup", "truncated")


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
        self.units: dict[tuple[str, int | None, int | None], tuple[Unit, list[tuple[int, Record]]]] = {}

    def recognise(self, record: Record) -> bool:
        if "schema_version" in record and "source_format" in record:
            return True
        if first(record, REQUEST_KEYS) is None:
            return False
        is_round = first(record, ROUND_KEYS) is not None and first(record, LENGTH_KEYS) is not None
        return is_round or any(record.get(key) is not None for key in ("verify_steps", "accepted_total"))

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        if "source_format" in record and "schema_version" in record:
            apply_header(record, out)
            return
        key = (str(first(record, REQUEST_KEYS)), as_int(record.get("turn")), as_int(record.get("choice")))
        unit, rows = self.units.setdefault(key, (Unit(key[0], line, turn=key[1], choice=key[2]), []))
        unit.category = unit.category or text_or_none(record.get("category"))
        number = as_int(first(record, ROUND_KEYS))
        if number is None or first(record, LENGTH_KEYS) is None:
            self._request(record, unit)
        else:
            rows.append((number, {**record, "__line": line}))
            self.named |= {name for name in LENGTH_KEYS if record.get(name) is not None}

    def _request(self, record: Record, unit: Unit) -> None:
        for name in _REQUEST_INTS:
            setattr(unit, name, as_int(record.get(name)))
        unit.finish_reason = text_or_none(record.get("finish_reason"))
        unit.histogram = int_list(record.get("histogram"))
        flag = record.get("prefill_token_in_rounds")
        unit.prefill_in_rounds = flag if isinstance(flag, bool) else None
        unit.reported_mean = as_float(record.get("reported_mean"))

    def finish(self, out: TraceBuilder) -> None:
        for unit, rows in self.units.values():
            numbers = [number for number, _ in rows]
            if numbers != list(range(len(numbers))):
                self._order(unit, rows, out)
            if rows:
                unit.rounds = {name: [row_value(row, name) for _, row in rows] for name in _COLUMNS}
            out.add(unit)
        if out.header.truncation == "unknown":
            out.header.truncation = truncation_of(self.named)
        self.units = {}

    def _order(self, unit: Unit, rows: list[tuple[int, Record]], out: TraceBuilder) -> None:
        rows.sort(key=lambda pair: pair[0])
        for n, (number, row) in enumerate(rows):
            if n and number == rows[n - 1][0]:
                out.problem("repeated round", row["__line"], f"request {unit.request_id!r} has round {number} twice")
            elif n and number != rows[n - 1][0] + 1:
                out.problem(
                    "missing round",
                    row["__line"],
                    f"request {unit.request_id!r}: round {rows[n - 1][0]} is followed by {number}",
                )


def truncation_of(named: set[str]) -> str:
    """What the names of the length columns say about truncation; the names of other dumps say nothing."""
    raw, committed = bool(named & {"al_raw", "accepted_drafts"}), "al_committed" in named
    return "both" if raw and committed else "raw" if raw else "committed" if committed else "unknown"


def row_value(row: Record, name: str) -> int | None:
    if name in ("is_warmup", "truncated"):
        flag = row.get(name)
        return int(flag) if isinstance(flag, bool) else None
    if name != "al_raw":
        return as_int(row.get(name))
    accepted = as_int(row.get("accepted_drafts"))
    given = as_int(row.get("al_raw"))
    if given is None and accepted is not None:
        return accepted + 1
    if given is None and row.get("al_committed") is None:
        return as_int(first(row, LENGTH_KEYS))
    return given


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
