"""Fits events to a scenario, for the shrinker: what an edit breaks further on is repaired, not rejected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from frontier_oracle.oracle.scenario import (
    Abort,
    Admit,
    Books,
    Decode,
    Event,
    Extend,
    Finish,
    Resume,
    Scenario,
    chunks_after_hit,
)


def repaired(scenario: Scenario, events: Iterable[Event]) -> Scenario:
    """The legal scenario nearest to ``scenario`` with ``events``: what cannot happen is cut down or left out."""
    books = Books(scenario.spec, scenario.slots, scenario.context)
    kept: list[Event] = []
    for event in events:
        fitted = _fitted(books, event)
        if fitted is not None:
            books.apply(fitted)
            kept.append(fitted)
    return replace(scenario, events=tuple(kept))


def _fitted(books: Books, event: Event) -> Event | None:
    states = books.requests
    if isinstance(event, Admit):
        return _fitted_admit(books, event) if event.name not in states and books.live < books.slots else None
    if isinstance(event, Extend):
        names = tuple(name for name in dict.fromkeys(event.names) if name in states and states[name].waits)
        return Extend(names) if names else None
    if isinstance(event, Decode):
        return _fitted_decode(books, event)
    request = states.get(event.name)
    if request is None or request.ended:
        return None
    if isinstance(event, Resume):
        return _fitted_resume(books, event, request.kept) if request.kept and books.live < books.slots else None
    if isinstance(event, Finish):
        return event if request.ready else None
    return event if isinstance(event, Abort) or request.live else None


def _fitted_decode(books: Books, event: Decode) -> Decode | None:
    accepts = dict(reversed(event.rows))  # of a name that stands twice after a merge, the first row counts
    rows: list[tuple[str, int]] = []
    for name in dict.fromkeys(name for name, _ in event.rows):
        request, accept = books.requests.get(name), accepts[name]
        if request is None or accept and (not request.ready or books.full(request)):
            continue
        rows.append((name, min(accept, books.most_accepted(request))))
    live = {name: accept for name, accept in rows if accept}
    if not live:
        return None
    ends = {name: min(committed, live[name]) for name, committed in reversed(event.ends) if name in live}
    undrafted = tuple(name for name in dict.fromkeys(event.undrafted) if name in live and name not in ends)
    bucket = None if event.bucket is None else max(event.bucket, len(rows))
    return Decode(tuple(rows), bucket, tuple(ends.items()), undrafted)


def _fitted_admit(books: Books, event: Admit) -> Admit | None:
    if event.prompt < 1 or books.context is not None and event.prompt >= books.context:
        return None
    donor = books.requests.get(event.like[0]) if event.like else None
    length = min(event.like[1], donor.known_tokens, event.prompt - 1) if event.like and donor else 0
    media = tuple((first, min(last, event.prompt - 1)) for first, last in event.media if first < event.prompt)
    fitted = replace(event, like=(event.like[0], length) if event.like and length else None, media=media)
    if event.chunks and not event.prompt - length <= sum(event.chunks) <= event.prompt:
        fitted = replace(fitted, chunks=chunks_after_hit(fitted, 0))
    return fitted


def _fitted_resume(books: Books, event: Resume, known: int) -> Resume | None:
    if books.context is not None and known >= books.context:
        return None
    length = min(event.like[1], known - 1) if event.like else 0
    fitted = replace(event, like=(event.name, length) if length else None)
    if event.chunks and not known - length <= sum(event.chunks) <= known:
        fitted = replace(fitted, chunks=chunks_after_hit(fitted.admission(known), 0))
    return fitted
