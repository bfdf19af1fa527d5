"""The static part of the truth: who is admitted, what is still unread, what is known. It depends on no prefix policy,
so a scenario is legal or not whatever the prefix cache gives."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    Preempt,
    Resume,
)
from frontier_oracle.oracle.spec import Spec


@dataclass
class Request:
    """Where a request stands. admit: what it reads, after a resume its whole text so far; chunks_left counts listed
    chunks: an upper bound if a prefix hit shortens the list; kept: tokens known of it while it is preempted, else 0;
    undrafted: the last round's drafts were thrown away."""

    admit: Admit
    chunks_left: int
    accepted: int = 0
    ended: bool = False
    kept: int = 0
    undrafted: bool = False

    @property
    def finished(self) -> bool:
        """The whole prompt was read, whatever a prefix hit gave."""
        return self.chunks_left == 0

    @property
    def live(self) -> bool:
        """It holds a slot."""
        return not self.ended and not self.kept

    @property
    def ready(self) -> bool:
        """It can decode or end."""
        return self.live and self.finished

    @property
    def waits(self) -> bool:
        """An ``Extend`` may name it."""
        return self.live and self.admit.held and not self.finished

    @property
    def known_tokens(self) -> int:
        """Tokens a later hit can share: the prompt, and with it read the sampled token and what decoding committed."""
        return self.kept or self.admit.prompt + (1 + self.accepted if self.finished else 0)


@dataclass
class Books:
    """Replays events one by one. ``apply`` raises ScenarioError for an event that cannot happen now. context: the most
    tokens a request may hold (S22), None without a limit."""

    spec: Spec
    slots: int
    context: int | None = None
    requests: dict[str, Request] = field(default_factory=dict)

    @property
    def live(self) -> int:
        """Requests that hold a slot."""
        return sum(request.live for request in self.requests.values())

    def full(self, request: Request) -> bool:
        """Its context is used up: it may not decode any more."""
        return self.context is not None and request.known_tokens >= self.context

    def most_accepted(self, request: Request) -> int:
        """The longest accept length of its next round."""
        return 1 if request.undrafted else self.spec.max_accept

    def apply(self, event: Event) -> None:
        """Check ``event`` and book it; the books are unchanged when it is refused. The message names no event."""
        if isinstance(event, Admit):
            self._admit(event)
        elif isinstance(event, Resume):
            self._resume(event)
        elif isinstance(event, Extend):
            self._extend(event)
        elif isinstance(event, Decode):
            self._decode(event)
        elif isinstance(event, Preempt):
            request = self._live(event.name, "preempt")
            request.kept = request.known_tokens
        elif isinstance(event, Abort):
            self._not_ended(event.name, "abort").ended = True
        else:
            assert isinstance(event, Finish)
            self._ready(event.name, "end").ended = True

    # -- admissions ---------------------------------------------------------------------------------------------------

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
        _check_media(event)
        if self.context is not None and event.prompt >= self.context:
            raise ScenarioError(f"prompt of {event.prompt} in a context of {self.context}: no room to sample a token")
        self._check_slots()
        self.requests[event.name] = Request(event, event.listed if event.held else 0)

    def _resume(self, event: Resume) -> None:
        request = self._not_ended(event.name, "resume")
        if not request.kept:
            raise ScenarioError(
                f"resume of request {event.name}, which holds its slot: 'preempt {event.name}' must stand before it"
            )
        admit = event.admission(request.kept)
        if event.like is not None:
            if event.like[0] != event.name:
                raise ScenarioError(f"resume with a hit on {event.like[0]}: a request resumes on its own tokens only")
            self._check_hit(admit, *event.like)
        _check_chunks(admit, f"the {admit.prompt} known tokens of {event.name} (prompt, sampled token, output)")
        if self.context is not None and admit.prompt >= self.context:
            raise ScenarioError(f"resume of request {event.name}, whose context is full: abort it")
        self._check_slots()
        self.requests[event.name] = Request(admit, admit.listed if event.held else 0)

    def _check_slots(self) -> None:
        if self.live >= self.slots:
            raise ScenarioError(f"{self.live + 1} live requests but {self.slots} slots: end one first, or raise slots")

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

    # -- rounds -------------------------------------------------------------------------------------------------------

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
            if accept:
                self._check_row(name, accept)
            elif name not in self.requests:
                raise ScenarioError(f"idle row of unknown request {name}: admit it first, as in '{name}: p4'")
        live = dict(event.live)
        if not live:
            rows, most = ", ".join(f"{name}0" for name, _ in event.rows), self.spec.max_accept
            raise ScenarioError(
                f"every row is idle ({rows}): at least one must accept 1..{most} tokens (min(k, steps+1))"
            )
        marked = [name for name in (*dict(event.ends), *event.undrafted) if name not in live]
        if marked:
            raise ScenarioError(
                f"row of request {marked[0]} is idle or not there: marks e and ! stand on rows that accept"
            )
        for name, committed in event.ends:
            if not 1 <= committed <= live[name]:
                raise ScenarioError(f"{committed} tokens committed of request {name}: expected 1..{live[name]}")
        for name in event.undrafted:
            if name in dict(event.ends):
                raise ScenarioError(f"drafts of request {name} thrown away: it ends with the round, leave the ! out")
        if event.bucket is not None and event.bucket < len(event.rows):
            raise ScenarioError(f"bucket of {event.bucket} rows is smaller than the batch of {len(event.rows)}")
        ends = dict(event.ends)
        for name, accept in event.live:
            request = self.requests[name]
            request.accepted += ends.get(name, accept)
            request.ended = name in ends
            request.undrafted = name in event.undrafted

    def _check_row(self, name: str, accept: int) -> None:
        request = self._ready(name, "decode")
        if self.full(request):
            raise ScenarioError(f"decode of request {name}, whose context of {self.context} tokens is full: end it")
        if not 1 <= accept <= self.spec.max_accept:
            limit = f"1..{self.spec.max_accept} (min(k, steps+1))"
            raise ScenarioError(f"accept length {accept} of request {name} is outside {limit}")
        if accept > self.most_accepted(request):
            raise ScenarioError(
                f"accept length {accept} of request {name}, whose drafts were thrown away: expected 1 (S26)"
            )

    def _not_ended(self, name: str, verb: str) -> Request:
        request = self.requests.get(name)
        if request is None:
            raise ScenarioError(f"{verb} of unknown request {name}: admit it first, as in '{name}: p4'")
        if request.ended:
            raise ScenarioError(f"{verb} of request {name}, which has ended")
        return request

    def _live(self, name: str, verb: str) -> Request:
        request = self._not_ended(name, verb)
        if request.kept:
            raise ScenarioError(f"{verb} of request {name}, which is preempted: bring it back with '{name}: resume'")
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


def _check_chunks(event: Admit, whole: str = "") -> None:
    """The chunks must sum to ``whole`` (the prompt), or to what its hit may leave."""
    if any(chunk < 1 for chunk in event.chunks):
        raise ScenarioError(f"chunk of {min(event.chunks)} tokens: at least 1")
    total, least = sum(event.chunks), event.prompt - (event.like[1] if event.like else 0)
    if event.chunks and not least <= total <= event.prompt:
        want = whole or f"the prompt's {event.prompt}"
        if event.like is not None:
            want = f"{least} (what the hit leaves)..{event.prompt}"
        raise ScenarioError(f"chunks sum to {total}, expected {want}")


def _check_media(event: Admit) -> None:
    free = 0
    for first, last in event.media:
        if not free <= first <= last < event.prompt:
            raise ScenarioError(f"media {first}-{last}: expected rising ranges inside a prompt of {event.prompt}")
        free = last + 1
