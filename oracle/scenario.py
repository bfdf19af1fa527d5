"""A scenario: one configuration and the events driven through it. The events are in events.py, what is legal in
books.py; both are to be had from here."""

from __future__ import annotations

from dataclasses import dataclass

from frontier_oracle.oracle.books import Books, Request
from frontier_oracle.oracle.errors import ScenarioError
from frontier_oracle.oracle.events import (
    NAME,
    RESERVED,
    Abort,
    Admit,
    Decode,
    Event,
    Extend,
    Finish,
    Leaving,
    Preempt,
    Resume,
    leaving,
)
from frontier_oracle.oracle.spec import Spec

__all__ = [
    "NAME",
    "RESERVED",
    "Abort",
    "Admit",
    "Books",
    "Decode",
    "Event",
    "Extend",
    "Finish",
    "Leaving",
    "Preempt",
    "Request",
    "Resume",
    "Scenario",
    "chunks_after_hit",
    "leaving",
    "max_batch",
    "max_positions",
    "requests",
    "validate",
]


@dataclass(frozen=True)
class Scenario:
    """Events over one configuration. hidden_size is a multiple of 8; slots does not count slot 0; context: the most
    tokens a request may hold, None without a limit (S22)."""

    spec: Spec
    hidden_size: int = 8
    slots: int = 4
    events: tuple[Event, ...] = ()
    context: int | None = None


def validate(scenario: Scenario) -> None:
    """Raise ScenarioError, one line with the event's index (from 0) and text, unless every event can happen."""
    if scenario.hidden_size < 8 or scenario.hidden_size % 8:
        raise ScenarioError(f"hidden width H{scenario.hidden_size}: a positive multiple of 8")
    if scenario.slots < 1:
        raise ScenarioError(f"slots{scenario.slots}: at least one request slot beside slot 0")
    if scenario.context is not None and scenario.context < 2:
        raise ScenarioError(f"ctx{scenario.context}: a context holds a prompt of 1 and a sampled token, so at least 2")
    books = Books(scenario.spec, scenario.slots, scenario.context)
    for index, event in enumerate(scenario.events):
        try:
            books.apply(event)
        except ScenarioError as error:
            raise ScenarioError(f'event {index} "{event}": {error}') from None


def chunks_after_hit(admit: Admit, hit: int) -> tuple[int, ...]:
    """Sizes of the chunks that cover prompt positions hit..prompt-1; hit < prompt is what the cache really gave.

    Chunk boundaries count from the prompt's end: those inside the hit drop out, and where the list covers less than
    what is left its first chunk takes the rest. Never more chunks than listed.
    """
    left = admit.prompt - hit
    chunks: list[int] = []
    for listed in reversed(admit.chunks or (admit.prompt,)):
        if left == 0:
            break
        chunks.append(min(listed, left))
        left -= chunks[-1]
    chunks[-1] += left
    return tuple(reversed(chunks))


def requests(scenario: Scenario) -> dict[str, Admit]:
    """The requests by name, in the order they are admitted."""
    return {event.name: event for event in scenario.events if isinstance(event, Admit)}


def max_batch(scenario: Scenario) -> int:
    """Rows of the largest batch, padding included (at least 1)."""
    sizes = [1]
    for event in scenario.events:
        if isinstance(event, Extend):
            sizes.append(len(event.names))
        elif isinstance(event, Decode):
            sizes.append(max(len(event.rows), event.bucket or 0))
    return max(sizes)


def max_positions(scenario: Scenario) -> int:
    """Positions the longest request can touch: prompt + accept lengths, and k + steps beyond its frontier. With a
    context limit, just that and the k-1 spare positions of its physical pad (S22)."""
    if scenario.context is not None:
        return scenario.context + scenario.spec.k - 1
    reach = {name: admit.prompt for name, admit in requests(scenario).items()}
    again: dict[str, int] = {}
    for event in scenario.events:
        for name, accept in event.rows if isinstance(event, Decode) else ():
            reach[name] += accept
        if isinstance(event, Resume):
            again[event.name] = again.get(event.name, 0) + 1
    longest = max((most + again.get(name, 0) for name, most in reach.items()), default=0)
    return longest + scenario.spec.k + scenario.spec.steps
