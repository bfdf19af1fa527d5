"""Random scenarios, built event by event from bounded integers, legal by construction: nothing is rejected.

The same builder serves Hypothesis (strategies.py) and the gate, which must run where Hypothesis is not installed. Every
draw's smallest value is its simplest one, so a source that shrinks its integers shrinks the scenario.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar

from frontier_oracle.oracle.scenario import Admit, Books, Decode, Event, Extend, Finish, Scenario
from frontier_oracle.oracle.spec import CacheGroup, Spec

T = TypeVar("T")
Move = Literal["decode", "extend", "admit", "finish"]

# How often a legal move is taken. Decode first: it is the simplest.
WEIGHTS: tuple[tuple[Move, int], ...] = (("decode", 6), ("extend", 4), ("admit", 3), ("finish", 1))
# One slot, and owner after owner in it.
CHURN: tuple[tuple[Move, int], ...] = (("decode", 2), ("extend", 3), ("admit", 3), ("finish", 4))
# How many requests most scenarios have at most, whatever the limit.
FEW = 3

MOST_CHUNKS = 6


@dataclass(frozen=True)
class Limits:
    """What a scenario may hold. spec: None draws one. max_requests: most draws have at most ``FEW``. max_rounds bounds
    the events after the first admission."""

    spec: Spec | None = None
    max_requests: int = 6
    max_rounds: int = 16
    hits: bool = True
    held: bool = True
    padding: bool = True


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
    limits = replace(limits, max_requests=most)
    books = Books(spec, slots)
    events: list[Event] = []
    while len(events) <= limits.max_rounds and (not events or source.integer(0, 13) > 0):
        moves = _moves(books, limits, CHURN if churn else WEIGHTS)
        if not moves:
            break
        events.append(_event(source, books, limits, _pick(source, moves)))
        books.apply(events[-1])
    return Scenario(spec, hidden_size, slots, tuple(events))


def _group(source: Source, sizes: tuple[int, ...], k: int) -> CacheGroup:
    window = source.integer(1, 3 * k) if source.integer(0, 2) == 2 else None
    return CacheGroup(_pick(source, sizes), window)


def _moves(books: Books, limits: Limits, weights: tuple[tuple[Move, int], ...]) -> list[Move]:
    """The moves that are legal now, each as often as its weight."""
    states = books.requests.values()
    ready = any(request.ready for request in states)
    legal = {
        "decode": ready,
        "extend": any(request.waits for request in states),
        "admit": len(states) < limits.max_requests and books.live < books.slots,
        "finish": ready,
    }
    return [move for move, weight in weights if legal[move] for _ in range(weight)]


def _event(source: Source, books: Books, limits: Limits, move: Move) -> Event:
    if move == "admit":
        return _admit(source, books, limits)
    if move == "extend":
        return Extend(_batch(source, [name for name, request in books.requests.items() if request.waits]))
    ready = [name for name, request in books.requests.items() if request.ready]
    if move == "finish":
        return Finish(_pick(source, ready))
    rows = tuple((name, source.integer(1, books.spec.max_accept)) for name in _batch(source, ready))
    padded = limits.padding and source.integer(0, 3) == 3
    return Decode(rows, len(rows) + source.integer(0, 3) if padded else None)


def _admit(source: Source, books: Books, limits: Limits) -> Admit:
    k = books.spec.k
    like = _hit(source, books) if limits.hits and books.requests and source.integer(0, 2) > 0 else None
    base = like[1] if like else 0
    # Prompts no longer than the window matter most (frontier < k), then those over several pages.
    pages = 2 * books.spec.groups[0].page_size
    prompt = base + source.integer(1, _pick(source, (k, k, 3 * k, max(20, pages))))
    # Where one waits, a second is likely to: EXTEND rounds of several requests, with unequal chunks.
    waiting = any(request.waits for request in books.requests.values())
    held = limits.held and source.integer(0, 2) > (0 if waiting else 1)
    # A list may cover the whole prompt or only what the hit leaves.
    listed = prompt - base if source.integer(0, 3) == 3 else prompt
    return Admit(name_of(len(books.requests)), prompt, _chunks(source, listed, k), like, held)


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
