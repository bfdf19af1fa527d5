"""The lines of a history file, read and checked one by one: what is dirty is told with its line, all of it at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from frontier_oracle.oracle.errors import RecordError, UsageError
from frontier_oracle.oracle.history.header import read_header
from frontier_oracle.oracle.history.values import (
    I64,
    Dirty,
    Json,
    array_of,
    between,
    by_group,
    integer,
    integers,
    items,
    name_of,
    only,
    token_ids,
)
from frontier_oracle.oracle.spec import Spec

# What no engine has: a slip of the log, that would only fill the memory.
MOST_TOKENS, MOST_PAGES, MOST_SLOTS = 1 << 22, 1 << 24, 1 << 24

# Optional fields of a call: arrays by row (n), by request of the batch (bs), or in each cache group.
BY_ROW = ("input_ids", "positions", "hidden", "outputs")
BY_REQUEST = ("seq_lens", "slots", "sample_rows", "sampled")
# Optional fields of a batch row that holds a request; ``sampled`` stands in extend rows, ``verified`` in decode rows.
OF_ROW = ("verified", "target_hidden", "page_table", "returned", "stash")


@dataclass(frozen=True)
class Admitted:
    """A request takes a slot (0: not logged). prompt: its token ids, None where only their number is logged; hit: the
    positions that the prefix cache gave."""

    line: int
    request: str
    slot: int
    prompt: tuple[int, ...] | None
    prompt_len: int
    hit: int


@dataclass(frozen=True)
class Left:
    """A request's slot is free again."""

    line: int
    request: str


@dataclass(frozen=True)
class BatchRow:
    """One row of the batch; request "" for a padded or idle one. first: chunk start (extend) or frontier F (decode);
    count: chunk length, or accept length. more: the optional fields that stand there, as arrays."""

    request: str
    first: int = 0
    count: int = 0
    sampled: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LoggedCall:
    """One call of the draft model. starts [bs+1]; more: the optional fields that stand there, as arrays."""

    depth: int
    starts: I64
    more: Mapping[str, Any]


@dataclass(frozen=True)
class LoggedRound:
    """One model round: mode "extend" or "decode"."""

    line: int
    mode: str
    rows: tuple[BatchRow, ...]
    calls: tuple[LoggedCall, ...]


LoggedEvent = Admitted | Left | LoggedRound


@dataclass(frozen=True)
class History:
    """A history file. call_fields, row_fields: the optional fields that stand in every call, and in every row."""

    path: str
    spec: Spec
    engine: str
    events: tuple[LoggedEvent, ...]
    call_fields: frozenset[str]
    row_fields: frozenset[str]


def read(path: str | Path) -> tuple[History | None, list[str]]:
    """The history, or None and what is dirty: one line each, with file and line. Raises RecordError for a file that
    cannot be read or is no history."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: not a history: byte {error.start} is not UTF-8") from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise RecordError(f"{path}: empty, expected a history: a header line, then a line an event")
    try:
        spec, engine = read_header(_object(lines[0][1]))
    except (Dirty, UsageError) as error:
        raise RecordError(f"{path}:{lines[0][0]}: {error}") from None
    events: list[LoggedEvent] = []
    problems: list[str] = []
    seen = _Fields()
    for number, line in lines[1:]:
        try:
            event = _event(_object(line), number, spec)
            seen.note(event)
            events.append(event)
        except Dirty as error:
            problems.append(f"{path}:{number}: {error}")
    if problems:
        return None, problems
    return History(str(path), spec, engine, tuple(events), seen.calls or frozenset(), seen.rows or frozenset()), []


class _Fields:
    """A field is logged always or never: else it could not be said what was judged."""

    def __init__(self) -> None:
        self.calls: frozenset[str] | None = None
        self.rows: frozenset[str] | None = None

    def note(self, event: LoggedEvent) -> None:
        if not isinstance(event, LoggedRound):
            return
        for call in event.calls:
            here = frozenset(call.more)
            self.calls = here if self.calls is None else self.calls
            _same(self.calls, here, f"the call of depth {call.depth}")
        for row in event.rows:
            if row.request:
                # Only decode rows have what was verified; whoever logs it there says so once.
                here = frozenset(row.more) - {"verified"}
                self.rows = here if self.rows is None else self.rows
                _same(self.rows, here, f"the row of {row.request!r}")


def _same(usual: frozenset[str], here: frozenset[str], where: str) -> None:
    if usual != here:
        names = ", ".join(sorted(usual ^ here))
        raise Dirty(f"{where} differs from those before in what it logs ({names}): log a field always or never")


def _object(line: str) -> Json:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Dirty(f"not a JSON object: {error}") from None
    if not isinstance(data, dict):
        raise Dirty(f"expected a JSON object, got {type(data).__name__}")
    return data


def _event(data: Json, line: int, spec: Spec) -> LoggedEvent:
    kind = data.get("event")
    if kind == "admit":
        return _admit(data, line)
    if kind == "release":
        only(data, ("event", "request"))
        return Left(line, name_of(data))
    if kind in ("extend", "decode"):
        only(data, ("event", "rows", "calls"))
        rows = tuple(_row(row, str(kind), spec) for row in items(data, "rows"))
        if not any(row.request for row in rows):
            raise Dirty(f"{kind} round without a request in its rows")
        calls = tuple(_call(call, rows, spec) for call in items(data, "calls", []))
        return LoggedRound(line, str(kind), rows, calls)
    raise Dirty(f'"event" is {kind!r}, expected admit, extend, decode or release')


def _admit(data: Json, line: int) -> Admitted:
    only(data, ("event", "request", "slot", "prompt", "prompt_len", "hit"))
    prompt = tuple(token_ids(data["prompt"], "prompt", (None,)).tolist()) if "prompt" in data else None
    length = len(prompt) if prompt is not None else integer(data, "prompt_len")
    hit, slot = integer(data, "hit", 0), integer(data, "slot", 0)
    if not 1 <= length <= MOST_TOKENS:
        raise Dirty(f"a prompt of {length} tokens, expected 1..{MOST_TOKENS}")
    if not 0 <= hit < length:
        raise Dirty(f"hit {hit} of a prompt of {length}: at least one token is left to compute")
    if "slot" in data and slot < 1:
        raise Dirty(f"slot {slot}: slots of requests count from 1, slot 0 is for padded rows (S20)")
    if slot >= MOST_SLOTS:
        raise Dirty(f"slot {slot}: expected at most {MOST_SLOTS - 1}, an index into the request pool")
    return Admitted(line, name_of(data), slot, prompt, length, hit)


def _row(data: Any, mode: str, spec: Spec) -> BatchRow:
    if not isinstance(data, dict):
        raise Dirty(f"a batch row is {type(data).__name__}, expected an object")
    if data.get("request", "") is None:
        return BatchRow("")
    first, count = ("start", "count") if mode == "extend" else ("frontier", "accept")
    own = ("sampled",) if mode == "extend" else ("verified",)
    only(data, ("request", first, count, *own, *(name for name in OF_ROW if name != "verified")))
    size = integer(data, count)
    most = spec.max_accept if mode == "decode" else None
    if size < 1 or (most is not None and size > most):
        raise Dirty(f"{count} {size} is outside 1..{most if most is not None else 'the prompt'}")
    if integer(data, first) < 0:
        raise Dirty(f"{first} {data[first]} is below 0")
    more: Json = {}
    if "verified" in data:
        more["verified"] = between(token_ids(data["verified"], "verified", (None,)), "verified", size, spec.k)
    if "target_hidden" in data:
        most_hidden = size if mode == "extend" else spec.k
        more["target_hidden"] = between(data["target_hidden"], "target_hidden", size, most_hidden)
    if "page_table" in data:
        more["page_table"] = by_group(data["page_table"], "page_table", spec, (None,))
        _few_pages(more["page_table"])
    if "returned" in data:
        more["returned"] = token_ids(data["returned"], "returned", (spec.steps + 1,))
    if "stash" in data:
        more["stash"] = _stash(data["stash"], spec)
    sampled = data.get("sampled")
    if sampled is not None:
        sampled = int(token_ids([sampled], "sampled", (1,))[0])
    return BatchRow(name_of(data), integer(data, first), size, sampled, more)


def _stash(data: Any, spec: Spec) -> tuple[I64, I64 | None, int | None]:
    """(tokens [k-1], hidden [k-1] or None, how many of the last entries hold or None: all)."""
    if not isinstance(data, dict):
        raise Dirty('"stash" is {"tokens": [k-1 ids], "hidden": [k-1 hashes], "valid": n}, the last two optional')
    only(data, ("tokens", "hidden", "valid"))
    hidden = integers(data["hidden"], "stash.hidden", (spec.k - 1,)) if data.get("hidden") is not None else None
    valid = integer(data, "valid") if data.get("valid") is not None else None
    return integers(data.get("tokens"), "stash.tokens", (spec.k - 1,)), hidden, valid


def _call(data: Any, rows: tuple[BatchRow, ...], spec: Spec) -> LoggedCall:
    """Padded rows at the batch's end may be left out of a call."""
    if not isinstance(data, dict):
        raise Dirty(f"a call is {type(data).__name__}, expected an object")
    only(data, ("depth", "query_start_loc", "masked", "locations", "page_table", *BY_ROW, *BY_REQUEST))
    depth = integer(data, "depth")
    if not 0 <= depth < spec.steps:
        raise Dirty(f"depth {depth} is outside 0..{spec.steps - 1} (steps-1)")
    least = 1 + max(i for i, row in enumerate(rows) if row.request)
    starts = between(data.get("query_start_loc"), "query_start_loc", least + 1, len(rows) + 1)
    bs = len(starts) - 1
    if starts[0] != 0 or (np.diff(starts) < 0).any():
        raise Dirty(f"query_start_loc {starts.tolist()}: expected rows of {bs} requests, from 0 on, never falling")
    n = int(starts[-1])
    more: Json = {name: integers(data[name], name, (n,)) for name in BY_ROW if name in data}
    more |= {name: integers(data[name], name, (bs,)) for name in BY_REQUEST if name in data}
    if "masked" in data:
        more["masked"] = array_of(data["masked"], "masked", (n,), "b", "true or false")
    if "locations" in data:
        more["locations"] = by_group(data["locations"], "locations", spec, (n,))
        _few_pages(tuple(loc // g.page_size for loc, g in zip(more["locations"], spec.groups, strict=True)))
    if "page_table" in data:
        more["page_table"] = by_group(data["page_table"], "page_table", spec, (bs, None))
        _few_pages(more["page_table"])
    return LoggedCall(depth, starts, more)


def _few_pages(groups: tuple[I64, ...]) -> None:
    if any(pages.size and pages.max() >= MOST_PAGES for pages in groups):
        raise Dirty(f"a page beyond {MOST_PAGES}: expected page ids and locations as the engine has them")
