"""Repro files: a failing scenario as versioned JSON that replays years later, or says in one line why it cannot."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn, get_args

from frontier_oracle.oracle.errors import RecordError, UsageError
from frontier_oracle.oracle.files import plain, write_whole
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.rules import RULES, Finding
from frontier_oracle.oracle.scenario import (
    Abort,
    Admit,
    Decode,
    Event,
    Extend,
    Finish,
    Preempt,
    Resume,
    Scenario,
    validate,
)
from frontier_oracle.oracle.spec import CacheGroup, HiddenSemantic, Spec
from frontier_oracle.oracle.timeline import POLICIES

FORMAT = "frontier-oracle/repro"
VERSION = 1
LATER = ("media", "ends", "undrafted")

Json = dict[str, Any]


def tool_version() -> str:
    """Version of the installed package, "unknown" when run from a bare tree."""
    try:
        return metadata.version("frontier-oracle")
    except metadata.PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True)
class Repro:
    """What a failure needs to be replayed: the scenario, the system's name, the run's seed, and what was found.

    policy: the prefix-cache policy the system declared, None when no hit was involved.
    """

    scenario: Scenario
    system: str
    seed: int = 0
    finding: Finding | None = None
    policy: str | None = None
    tool_version: str = field(default_factory=tool_version)


def fingerprint(scenario: Scenario) -> str:
    """First 16 hex digits of the SHA-256 of the canonical text."""
    return hashlib.sha256(render(scenario).encode()).hexdigest()[:16]


def scenario_to_dict(scenario: Scenario) -> Json:
    """The scenario as plain data: spec, hidden_size, slots, context where it is limited, events. What version 1 did not
    have from the start (``LATER``) is left out where it is empty."""
    limit = {} if scenario.context is None else {"context": scenario.context}
    return {
        "spec": asdict(scenario.spec),
        "hidden_size": scenario.hidden_size,
        "slots": scenario.slots,
        **limit,
        "events": [_event_to_dict(event) for event in scenario.events],
    }


def _event_to_dict(event: Event) -> Json:
    data = {key: value for key, value in asdict(event).items() if value or key not in LATER}
    return {"type": type(event).__name__.lower(), **data}


def scenario_from_dict(data: Json) -> Scenario:
    """Inverse of ``scenario_to_dict``. Raises UsageError: RecordError for malformed data, else what the scenario is."""
    try:
        events = tuple(_event(entry) for entry in data["events"])
        scenario = Scenario(_spec(data["spec"]), _int(data["hidden_size"]), _int(data["slots"]), events, _context(data))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"malformed scenario data: {type(error).__name__}: {error}") from None
    validate(scenario)
    return scenario


def write(path: str | Path, repro: Repro) -> None:
    """Write ``repro`` to ``path``: whole or not at all, and on disk when this returns. Parent folders are made.

    Raises RecordError where the path cannot be written.
    """
    document = {
        "format": FORMAT,
        "version": VERSION,
        "scenario": render(repro.scenario),
        **scenario_to_dict(repro.scenario),
        "fingerprint": fingerprint(repro.scenario),
        "system": repro.system,
        "seed": repro.seed,
        "tool_version": repro.tool_version,
        "policy": repro.policy,
        # Last: its detail is free-form, and ``_Reader._fail`` looks for the first line with a key.
        "finding": None if repro.finding is None else asdict(repro.finding),
    }
    text = json.dumps(document, indent=2, allow_nan=False, default=plain) + "\n"
    try:
        write_whole(Path(path), text)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror}") from None


def read(path: str | Path) -> Repro:
    """Read what ``write`` wrote. RecordError, with file and line, for anything else."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: not a repro file: byte {error.start} is not UTF-8") from None
    return _Reader(str(path), text).repro()


class _Reader:
    """One file's text on its way to a Repro; knows the line to blame."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text

    def repro(self) -> Repro:
        data = self._document()
        scenario = self._scenario(data)
        return Repro(
            scenario=scenario,
            system=self._value(data, "system", _str),
            seed=self._value(data, "seed", _int),
            finding=self._value(data, "finding", _finding),
            policy=self._policy(data),
            tool_version=self._value(data, "tool_version", _str),
        )

    def _document(self) -> Json:
        try:
            data = json.loads(self.text)
        except json.JSONDecodeError as error:
            hint = "broken or truncated JSON, expected a whole repro file: write it again"
            raise RecordError(f"{self.path}:{error.lineno}: {hint} ({error.msg})") from None
        except (ValueError, RecursionError) as error:
            raise RecordError(f"{self.path}:1: not a repro file: {error}") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            self._fail("format", f'expected a JSON object with "format": "{FORMAT}"')
        version = self._value(data, "version", _int)
        if version > VERSION:
            self._fail("version", f"version {version} is newer than {VERSION}, which this tool reads: update it")
        if version < 1:
            self._fail("version", f"version {version} does not exist, expected 1..{VERSION}")
        return data

    def _scenario(self, data: Json) -> Scenario:
        text = self._value(data, "scenario", _str)
        try:
            scenario = parse(text)
        except UsageError as error:
            self._fail("scenario", str(error))
        try:
            written = scenario_from_dict(data)
        except UsageError as error:
            self._fail("events", str(error))
        if written != scenario:
            at = "spec" if written.events == scenario.events else "events"
            self._fail(at, f"spec and events say '{render(written)}', the scenario text '{render(scenario)}'")
        want = fingerprint(scenario)
        if self._value(data, "fingerprint", _str) != want:
            self._fail("fingerprint", f"the scenario's fingerprint is {want}: an edited scenario is replayed as text")
        return scenario

    def _policy(self, data: Json) -> str | None:
        policy: str | None = self._value(data, "policy", lambda value: None if value is None else _str(value))
        if policy is not None and policy not in POLICIES:
            self._fail("policy", f"prefix policy {policy!r} is unknown, known are {', '.join(POLICIES)}")
        return policy

    def _value(self, data: Json, key: str, convert: Callable[[Any], Any]) -> Any:
        if key not in data:
            self._fail(key, f'"{key}" is missing')
        try:
            return convert(data[key])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._fail(key, f'"{key}" is malformed: {type(error).__name__}: {error}')

    def _fail(self, key: str, problem: str) -> NoReturn:
        """Blame the line of top-level ``key`` (line 1 where it is missing)."""
        found = re.search(rf'^\s*"{key}"\s*:', self.text, re.MULTILINE)
        line = self.text.count("\n", 0, found.end()) + 1 if found else 1
        raise RecordError(f"{self.path}:{line}: {problem}")


def _context(data: Json) -> int | None:
    return None if data.get("context") is None else _int(data["context"])


def _event(entry: Json) -> Event:
    kind = entry["type"]
    if kind in ("admit", "resume"):
        like = entry["like"]
        pair = None if like is None else _pair(like)
        name, chunks, held = _str(entry["name"]), tuple(_int(n) for n in entry["chunks"]), _bool(entry["held"])
        if kind == "resume":
            return Resume(name, chunks, pair, held)
        media = tuple((_int(first), _int(last)) for first, last in entry.get("media", ()))
        return Admit(name, _int(entry["prompt"]), chunks, pair, held, media)
    if kind == "extend":
        return Extend(tuple(_str(name) for name in entry["names"]))
    if kind == "decode":
        bucket = entry["bucket"]
        ends = tuple(_pair(row) for row in entry.get("ends", ()))
        undrafted = tuple(_str(name) for name in entry.get("undrafted", ()))
        rows = tuple(_pair(row) for row in entry["rows"])
        return Decode(rows, None if bucket is None else _int(bucket), ends, undrafted)
    for leaving in (Finish, Abort, Preempt):
        if kind == leaving.__name__.lower():
            return leaving(_str(entry["name"]))
    raise ValueError(f"event type {kind!r}, expected admit, resume, extend, decode, finish, abort or preempt")


def _spec(data: Json) -> Spec:
    groups = tuple(
        CacheGroup(_int(g["page_size"]), None if g["window"] is None else _int(g["window"])) for g in data["groups"]
    )
    if data["hidden"] not in get_args(HiddenSemantic):
        raise ValueError(f"hidden {data['hidden']!r}, expected one of {', '.join(get_args(HiddenSemantic))}")
    numbers = {key: _int(data[key]) for key in ("k", "steps", "conv_width", "ring_rows")}
    return Spec(hidden=data["hidden"], groups=groups, **numbers)


def _finding(data: Json | None) -> Finding | None:
    if data is None:
        return None
    if data["code"] not in RULES:
        raise ValueError(f"unknown code {data['code']!r}, expected one of {', '.join(RULES)}")
    numbers = {key: _int(data[key]) for key in ("round", "depth", "position")}
    return Finding(code=data["code"], request=_str(data["request"]), detail=dict(data["detail"]), **numbers)


def _pair(value: list[Any]) -> tuple[str, int]:
    name, number = value
    return _str(name), _int(number)


def _int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r}, expected an integer")
    return value


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(f"{value!r}, expected true or false")
    return value


def _str(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r}, expected a string")
    return value
