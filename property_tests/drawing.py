"""Random scenarios, built event by event from bounded integers, legal by construction: nothing is rejected.

The same builder serves Hypothesis (strategies.py) and the gate, which must run where Hypothesis is not installed. Every
draw's smallest value is its simplest one, so a source that shrinks its integers shrinks the scenario.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar

from frontier_oracle.oracle.scenario import (
    Abort,
    Admit,
    Books,
    Decode,
    Event,
    Extend,
    Finish,
    Preempt,
    Request,
    Resume,
    Scenario,
)
from frontier_oracle.oracle.spec import CacheGroup, Spec

T = TypeVar("T")
Move = Literal["decode", "extend", "admit", "finish", "abort", "preempt", "resume"]

# How often a legal move is taken. Decode first: it is the simplest.
WEIGHTS: tuple[tuple[Move, int], ...] = (
    ("decode", 6),
    ("extend", 4),
    ("admit", 3),
    ("finish", 1),
    ("abort", 1),
    ("preempt", 1),
    ("resume", 3),
)
# One slot, and owner after owner in it.
CHURN: tuple[tuple[Move, int], ...] = (
    ("decode", 2),
    ("extend", 3),
    ("admit", 3),
    ("finish", 4),
    ("abort", 1),
    ("preempt", 1),
    ("resume", 3),
)
# Many requests at once: they must be admitted before anything wears them down.
CROWD: tuple[tuple[Move, int], ...] = (
    ("decode", 4),
    ("extend", 3),
    ("admit", 12),
    ("finish", 1),
    ("abort", 1),
    ("preempt", 1),
    ("resume", 6),
)
# How many requests most scenarios have at most, whatever the limit.
FEW = 3

# What a serving engine does beyond admitting, decoding and finishing. "media" and "context" need a system that takes
# them.
SERVING = frozenset({"abort", "preempt", "ends", "undrafted", "idle"})
EVERYTHING = SERVING | {"media", "context"}
# What small numbers never show, now and then: batches of many rows, and prompts of hundreds of tokens.
SIZES = frozenset({"many", "far"})
MANY, FAR = 12, (240, 530)

MOST_CHUNKS = 6


@dataclass(frozen=True)
class Limits:
    """What a scenario may hold. spec: None draws one. max_requests: most draws have at most ``FEW``. max_rounds bounds
    the events after the first admission. events: which of EVERYTHING and of SIZES may be drawn."""

    spec: Spec | None = None
    max_requests: int = 6
    max_rounds: int = 16
    hits: bool = True
    held: bool = True
    padding: bool = True
    events: frozenset[str] = frozenset()


class Source(Protocol):
    """Where random integers come from."""

    def integer(self, low: int, high: int) -> int:
        """An integer in low..high, both included; low is the simplest."""
        ...


class SeededSource:
    """Integers keyed by (seed, index): the same on every machine and Python."""

    def __init__(self, seed: int, index: int) -> None:
        self._random = random.Random(f"{seed}/{index}").random

    def integer(self, low: int, high: int) -> int:
        return low + int(self._random() * (high - low + 1))


def random_scenario(seed: int, index: int, limits: Limits | None = None) -> Scenario:
    """Scenario number ``index`` of the stream ``seed``. Tens of microseconds; nothing carries over between calls."""
    return draw_scenario(SeededSource(seed, index), limits or Limits())


def draw_spec(source: Source) -> Spec:
    """A configuration: k 2..8, steps 1..k, W 1..4, one to three cache groups with and without windows."""
    k = _pick(source, (2, 3, 4, 4, 5, 6, 8))
    steps = _pick(source, (k - 1, k - 1, k - 1, *range(1, k + 1)))
    width = _pick(source, (1, 2, 3, 4, 4))
    # Page sizes that divide one another, most of the time: prefix hits come in whole pages of every group at once.
    usual = ((4, 2, 1), (4, 2, 1), (8, 4, 16), (3, 4, 5))
    sizes = _pick(source, (*usual, *usual, *usual, (32, 16, 64)))
    groups = tuple(_group(source, sizes, k) for _ in range(_pick(source, (1, 1, 2, 2, 3))))
    spare = _pick(source, (0, 0, 0, 1, 2, 5))
    hidden: Literal["chain", "target"] = "target" if source.integer(0, 2) == 2 else "chain"
    return Spec(k, steps, hidden, width, groups, width - 1 + k + spare)


def draw_scenario(source: Source, limits: Limits) -> Scenario:
    """A scenario within ``limits``: admissions, chunks, hits, batches that grow, shrink and reorder, padding, ends."""
    spec = limits.spec or draw_spec(source)
    hidden_size = _pick(source, (8, 8, 8, 16))
    slots = _pick(source, (4, 3, 2, 1))
    most = min(_pick(source, (FEW, FEW, FEW, limits.max_requests)), limits.max_requests)
    churn = source.integer(0, 11) == 11
    if churn:
        slots, most = 1, limits.max_requests
    weights = CHURN if churn else WEIGHTS
    if "many" in limits.events and source.integer(0, 23) == 23:
        slots, most, weights = MANY, MANY, CROWD
        limits = replace(limits, max_rounds=limits.max_rounds + MANY)
    limits = replace(limits, max_requests=most)
    context = None
    if "context" in limits.events and source.integer(0, 3) == 3:
        context = source.integer(2, _pick(source, (8, 16, 24)))
    books = Books(spec, slots, context)
    events: list[Event] = []
    while len(events) <= limits.max_rounds and (not events or source.integer(0, 13) > 0):
        moves = _moves(books, limits, weights)
        if not moves:
            break
        events.append(_event(source, books, limits, _pick(source, moves)))
        books.apply(events[-1])
    return Scenario(spec, hidden_size, slots, tuple(events), context)


def _group(source: Source, sizes: tuple[int, ...], k: int) -> CacheGroup:
    window = source.integer(1, 3 * k) if source.integer(0, 2) == 2 else None
    return CacheGroup(_pick(source, sizes), window)


def _moves(books: Books, limits: Limits, weights: tuple[tuple[Move, int], ...]) -> list[Move]:
    """The moves that are legal now, each as often as its weight."""
    states = books.requests.values()
    ready = any(request.ready for request in states)
    resumes = any(_resumable(books, request) for request in states)
    legal = {
        "decode": any(request.ready and not books.full(request) for request in states),
        "extend": any(request.waits for request in states),
        "admit": len(states) < limits.max_requests and books.live < books.slots,
        "finish": ready,
        "abort": "abort" in limits.events and not all(request.ended for request in states),
        "preempt": "preempt" in limits.events and books.live > 0,
        "resume": resumes and books.live < books.slots,
    }
    return [move for move, weight in weights if legal[move] for _ in range(weight)]


def _event(source: Source, books: Books, limits: Limits, move: Move) -> Event:
    if move == "admit":
        return _admit(source, books, limits)
    if move == "extend":
        return Extend(_batch(source, [name for name, request in books.requests.items() if request.waits]))
    if move == "finish":
        return Finish(_pick(source, [name for name, request in books.requests.items() if request.ready]))
    if move == "abort":
        return Abort(_pick(source, [name for name, request in books.requests.items() if not request.ended]))
    if move == "preempt":
        return Preempt(_pick(source, [name for name, request in books.requests.items() if request.live]))
    if move == "resume":
        return _resume(source, books, limits)
    return _decode(source, books, limits)


def _decode(source: Source, books: Books, limits: Limits) -> Decode:
    ready = [name for name, request in books.requests.items() if request.ready and not books.full(request)]
    rows: list[tuple[str, int]] = []
    for name in _batch(source, ready):
        rows.append((name, source.integer(1, books.most_accepted(books.requests[name]))))
    padded = limits.padding and source.integer(0, 3) == 3
    bucket = len(rows) + source.integer(0, 3) if padded else None
    ends, undrafted = [], []
    for name, accept in rows:
        if "ends" in limits.events and source.integer(0, 9) == 9:
            ends.append((name, source.integer(1, accept)))
        elif "undrafted" in limits.events and source.integer(0, 7) == 7:
            undrafted.append(name)
    if "idle" in limits.events and limits.padding and source.integer(0, 3) == 3:
        taken = {name for name, _ in rows}
        for name in _batch(source, [n for n in books.requests if n not in taken] or ["a"]):
            rows += [] if name in taken else [(name, 0)]
        rows = [rows.pop(source.integer(0, len(rows) - 1)) for _ in range(len(rows))]
        bucket = None if bucket is None else max(bucket, len(rows))
    return Decode(tuple(rows), bucket, tuple(ends), tuple(undrafted))


def _resumable(books: Books, request: Request) -> bool:
    return request.kept > 0 and not request.ended and not books.full(request)


def _resume(source: Source, books: Books, limits: Limits) -> Resume:
    """A preempted request comes back, some of its pages still cached or none."""
    name = _pick(source, [name for name, request in books.requests.items() if _resumable(books, request)])
    known, k = books.requests[name].kept, books.spec.k
    like = (name, source.integer(1, known - 1)) if limits.hits and known > 1 and source.integer(0, 2) == 2 else None
    held = limits.held and source.integer(0, 2) == 2
    listed = known - like[1] if like and source.integer(0, 3) == 3 else known
    return Resume(name, _chunks(source, listed, k), like, held)


def _admit(source: Source, books: Books, limits: Limits) -> Admit:
    k = books.spec.k
    like = _hit(source, books) if limits.hits and books.requests and source.integer(0, 2) > 0 else None
    if like and books.context is not None:
        like = (like[0], min(like[1], books.context - 2)) if books.context > 2 else None
    base = like[1] if like else 0
    # Prompts no longer than the window matter most (frontier < k), then those over several pages.
    pages = 2 * books.spec.groups[0].page_size
    prompt = base + source.integer(1, _pick(source, (k, k, 3 * k, max(20, pages))))
    if "far" in limits.events and source.integer(0, 39) == 39:
        prompt += source.integer(*FAR)
    if books.context is not None:
        prompt = min(prompt, books.context - 1)
    # Where one waits, a second is likely to: EXTEND rounds of several requests, with unequal chunks.
    waiting = any(request.waits for request in books.requests.values())
    held = limits.held and source.integer(0, 2) > (0 if waiting else 1)
    # A list may cover the whole prompt or only what the hit leaves.
    listed = prompt - base if source.integer(0, 3) == 3 else prompt
    chunks = _chunks(source, listed, k)
    media: tuple[tuple[int, int], ...] = ()
    if "media" in limits.events and source.integer(0, 1) == 1:
        first = source.integer(0, prompt - 1)
        media = ((first, source.integer(first, prompt - 1)),)
    return Admit(name_of(len(books.requests)), prompt, chunks, like, held, media)


def _hit(source: Source, books: Books) -> tuple[str, int]:
    """A donor and a length: anything, all that is known, or whole pages with the next ``steps`` tokens shared too."""
    donor = _pick(source, list(books.requests))
    known = books.requests[donor].known_tokens
    page = books.spec.groups[0].page_size
    kind = source.integer(0, 2)
    if kind == 0:
        return donor, source.integer(1, known)
    if kind == 1:
        return donor, known
    pages = max(0, known - books.spec.steps) // page
    return donor, min(known, source.integer(min(1, pages), pages) * page + books.spec.steps)


def _chunks(source: Source, total: int, k: int) -> tuple[int, ...]:
    """() for a single chunk, else up to six chunks that sum to ``total``, all but the last drawn below a cap."""
    if source.integer(0, 1) == 0:
        return ()
    cap = _pick(source, (total, 1, 2, k - 1, k + 2))
    chunks: list[int] = []
    left = total
    while left and len(chunks) < MOST_CHUNKS - 1:
        most = min(cap, left)
        chunks.append(most - source.integer(0, most - 1))
        left -= chunks[-1]
    if left:
        # A long rest goes first or last: the tiny chunks then end the prompt, or begin it.
        chunks.insert(len(chunks) * source.integer(0, 1), left)
    return tuple(chunks) if len(chunks) > 1 else ()


def _batch(source: Source, names: list[str]) -> tuple[str, ...]:
    """Some of ``names``, at least one, in any order."""
    size = len(names) - source.integer(0, len(names) - 1)
    return tuple(names.pop(source.integer(0, len(names) - 1)) for _ in range(size))


def name_of(index: int) -> str:
    """a, b, ... z, ba, bb, ...: the names of requests in the order of admission."""
    letter = chr(ord("a") + index % 26)
    return letter if index < 26 else name_of(index // 26) + letter


def _pick(source: Source, values: Sequence[T]) -> T:
    return values[source.integer(0, len(values) - 1)]
