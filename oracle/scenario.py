"""A scenario: one configuration and the events driven through it. ``str(event)`` is its text in the scenario language.

``Books`` is the static part of the truth (who is admitted, what is still unread, what is known); it depends on no
policy, so a scenario is legal or not whatever the prefix cache gives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from frontier_oracle.oracle.errors import ScenarioError
from frontier_oracle.oracle.spec import Spec

NAME = re.compile(r"[a-z]{1,8}")
RESERVED = frozenset({"chunks", "end", "held", "hit"})


@dataclass(frozen=True)
class Admit:
    """Request ``name`` arrives with ``prompt`` tokens, run in EXTEND rounds of ``chunks`` tokens (() = one chunk).

    like: (donor, n): the first n tokens are the donor's (prompt, then output; S21); what the prefix cache gives of them
    is the policy's affair, and ``chunks_after_hit`` fits the list to it. held: only admitted; each ``Extend`` that
    names it runs one chunk. Not held: all chunks run at once, one round after the other.
    """

    name: str
    prompt: int
    chunks: tuple[int, ...] = ()
    like: tuple[str, int] | None = None
    held: bool = False

    @property
    def listed(self) -> int:
        """How many chunks the event lists: the most EXTEND rounds its prompt can take."""
        return len(self.chunks) or 1

    def __str__(self) -> str:
        hit = f" hit {self.like[0]} {self.like[1]}" if self.like else ""
        chunks = " chunks " + ",".join(map(str, self.chunks)) if self.chunks else ""
        return f"{self.name}: p{self.prompt}{hit}{chunks}{' held' if self.held else ''}"


@dataclass(frozen=True)
class Extend:
    """One EXTEND round: the next chunk of each named request, in this batch order."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "+" + " ".join(self.names)


@dataclass(frozen=True)
class Decode:
    """One DECODE round: (name, accept length) per batch row, padded with slot 0 to ``bucket`` rows (S20)."""

    rows: tuple[tuple[str, int], ...]
    bucket: int | None = None

    def __str__(self) -> str:
        rows = " ".join(f"{name}{accept}" for name, accept in self.rows)
        return rows if self.bucket is None else f"{rows} /{self.bucket}"


@dataclass(frozen=True)
class Finish:
    """The request ends: its slot and its pages are free."""

    name: str

    def __str__(self) -> str:
        return f"end {self.name}"


Event = Admit | Extend | Decode | Finish


@dataclass(frozen=True)
class Scenario:
    """Events over one configuration. hidden_size is a multiple of 8; slots does not count slot 0."""

    spec: Spec
    hidden_size: int = 8
    slots: int = 4
    events: tuple[Event, ...] = ()


@dataclass
class Request:
    """Where a request stands. chunks_left counts listed chunks: an upper bound if a prefix hit shortens the list."""

    admit: Admit
    chunks_left: int
    accepted: int = 0
    ended: bool = False

    @property
    def finished(self) -> bool:
        """The whole prompt was read, whatever a prefix hit gave."""
        return self.chunks_left == 0

    @property
    def ready(self) -> bool:
        """It can decode or end."""
        return self.finished and not self.ended

    @property
    def waits(self) -> bool:
        """An ``Extend`` may name it."""
        return self.admit.held and not self.finished

    @property
    def known_tokens(self) -> int:
        """Tokens a later hit can share: the prompt, and with it read the sampled token and what decoding committed."""
        return self.admit.prompt + (1 + self.accepted if self.finished else 0)


@dataclass
class Books:
    """Replays events one by one. ``apply`` raises ScenarioError for an event that cannot happen now."""

    spec: Spec
    slots: int
    requests: dict[str, Request] = field(default_factory=dict)

    @property
    def live(self) -> int:
        """Requests that hold a slot."""
        return sum(not request.ended for request in self.requests.values())

    def apply(self, event: Event) -> None:
        """Check ``event`` and book it; the books are unchanged when it is refused. The message names no event."""
        if isinstance(event, Admit):
            self._admit(event)
        elif isinstance(event, Extend):
            self._extend(event)
        elif isinstance(event, Decode):
            self._decode(event)
        else:
            self._ready(event.name, "end").ended = True

    def _admit(self, event: Admit) -> None:
        if not NAME.fullmatch(event.name) or event.name in RESERVED:
            words = ", ".join(sorted(RESERVED))
            raise ScenarioError(f"request name {event.name!r}: expected 1 to 8 letters a-z, and none of {words}")
        if event.name in self.requests:
            raise ScenarioError(f"request {event.name} exists already: a name is used once, pick a new one")
        if event.prompt < 1:
            raise ScenarioError(f"prompt of {event.prompt}: a prompt has at least 1 token")
        if event.like is not None:
            self._check_hit(event, *event.like)
        _check_chunks(event)
        if self.live >= self.slots:
            raise ScenarioError(f"{self.live + 1} live requests but {self.slots} slots: end one first, or raise slots")
        self.requests[event.name] = Request(event, event.listed if event.held else 0)

    def _check_hit(self, event: Admit, donor: str, length: int) -> None:
        if donor not in self.requests:
            raise ScenarioError(f"hit on {donor}, which is not admitted before {event.name}")
        known = self.requests[donor].known_tokens
        if length < 1:
            raise ScenarioError(f"hit of {length} tokens: at least 1")
        if length > known:
            raise ScenarioError(f"hit of {length} tokens, but only {known} tokens of {donor} are known by then")
        if length > event.prompt - 1:
            raise ScenarioError(
                f"hit of {length} on a prompt of {event.prompt}: at least one token must be left to compute"
            )

    def _extend(self, event: Extend) -> None:
        _check_batch(event.names)
        for name in event.names:
            request = self._live(name, "extend")
            if not request.admit.held:
                raise ScenarioError(f"request {name} is not held: its chunks ran when it was admitted")
            if request.finished:
                raise ScenarioError(f"request {name} has no chunks left: all {request.admit.listed} were run")
        for name in event.names:
            self.requests[name].chunks_left -= 1

    def _decode(self, event: Decode) -> None:
        _check_batch(tuple(name for name, _ in event.rows))
        for name, accept in event.rows:
            self._ready(name, "decode")
            if not 1 <= accept <= self.spec.max_accept:
                limit = f"1..{self.spec.max_accept} (min(k, steps+1))"
                raise ScenarioError(f"accept length {accept} of request {name} is outside {limit}")
        if event.bucket is not None and event.bucket < len(event.rows):
            raise ScenarioError(f"bucket of {event.bucket} rows is smaller than the batch of {len(event.rows)}")
        for name, accept in event.rows:
            self.requests[name].accepted += accept

    def _live(self, name: str, verb: str) -> Request:
        request = self.requests.get(name)
        if request is None:
            raise ScenarioError(f"{verb} of unknown request {name}: admit it first, as in '{name}: p4'")
        if request.ended:
            raise ScenarioError(f"{verb} of request {name}, which has ended")
        return request

    def _ready(self, name: str, verb: str) -> Request:
        request = self._live(name, verb)
        if not request.finished:
            left = request.chunks_left
            raise ScenarioError(f"{verb} of request {name} with {left} unread prompt chunks: run them with '+{name}'")
        return request


def _check_batch(names: tuple[str, ...]) -> None:
    if not names:
        raise ScenarioError("empty batch: at least one request")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ScenarioError(f"request {name} stands twice in one batch")
        seen.add(name)


def _check_chunks(event: Admit) -> None:
    if any(chunk < 1 for chunk in event.chunks):
        raise ScenarioError(f"chunk of {min(event.chunks)} tokens: at least 1")
    total, least = sum(event.chunks), event.prompt - (event.like[1] if event.like else 0)
    if event.chunks and not least <= total <= event.prompt:
        want = (
            f"the prompt's {event.prompt}" if event.like is None else f"{least} (what the hit leaves)..{event.prompt}"
        )
        raise ScenarioError(f"chunks sum to {total}, expected {want}")


def validate(scenario: Scenario) -> None:
    """Raise ScenarioError, one line with the event's index (from 0) and text, unless every event can happen."""
    if scenario.hidden_size < 8 or scenario.hidden_size % 8:
        raise ScenarioError(f"hidden width H{scenario.hidden_size}: a positive multiple of 8")
    if scenario.slots < 1:
        raise ScenarioError(f"slots{scenario.slots}: at least one request slot beside slot 0")
    books = Books(scenario.spec, scenario.slots)
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
    """Positions the longest request can touch: prompt + accept lengths, and k + steps beyond its frontier (S22)."""
    reach = {name: admit.prompt for name, admit in requests(scenario).items()}
    for event in scenario.events:
        for name, accept in event.rows if isinstance(event, Decode) else ():
            reach[name] += accept
    return max(reach.values(), default=0) + scenario.spec.k + scenario.spec.steps
