"""Run records: what a gate run found, one JSON object a line, the same bytes for the same seed.

The header says what ran; a line each per check, finding, mutant and declared deviation; the verdict. What depends on
the machine (times, versions, cores) stands in one ``timing`` line at the end and is no part of the comparison.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from frontier_oracle.oracle.errors import RecordError
from frontier_oracle.oracle.files import plain, write_whole

FORMAT = "frontier-oracle/record"
SCHEMA = 1

Json = dict[str, Any]

# type -> field -> what JSON type it has. Every field is required and no other is known.
FIELDS: dict[str, dict[str, type]] = {
    "header": {"format": str, "schema": int, "version": str, "seed": int, "profile": str, "systems": list},
    "check": {
        "system": str,
        "id": str,
        "kind": str,
        "cases": int,
        "request_rounds": int,
        "skipped": str,
        "notes": list,
    },
    "finding": {
        "system": str,
        "check": str,
        "code": str,
        "declared": bool,
        "round": int,
        "request": str,
        "depth": int,
        "position": int,
        "detail": dict,
        "scenario": str,
        "original": str,
        "replay": str,
    },
    "mutant": {"id": str, "base": str, "expected": str, "got": str, "scenario": str, "rounds": int},
    "deviation": {"id": str, "system": str, "seen": bool},
    "verdict": {"verdict": str},
    "timing": {"environment": dict, "seconds": float, "checks": list},
}


def header(version: str, seed: int, profile: str, systems: Sequence[str]) -> Json:
    """The first line of a record."""
    return line(
        "header",
        format=FORMAT,
        schema=SCHEMA,
        version=version,
        seed=seed,
        profile=profile,
        systems=list(systems),
    )


def line(type_: str, **fields: Any) -> Json:
    """A line of a record. Raises ValueError for a field that is missing, unknown or of another type."""
    data = json.loads(json.dumps({"type": type_, **fields}, allow_nan=False, default=plain))
    problem = _problem(data)
    if problem:
        raise ValueError(problem)
    return dict(data)


def encode(lines: Iterable[Json]) -> str:
    """The record's text: keys sorted, no spaces, one line each."""
    return "".join(json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n" for data in lines)


def comparable(lines: Iterable[Json]) -> bytes:
    """What two runs of one seed must share byte for byte: all but the timing line (FO601 otherwise)."""
    return encode(data for data in lines if data["type"] != "timing").encode()


def write(path: str | Path, lines: Iterable[Json]) -> None:
    """Write a record: whole or not at all. Raises RecordError where the path cannot be written."""
    try:
        write_whole(Path(path), encode(lines))
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror}") from None


def read(path: str | Path) -> list[Json]:
    """Read what ``write`` wrote. RecordError, with file and line, for anything else."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: not a record: byte {error.start} is not UTF-8") from None
    rows = text.split("\n")
    if rows.pop():
        _fail(path, len(rows) + 1, "truncated: the line does not end, write the record again")
    lines = [_line(path, number, row) for number, row in enumerate(rows, start=1)]
    _check_order(path, lines)
    return lines


def _line(path: str | Path, number: int, row: str) -> Json:
    try:
        data = json.loads(row)
    except (ValueError, RecursionError) as error:
        _fail(path, number, f"broken JSON, expected one object a line ({error})")
    if not isinstance(data, dict):
        _fail(path, number, f"expected a JSON object, got a {type(data).__name__}")
    if number == 1:
        _check_header(path, data)
    problem = _problem(data)
    if problem:
        _fail(path, number, problem)
    return data


def _check_header(path: str | Path, data: Json) -> None:
    if data.get("format") != FORMAT:
        _fail(path, 1, f'not a record: expected a header with "format": "{FORMAT}"')
    schema = data.get("schema")
    if type(schema) is int and schema > SCHEMA:
        _fail(path, 1, f"schema {schema} is newer than {SCHEMA}, which this tool reads: update it")
    if schema != SCHEMA:
        _fail(path, 1, f"schema {schema!r} does not exist, expected 1..{SCHEMA}")


def _check_order(path: str | Path, lines: Sequence[Json]) -> None:
    """A header, then anything, then the verdict, then at most the timing line."""
    types = [data["type"] for data in lines]
    if not types or types[0] != "header":
        _fail(path, 1, "expected a header line first")
    end = types[:-1] if types[-1] == "timing" else types
    if end[-1] != "verdict":
        _fail(path, len(end), "truncated: expected the verdict line behind this one, write the record again")
    for unique in ("header", "verdict", "timing"):
        if types.count(unique) > 1:
            again = types.index(unique, types.index(unique) + 1)
            _fail(path, again + 1, f"a second {unique} line")


def _problem(data: Json) -> str:
    """What is wrong with a line, "" if nothing is."""
    fields = FIELDS.get(data.get("type", ""))
    if fields is None:
        return f"unknown line type {data.get('type')!r}, expected one of {', '.join(FIELDS)}"
    for name in data.keys() - fields.keys() - {"type"}:
        return f"unknown field {name!r} in a {data['type']} line"
    for name, kind in fields.items():
        if name not in data:
            return f"field {name!r} is missing in a {data['type']} line"
        if type(data[name]) is not kind and not (kind is float and type(data[name]) is int):
            return f"field {name!r} of a {data['type']} line is {data[name]!r}, expected {kind.__name__}"
    return ""


def _fail(path: str | Path, number: int, problem: str) -> NoReturn:
    raise RecordError(f"{path}:{number}: {problem}")
