"""Makes a failing scenario small: delta debugging on the objects, deterministic, every candidate legal.

Hypothesis shrinks what it drew; the gate's scenarios come from a seeded stream, from records and from people, so they
are shrunk here. A candidate is any simpler scenario; what an edit breaks elsewhere is repaired, not rejected: a row
whose request is gone leaves its batch, a hit beyond the donor's tokens is cut.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import permutations
from typing import TypeVar

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.language import render
from frontier_oracle.oracle.scenario import (
    Abort,
    Admit,
    Decode,
    Event,
    Extend,
    Finish,
    Resume,
    Scenario,
    requests,
)
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.drawing import name_of
from frontier_oracle.property_tests.fitting import repaired

T = TypeVar("T")
Weight = tuple[int | str, ...]


def shrink(scenario: Scenario, still_fails: Callable[[Scenario], bool], max_seconds: float = 60.0) -> Scenario:
    """The smallest scenario found for which ``still_fails`` holds, ``scenario`` itself if there is none smaller.

    ``still_fails`` is taken to hold for ``scenario`` and is asked once per candidate; it should ask for the same
    finding code, so that one bug does not turn into another. After ``max_seconds`` the best so far is returned.
    """
    search = _Search(scenario, still_fails, time.monotonic() + max_seconds)
    search.run()
    return search.best


class _Search:
    """The best scenario so far, and the passes that better it until none does."""

    def __init__(self, scenario: Scenario, still_fails: Callable[[Scenario], bool], deadline: float) -> None:
        self.best, self.still_fails, self.deadline = scenario, still_fails, deadline
        self.seen = {scenario}

    def run(self) -> None:
        before = None
        while before != self.best and time.monotonic() < self.deadline:
            before = self.best
            self._drop_requests()
            self._drop_events()
            self._sweep(_simpler_event, lambda: len(self.best.events))
            self._sweep(_simpler_header, lambda: 1)
            self._merge_requests()
            names = {name: name_of(i) for i, name in enumerate(requests(self.best))}
            self._try(replace(self.best, events=tuple(_renamed(event, names) for event in self.best.events)))

    def _try(self, candidate: Scenario) -> bool:
        """Take ``candidate`` if it is simpler, new, and fails."""
        if candidate in self.seen or _weight(candidate) >= _weight(self.best) or time.monotonic() >= self.deadline:
            return False
        self.seen.add(candidate)
        if not self.still_fails(candidate):
            return False
        self.best = candidate
        return True

    def _drop_requests(self) -> None:
        for name in requests(self.best):
            self._try(repaired(self.best, _not_admitting(self.best.events, name)))

    def _merge_requests(self) -> None:
        """Let one request stand in for another everywhere: fewer requests where a batch needs its size."""
        for gone, heir in permutations(requests(self.best), 2):
            kept = _not_admitting(self.best.events, gone)
            self._try(repaired(self.best, [_renamed(event, {gone: heir}) for event in kept]))

    def _drop_events(self) -> None:
        """Remove runs of events, long runs first, from the end: what comes late is likelier to be past the failure."""
        size = max(1, len(self.best.events) // 2)
        while size:
            stop = len(self.best.events)
            while stop > 0:
                start = max(0, stop - size)
                # Events before ``start`` stay as they are whether this is taken or not.
                self._try(repaired(self.best, self.best.events[:start] + self.best.events[stop:]))
                stop = start
            size //= 2

    def _sweep(self, simpler: Callable[[Scenario, int], Iterator[Scenario]], count: Callable[[], int]) -> None:
        """Better each of ``count()`` places until nothing simpler fails there."""
        index = 0
        while index < count():
            if not any(self._try(candidate) for candidate in simpler(self.best, index)):
                index += 1


def _weight(scenario: Scenario) -> Weight:
    """What "simpler" means: fewer events, rows and chunks, then fewer tokens, then a plainer configuration."""
    spec, events = scenario.spec, scenario.events
    admits = [event for event in events if isinstance(event, Admit)]
    prefills = [event for event in events if isinstance(event, Admit | Resume)]
    decodes = [event for event in events if isinstance(event, Decode)]
    rows = sum(len(d.rows) for d in decodes) + sum(len(e.names) for e in events if isinstance(e, Extend))
    features = sum((a.like is not None) + a.held for a in prefills) + sum(d.bucket is not None for d in decodes)
    features += sum(len(a.media) for a in admits) + (scenario.context is not None)
    features += sum(len(d.ends) + len(d.undrafted) + len(d.rows) - len(d.live) for d in decodes)
    tokens = sum(a.prompt for a in admits) + sum(a.like[1] for a in prefills if a.like)
    tokens += sum(last - first for a in admits for first, last in a.media) + sum(n for d in decodes for _, n in d.ends)
    tokens += sum(accept for d in decodes for _, accept in d.rows) + sum(d.bucket or 0 for d in decodes)
    windows = sum(group.window is not None for group in spec.groups)
    plain = len(spec.groups) + windows + (spec.steps != spec.k - 1) + (spec.hidden != "chain")
    odd = sum(group.page_size != 16 for group in spec.groups) + (scenario.hidden_size != 8) + (scenario.slots != 4)
    spare = spec.ring_rows - spec.taps - spec.k
    text = render(scenario)
    chunks = sum(len(a.chunks) for a in prefills)
    return len(events), rows, chunks, features, tokens, plain, spec.k, spec.conv_width, spare, odd, len(text), text


def _simpler_event(scenario: Scenario, index: int) -> Iterator[Scenario]:
    """The scenario with its event ``index`` made simpler in one respect."""
    event = scenario.events[index]
    variants: Iterable[Event] = ()
    if isinstance(event, Admit):
        variants = _simpler_admit(event)
    elif isinstance(event, Resume):
        variants = _simpler_resume(event)
    elif isinstance(event, Abort):
        variants = (Finish(event.name),)
    elif isinstance(event, Decode):
        variants = _simpler_decode(event)
    elif isinstance(event, Extend):
        variants = (replace(event, names=_without(event.names, i)) for i in range(len(event.names)))
    for variant in variants:
        yield repaired(scenario, _with(scenario.events, index, variant))
    if isinstance(event, Extend | Decode):
        yield _absorbed(scenario, index)


def _absorbed(scenario: Scenario, index: int) -> Scenario:
    """Without the round ``index``, and with its requests where they would be after it: a decode's tokens join the
    prompt, an EXTEND round's chunk joins the one before. Edits that reach this in two steps fail in between."""
    event = scenario.events[index]
    grown = dict(event.rows) if isinstance(event, Decode) else {}
    joined = event.names if isinstance(event, Extend) else ()

    def absorb(other: Event) -> Event:
        if not isinstance(other, Admit):
            return other
        longer = grown.get(other.name, 0)
        chunks = (*other.chunks[:-1], other.chunks[-1] + longer) if other.chunks else ()
        if other.name in joined and len(chunks) > 1:
            chunks = (chunks[0] + chunks[1], *chunks[2:])
        return replace(other, prompt=other.prompt + longer, chunks=chunks)

    return repaired(scenario, [absorb(other) for other in _without(scenario.events, index)])


def _simpler_resume(event: Resume) -> Iterator[Resume]:
    if event.held:
        yield replace(event, held=False)
    if event.like:
        yield replace(event, like=None)
        yield from (replace(event, like=(event.like[0], n)) for n in _lower(event.like[1], 1))
    if event.chunks:
        yield replace(event, chunks=())
        for i in range(len(event.chunks) - 1):
            joined = (*event.chunks[:i], event.chunks[i] + event.chunks[i + 1], *event.chunks[i + 2 :])
            yield replace(event, chunks=joined)


def _simpler_admit(event: Admit) -> Iterator[Admit]:
    if event.media:
        yield replace(event, media=())
        yield from (replace(event, media=((first, first),)) for first, last in event.media)
        yield from (replace(event, media=((n, n),)) for n in _lower(event.media[0][0], 0))
    if event.held:
        yield replace(event, held=False)
    if event.like:
        yield replace(event, like=None)
        yield from (replace(event, like=(event.like[0], n)) for n in _lower(event.like[1], 1))
        yield from (replace(event, prompt=n) for n in _lower(event.prompt, event.like[1] + 1))
        # Hit and prompt together: what the hit leaves stays the same.
        rest = event.prompt - event.like[1]
        for n in _lower(event.like[1], 1):
            yield replace(event, prompt=n + rest, like=(event.like[0], n))
    else:
        yield from (replace(event, prompt=n) for n in _lower(event.prompt, 1))
    if event.chunks:
        yield replace(event, chunks=())
        for i in range(len(event.chunks) - 1):
            joined = (*event.chunks[:i], event.chunks[i] + event.chunks[i + 1], *event.chunks[i + 2 :])
            yield replace(event, chunks=joined)
        for i, chunk in enumerate(event.chunks):
            for n in _lower(chunk, 1):
                yield replace(event, prompt=event.prompt - chunk + n, chunks=_with(event.chunks, i, n))
            yield replace(event, prompt=event.prompt - chunk, chunks=_without(event.chunks, i))


def _simpler_decode(event: Decode) -> Iterator[Decode]:
    if event.bucket is not None:
        yield replace(event, bucket=None)
        yield from (replace(event, bucket=n) for n in _lower(event.bucket, len(event.rows)))
    if event.ends:
        yield replace(event, ends=())
    if event.undrafted:
        yield replace(event, undrafted=())
    for i, (name, accept) in enumerate(event.rows):
        yield replace(event, rows=_without(event.rows, i))
        yield from (replace(event, rows=_with(event.rows, i, (name, n))) for n in _lower(accept, 1))
    yield replace(event, rows=tuple(sorted(event.rows)))


def _simpler_header(scenario: Scenario, _: int) -> Iterator[Scenario]:
    """The scenario under a plainer configuration; one that the limits refuse is passed over."""
    spec, events = scenario.spec, scenario.events
    for k in _lower(spec.k, 2):
        yield from _respec(scenario, k=k, steps=k - 1, ring_rows=0)
        yield from _respec(scenario, k=k, steps=min(k, spec.steps), ring_rows=0)
    yield from _respec(scenario, steps=spec.k - 1)
    yield from (c for steps in _lower(spec.steps, 1) for c in _respec(scenario, steps=steps))
    yield from (c for width in _lower(spec.conv_width, 1) for c in _respec(scenario, conv_width=width, ring_rows=0))
    yield from _respec(scenario, ring_rows=0)
    yield from _respec(scenario, hidden="chain")
    yield from _respec(scenario, groups=(CacheGroup(16),))
    for i, group in enumerate(spec.groups):
        yield from _respec(scenario, groups=_without(spec.groups, i))
        yield from _respec(scenario, groups=_with(spec.groups, i, CacheGroup(group.page_size)))
        yield from _respec(scenario, groups=_with(spec.groups, i, CacheGroup(16, group.window)))
    yield repaired(replace(scenario, context=None), events)
    yield repaired(replace(scenario, slots=4), events)
    yield repaired(replace(scenario, hidden_size=8), events)


def _respec(scenario: Scenario, **changes: object) -> Iterator[Scenario]:
    try:
        spec: Spec = replace(scenario.spec, **changes)  # type: ignore[arg-type]
    except UsageError:
        return
    yield repaired(replace(scenario, spec=spec), scenario.events)


def _not_admitting(events: tuple[Event, ...], name: str) -> list[Event]:
    return [event for event in events if not (isinstance(event, Admit) and event.name == name)]


def _renamed(event: Event, names: dict[str, str]) -> Event:
    """The event with its requests renamed, those in ``names``."""
    if isinstance(event, Admit | Resume):
        like = event.like and (names.get(event.like[0], event.like[0]), event.like[1])
        return replace(event, name=names.get(event.name, event.name), like=like)
    if isinstance(event, Extend):
        return Extend(tuple(names.get(name, name) for name in event.names))
    if isinstance(event, Decode):
        return replace(
            event,
            rows=tuple((names.get(name, name), accept) for name, accept in event.rows),
            ends=tuple((names.get(name, name), committed) for name, committed in event.ends),
            undrafted=tuple(names.get(name, name) for name in event.undrafted),
        )
    return replace(event, name=names.get(event.name, event.name))


def _lower(value: int, low: int) -> list[int]:
    """Smaller values worth trying, boldest first."""
    return sorted({low, (low + value) // 2, value - 1} - {value}) if value > low else []


def _with(values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _without(values: tuple[T, ...], index: int) -> tuple[T, ...]:
    return values[:index] + values[index + 1 :]
