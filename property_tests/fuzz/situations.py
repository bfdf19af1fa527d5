"""What an event exercises: pairs of a rule with the state it meets and the event that meets it.

Everything is read off the events and the engine's books, so a scenario's pairs are known before anything runs, and a
guide can choose between events. States and events are coarse classes, each a boundary that some rule speaks of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from frontier_oracle.oracle.policies import POLICIES
from frontier_oracle.oracle.scenario import (
    Admit,
    Books,
    Decode,
    Event,
    Extend,
    Preempt,
    Resume,
    Scenario,
    chunks_after_hit,
    leaving,
)
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.fuzz.classes import (
    crossing,
    far,
    hit_class,
    how,
    page_class,
    rows_class,
    short,
    some,
    standing,
    steps,
    times,
)

# (rules as in SEMANTICS, the state they meet, the event that meets it)
Pair = tuple[str, str, str]


@dataclass
class Life:
    """A request between its admission (or resume) and its leaving. owner: which owner of its slot it is, from 1; hit:
    positions that the prefix cache gives; hits: how many requests of this engine had some by then; donor: how the
    donor stands; left: how the slot's owner before it left; before: what its last row was, a chunk or an accept;
    rounds: decode rows since; computed: the frontier."""

    slot: int
    owner: int
    left: str
    hit: int
    hits: int
    donor: str
    chunks: list[int]
    computed: int
    read: int = 0
    before: str = "nothing"
    rounds: int = 0


@dataclass
class Situation:
    """An engine's books, and what they leave out: slots, their owners, what each request met last."""

    spec: Spec
    slots: int
    context: int | None = None
    policy: str = "successor"
    lives: dict[str, Life] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.books = Books(self.spec, self.slots, self.context)
        self._free = list(range(self.slots, 0, -1))
        self._owners: dict[int, tuple[int, str]] = {}
        self._gone: dict[str, tuple[int, int]] = {}  # computed positions, known tokens
        self._hits = 0
        self._rows: tuple[str, ...] = ()

    def pairs(self, event: Event) -> list[Pair]:
        """What ``event`` would exercise now; nothing changes."""
        if isinstance(event, Decode):
            return list(self._decode_pairs(event))
        if isinstance(event, Extend):
            return list(self._extend_pairs(event))
        if isinstance(event, Admit | Resume):
            return list(self._start_pairs(event))
        request = self.books.requests[event.name]
        return [("S19", standing(request) + " " + self._before(event.name), type(event).__name__.lower())]

    def rounds(self, event: Event) -> int:
        """Request-rounds that ``event`` leads to."""
        if isinstance(event, Decode):
            return len(event.live)
        if isinstance(event, Extend):
            return sum(bool(self.lives[name].chunks) for name in event.names)
        return len(self._life(event).chunks) if isinstance(event, Admit | Resume) and not event.held else 0

    def apply(self, event: Event) -> None:
        """Book a legal event."""
        if isinstance(event, Admit | Resume):
            self.lives[event.name] = self._life(event)
            self._hits = self.lives[event.name].hits
            self._free.pop()
        self.books.apply(event)
        if isinstance(event, Extend):
            for name in event.names:
                self._read(self.lives[name])
        elif isinstance(event, Admit | Resume) and not event.held:
            while self.lives[event.name].chunks:
                self._read(self.lives[event.name])
        elif isinstance(event, Decode):
            self._decoded(event)
        for name in leaving(event):
            life = self.lives.pop(name, None)
            if life is not None:
                self._gone[name] = life.computed, life.computed + (sum(life.chunks) or 1)
                self._owners[life.slot] = (life.owner, "preempt" if isinstance(event, Preempt) else how(event))
                self._free.append(life.slot)

    # -- what the events do -------------------------------------------------------------------------------------------

    def _life(self, event: Admit | Resume) -> Life:
        slot = self._free[-1]
        owner, left = self._owners.get(slot, (0, "fresh"))
        # A hit can leave fewer chunks than the books count, so that more is known than they say.
        admit = event.admission(self._gone[event.name][1]) if isinstance(event, Resume) else event
        hit, donor = 0, "none"
        if event.like is not None:
            giver = self.books.requests[event.like[0]]
            name = event.like[0]
            computed = self.lives[name].computed if giver.live else self._gone[name][0]
            hit = POLICIES[self.policy].hit(self.spec, event.like[1], computed, admit.prompt)
            donor = standing(giver)
        chunks = list(chunks_after_hit(admit, hit))
        return Life(slot, owner + 1, left, hit, self._hits + (hit > 0), donor, chunks, hit)

    def _read(self, life: Life) -> None:
        if life.chunks:
            n = life.chunks.pop(0)
            life.computed += n
            life.read += 1
            life.before = "short chunk" if n < self.spec.k - 1 else "chunk"

    def _decoded(self, event: Decode) -> None:
        for name, accept in event.live:
            life = self.lives[name]
            life.computed += accept  # those behind an end too: the rows are there, and a hit may ask for them
            life.rounds += 1
            life.before = "undrafted" if name in event.undrafted else self._accepted(accept)
        for name, accept in event.rows:
            if not accept and name in self.lives:
                self.lives[name].before = "idle"
        self._rows = tuple(name if accept else "" for name, accept in event.rows)

    # -- what they exercise -------------------------------------------------------------------------------------------

    def _start_pairs(self, event: Admit | Resume) -> Iterator[Pair]:
        life, spec = self._life(event), self.spec
        how = "resume" if isinstance(event, Resume) else "admit"
        gets = hit_class(life.hit, spec) if event.like is not None else "asks for nothing"
        left = sum(life.chunks)
        yield "S19", f"owner {min(life.owner, 5)}, after {life.left}", f"{how}, {gets}"
        if event.like is not None:
            yield "S21", f"donor {life.donor}, hit number {min(life.hits, 5)}", f"{how}, {gets}"
            yield "S21", f"{gets}, {short(left, spec)} left, owner {min(life.owner, 3)}", how
        if isinstance(event, Admit) and event.media:
            ends = {life.hit + sum(life.chunks[: i + 1]) for i in range(len(life.chunks))}
            edge = any(p in ends or p + 1 in ends for first, last in event.media for p in (first, last))
            yield "S16", f"{some(len(life.chunks))} chunks, {gets}", "media at an edge" if edge else "media inside"
        if not event.held:
            at, read, before = life.computed, life.read, life.before
            for i, n in enumerate(life.chunks):
                rest = life.chunks[i + 1 :]
                yield from self._chunk_pairs(life, at, read + i, before, n, rest, "alone")
                at, before = at + n, "short chunk" if n < spec.k - 1 else "chunk"

    def _extend_pairs(self, event: Extend) -> Iterator[Pair]:
        batch = [self.lives[name] for name in event.names if self.lives[name].chunks]
        for i, life in enumerate(batch):
            n, rest = life.chunks[0], life.chunks[1:]
            place = "alone" if len(batch) == 1 else "first" if i == 0 else "last" if i == len(batch) - 1 else "inner"
            yield from self._chunk_pairs(life, life.computed, life.read, life.before, n, rest, place)
        if batch:
            finals = sum(len(life.chunks) == 1 for life in batch)
            mix = "all final" if finals == len(batch) else "none final" if not finals else "some final"
            yield "S12 S13", f"batch of {rows_class(len(batch))}", mix

    def _chunk_pairs(
        self, life: Life, start: int, read: int, before: str, n: int, rest: list[int], place: str
    ) -> Iterator[Pair]:
        spec = self.spec
        size = "1" if n == 1 else short(n, spec)
        where = ("only" if not read else "last") if not rest else "first" if not read else "inner"
        ahead = min(sum(rest), spec.steps)
        lacks = "nothing" if not rest else "part" if ahead < spec.steps else "all"
        yield "S12 S13", f"{where} chunk, lookahead {lacks}", f"{size} rows, {place}"
        yield "S14", f"behind {before}, {short(start, spec)} known", f"{size} rows, {place}"
        yield "S1", self._head(), f"{where} chunk, {place}"
        for group in spec.groups:
            yield "S17", page_class(group, spec), f"chunk {crossing(group, start, start + n)}"
            yield from self._ring_pairs(group, start, start + n, "chunk")
        if spec.taps:
            yield (
                "S18",
                f"ring {times((start + n) // spec.ring_rows)}",
                f"chunk of {size}, {short(start, spec)} known",
            )
        yield "S9", far(start + n), "chunk"
        if life.hit:
            yield "S21", f"{short(start - life.hit, spec)} since the hit, owner {min(life.owner, 3)}", f"chunk {place}"

    def _decode_pairs(self, event: Decode) -> Iterator[Pair]:
        rows, live = len(event.rows), len(event.live)
        padding = "exact" if event.bucket is None else f"padded by {min(event.bucket - rows, 2)}"
        yield "S20", f"{rows_class(live)} live", f"{padding}, {some(rows - live)} idle"
        order = [name for name, _ in event.live]
        kept = [name for name in self._rows if name in order]
        moved = "moved" if [n for n in order if n in kept] != kept else "in place"
        same = "as many" if len(self._rows) == rows else "fewer" if rows < len(self._rows) else "more"
        yield "S9 S19", f"{rows_class(live)} rows, {same}", moved
        for i, (name, accept) in enumerate(event.rows):
            if accept:
                yield from self._row_pairs(event, i, name, accept)
            else:
                stands = standing(self.books.requests[name])
                before = i < len(self._rows) and self._rows[i] != ""
                place = "before a live row" if any(a for _, a in event.rows[i:]) else "last"
                yield "S20", f"idle, {stands}, row {'live' if before else 'idle'} before", f"{place}, {same}"

    def _row_pairs(self, event: Decode, i: int, name: str, accept: int) -> Iterator[Pair]:
        spec, life = self.spec, self.lives[name]
        frontier = life.computed
        after = frontier + accept
        what = self._accepted(accept)
        mark = "ends" if name in dict(event.ends) else "undrafted" if name in event.undrafted else "goes on"
        yield "S5 S6 S8", f"{short(frontier, spec)} known, behind {life.before}", what
        yield "S4", f"{steps(spec)}, behind {life.before}", what
        yield "S1", self._head(), f"accept {what}"
        yield "S9 S20", f"row {rows_class(i + 1)}", what
        yield "S9", far(after), what
        yield "S19", f"owner {min(life.owner, 5)}, after {life.left}, round {min(life.rounds, 3)}", mark
        if mark != "goes on" or life.before == "undrafted":
            yield "S26", f"behind {life.before}, {some(accept - dict(event.ends).get(name, accept))} cut", mark
        for group in spec.groups:
            yield "S17", page_class(group, spec), f"window {crossing(group, max(0, after - spec.k), after)}"
            yield from self._ring_pairs(group, frontier, after, "window")
        if spec.taps:
            pages = crossing(spec.groups[0], max(0, after - spec.k), after)
            yield "S18", f"ring {times(after // spec.ring_rows)}, W {some(spec.taps)}", f"window {pages}"
        if life.hit:
            since = short(frontier - life.hit, spec)
            yield "S21", f"{since} since the hit, owner {min(life.owner, 3)}, round {min(life.rounds, 2)}", what
            yield "S21", f"hit number {min(life.hits, 5)}, {since} since", what
        if self.context is not None:
            room = self.context - 1 - frontier
            yield "S22", "beyond" if accept > room else "just" if accept == room else short(room - accept, spec), what

    def _ring_pairs(self, group: CacheGroup, start: int, end: int, what: str) -> Iterator[Pair]:
        """A ring of pages that is written a second time (S17)."""
        if group.window is not None:
            size = group.window + 2 * self.spec.k + group.page_size
            yield "S17", f"{page_class(group, self.spec)}, ring {times(end // size)}", what

    def _head(self) -> str:
        spec = self.spec
        return f"{spec.hidden}, {steps(spec)}"

    def _accepted(self, accept: int) -> str:
        return "1" if accept == 1 else "all" if accept == self.spec.max_accept else "some"

    def _before(self, name: str) -> str:
        return self.lives[name].before if name in self.lives else "nothing"


def met_by(scenario: Scenario, policy: str = "successor") -> Iterator[tuple[int, set[Pair]]]:
    """Event by event: the request-rounds that it costs, and the pairs that it exercises under a prefix policy."""
    situation = Situation(scenario.spec, scenario.slots, scenario.context, policy)
    for event in scenario.events:
        yield situation.rounds(event), set(situation.pairs(event))
        situation.apply(event)


def pairs_of(scenario: Scenario, policy: str = "successor") -> set[Pair]:
    """All that a scenario exercises under a prefix policy."""
    return set[Pair]().union(*(pairs for _, pairs in met_by(scenario, policy)))
