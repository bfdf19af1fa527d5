"""One state machine over any drafter: Hypothesis plays the serving engine, the judge looks after every round.

Where strategies.py draws whole scenarios and shrinks them, the machine's moves depend on what is live now: slots are
used again, batches grow, shrink and change their order, at every point where that is legal.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from frontier_oracle.oracle.designs import Design
from frontier_oracle.oracle.executor import DesignDrafter
from frontier_oracle.oracle.judge import Judge
from frontier_oracle.oracle.language import render
from frontier_oracle.oracle.play import Drafter
from frontier_oracle.oracle.rules import RULES, Finding, raise_finding
from frontier_oracle.oracle.scenario import (
    Abort,
    Admit,
    Books,
    Decode,
    Event,
    Extend,
    Finish,
    Preempt,
    Resume,
    Scenario,
)
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.timeline import Adopted, Released, Room, Timeline
from frontier_oracle.property_tests.drawing import name_of
from frontier_oracle.property_tests.driver import TorchDrafter
from frontier_oracle.property_tests.shield import Factory
from frontier_oracle.property_tests.strategies import specs

# Small enough that rings of pages wrap and slots run out.
MOST_REQUESTS, MOST_RESUMES, MOST_TOKENS, MOST_CHUNK, MOST_HIT, MOST_PADDING = 8, 4, 64, 8, 24, 2
CHUNKS = st.lists(st.integers(1, MOST_CHUNK), min_size=1, max_size=4)
# The first and last position of media ids in a prompt, before they are cut to it.
MEDIA = st.none() | st.tuples(st.integers(0, 2 * MOST_CHUNK), st.integers(0, MOST_CHUNK))
CONTEXTS = st.none() | st.integers(2, 24)


class Engine:
    """A drafter and its judge on a timeline whose events come one by one."""

    def __init__(self, timeline: Timeline, drafter: Drafter) -> None:
        self.timeline, self.drafter = timeline, drafter
        self.judge = Judge(timeline.config(), timeline.max_positions)

    def advance(self, event: Event, kept: bool) -> list[Finding]:
        """Run one event. Returns its rounds' findings, in order."""
        findings: list[Finding] = []
        for step in self.timeline.advance(event, kept):
            if isinstance(step, Adopted):
                self.drafter.adopted(step)
                self.judge.adopted(step)
            elif isinstance(step, Released):
                self.drafter.released(step)
                self.judge.released(step)
            else:
                evidence = self.drafter.round(step)
                findings += self.judge.round(step, evidence).findings
                self.timeline.commit(step, evidence.returned)
        return findings


class DrafterMachine(RuleBasedStateMachine):
    """Moves of a serving engine over one drafter; subclasses made by ``machine_for`` name it.

    A finding that the design does not declare, or a declared one that stays away, is raised as its rule's exception
    (rules.raise_finding); the message ends with the scenario so far, which replays it.
    """

    factory: ClassVar[Factory]
    policy: ClassVar[str]
    design: ClassVar[Design | None] = None
    serves: ClassVar[frozenset[str]] = frozenset()

    @initialize(spec=specs(), hidden_size=st.sampled_from((8, 16)), slots=st.integers(1, 4), context=CONTEXTS)
    def configure(self, spec: Spec, hidden_size: int, slots: int, context: int | None) -> None:
        """One configuration for the run; a context limit (S22) only for systems that keep to it."""
        context = context if "context" in self.serves else None
        self.spec, self.books = spec, Books(spec, slots, context)
        self.hidden_size, self.kept = hidden_size, set[str]()
        self.events: list[Event] = []
        self.preempted = 0
        room = Room(
            slots=slots,
            hidden_size=hidden_size,
            requests=MOST_REQUESTS + MOST_RESUMES,
            positions=MOST_TOKENS + spec.k + spec.steps if context is None else context + spec.k - 1,
            chunk=MOST_CHUNK,
            batch=slots + MOST_REQUESTS + MOST_PADDING,
            media="media" in self.serves,
        )
        timeline = Timeline.open(spec, room, self.policy)
        make = type(self).factory
        self.system = Engine(timeline, TorchDrafter(make, timeline.config(), guard=False))
        self.declared = None
        if self.design is not None and self.design.deviations:
            again = Timeline.open(spec, room, self.policy)
            self.declared = Engine(again, DesignDrafter(self.design, again.config()))

    # ---- what is legal now ------------------------------------------------------------------------------------------

    def can_admit(self) -> bool:
        return self.books.live < self.books.slots and len(self.books.requests) < MOST_REQUESTS

    def donors(self) -> list[str]:
        """Requests whose pages are there: live ones, and others that the prefix cache keeps."""
        return [name for name, request in self.books.requests.items() if request.live or name in self.kept]

    def waiting(self) -> list[str]:
        return [name for name, request in self.books.requests.items() if request.waits]

    def decoding(self) -> list[str]:
        """Requests that may decode, and have room for a full accept."""
        most = MOST_TOKENS - self.spec.max_accept
        ready = [(n, r) for n, r in self.books.requests.items() if r.ready and not self.books.full(r)]
        return [n for n, r in ready if r.admit.prompt + r.accepted <= most]

    def ending(self) -> list[str]:
        return [name for name, request in self.books.requests.items() if request.ready]

    def live(self) -> list[str]:
        return [name for name, request in self.books.requests.items() if request.live]

    def resuming(self) -> list[str]:
        """Preempted requests that fit into a slot, and into the chunks that the engine was built for."""
        if self.books.live >= self.books.slots:
            return []
        preempted = [(n, r) for n, r in self.books.requests.items() if r.kept and not r.ended]
        return [name for name, request in preempted if not self.books.full(request)]

    def fitted(self, chunks: list[int], before: int = 0) -> list[int]:
        """As many of the chunks as the context takes behind ``before`` tokens; the prompt's sample needs room too."""
        room = MOST_TOKENS if self.books.context is None else self.books.context - 1 - before
        ends = [min(sum(chunks[: i + 1]), room) for i in range(len(chunks))]
        return [end - start for start, end in zip([0, *ends], ends, strict=False) if end > start]

    def media(self, drawn: tuple[int, int] | None, prompt: int) -> tuple[tuple[int, int], ...]:
        """The media positions of a prompt (S16), only for systems that take them."""
        if drawn is None or "media" not in self.serves:
            return ()
        first = min(drawn[0], prompt - 1)
        return ((first, min(first + drawn[1], prompt - 1)),)

    # ---- moves ------------------------------------------------------------------------------------------------------

    @precondition(can_admit)
    @rule(chunks=CHUNKS, held=st.booleans(), media=MEDIA)
    def admit(self, chunks: list[int], held: bool, media: tuple[int, int] | None) -> None:
        """A new prompt, in a free slot: one that another request had, where there is one."""
        chunks = self.fitted(chunks)
        prompt = sum(chunks)
        self.play(Admit(self.next_name(), prompt, _listed(chunks), None, held, self.media(media, prompt)))

    @precondition(lambda self: self.can_admit() and bool(self.donors()) and (self.books.context or 3) > 2)
    @rule(data=st.data(), chunks=CHUNKS, held=st.booleans(), media=MEDIA)
    def admit_with_hit(self, data: Any, chunks: list[int], held: bool, media: tuple[int, int] | None) -> None:
        """A prompt that begins as another one does, and then goes on in its own way."""
        donor = data.draw(st.sampled_from(self.donors()), label="donor")
        most = MOST_HIT if self.books.context is None else self.books.context - 2
        known = min(self.books.requests[donor].known_tokens, most)
        length = known - data.draw(st.integers(0, known - 1), label="tokens not shared")
        # The shared part is listed too, in whole chunks: what the prefix cache does not give of it must be run.
        shared = [MOST_CHUNK] * (length // MOST_CHUNK) + [length % MOST_CHUNK] * (length % MOST_CHUNK > 0)
        chunks = self.fitted(chunks, length)
        prompt, listed = length + sum(chunks), _listed(shared + chunks)
        self.play(Admit(self.next_name(), prompt, listed, (donor, length), held, self.media(media, prompt)))

    @precondition(lambda self: bool(self.waiting()))
    @rule(data=st.data())
    def extend(self, data: Any) -> None:
        """The next chunk of some held requests, in one batch."""
        self.play(Extend(_some(data, self.waiting())))

    @precondition(lambda self: bool(self.decoding()))
    @rule(data=st.data(), padding=st.integers(0, MOST_PADDING))
    def decode(self, data: Any, padding: int) -> None:
        """One round: any of the requests, in any order, any accept lengths, padded or not."""
        names = _some(data, self.decoding())
        most = [self.books.most_accepted(self.books.requests[name]) for name in names]
        accepts = [data.draw(st.integers(1, n), label=f"accept of {name}") for name, n in zip(names, most, strict=True)]
        bucket = len(names) + padding if padding else None
        self.play(Decode(tuple(zip(names, accepts, strict=True)), bucket))

    @precondition(lambda self: bool(self.ending()))
    @rule(data=st.data(), kept=st.booleans())
    def finish(self, data: Any, kept: bool) -> None:
        """A request ends: its slot is free, and so are its pages unless the prefix cache keeps them."""
        name = data.draw(st.sampled_from(self.ending()), label="request")
        if kept:
            self.kept.add(name)
        self.play(Finish(name), kept)

    @precondition(lambda self: bool(self.decoding()))
    @rule(data=st.data(), drops=st.booleans())
    def decode_and_more(self, data: Any, drops: bool) -> None:
        """A round that one request ends with, or whose drafts are thrown away, beside rows that stand idle."""
        names = _some(data, self.decoding())
        accepts = [data.draw(st.integers(1, self.books.most_accepted(self.books.requests[n]))) for n in names]
        others = [name for name in self.books.requests if name not in names]
        idle = _some(data, others) if others else ()
        rows = data.draw(st.permutations([*zip(names, accepts, strict=True), *((name, 0) for name in idle)]))
        chosen, accept = data.draw(st.sampled_from(list(zip(names, accepts, strict=True))), label="request")
        if drops:
            self.play(Decode(tuple(rows), None, (), (chosen,)))
        else:
            committed = data.draw(st.integers(1, accept), label="tokens committed")
            self.play(Decode(tuple(rows), None, ((chosen, committed),)))

    @precondition(lambda self: bool(self.live()))
    @rule(data=st.data())
    def abort(self, data: Any) -> None:
        """A request is given up, inside its prompt too."""
        self.play(Abort(data.draw(st.sampled_from(self.live()), label="request")))

    @precondition(lambda self: bool(self.live()) and self.preempted < MOST_RESUMES)
    @rule(data=st.data(), kept=st.booleans())
    def preempt(self, data: Any, kept: bool) -> None:
        """A request loses its slot and its drafts, its pages too unless the prefix cache keeps them."""
        name = data.draw(st.sampled_from(self.live()), label="request")
        self.preempted += 1
        self.kept -= {name}
        if kept:
            self.kept.add(name)
        self.play(Preempt(name), kept)

    @precondition(lambda self: bool(self.resuming()))
    @rule(data=st.data(), held=st.booleans())
    def resume(self, data: Any, held: bool) -> None:
        """Prompt and output are read again in chunks, behind what is still cached."""
        name = data.draw(st.sampled_from(self.resuming()), label="request")
        known = self.books.requests[name].kept
        chunks: list[int] = []
        while sum(chunks) < known:
            chunks.append(data.draw(st.integers(1, min(MOST_CHUNK, known - sum(chunks))), label="chunk"))
        shared = data.draw(st.integers(0, known - 1), label="tokens cached") if name in self.kept else 0
        self.play(Resume(name, _listed(chunks), (name, shared) if shared else None, held))
        self.kept -= {name}

    @precondition(lambda self: not (self.can_admit() or self.live() or self.resuming()))
    @rule()
    def rest(self) -> None:
        """Nobody is left."""

    # ---- judging ----------------------------------------------------------------------------------------------------

    def next_name(self) -> str:
        return name_of(len(self.books.requests))

    def play(self, event: Event, kept: bool = False) -> None:
        """Run an event and raise its first finding that is not declared."""
        self.books.apply(event)
        self.events.append(event)
        found = self.system.advance(event, kept)
        expected = self.declared.advance(event, kept) if self.declared else []
        keys = {f.key for f in expected}
        got = {f.key for f in found}
        for finding in found:
            if finding.key not in keys:
                raise_finding(finding, self.message(finding, str(finding.detail)))
        for finding in expected:
            if finding.key not in got:
                raise_finding(finding, self.message(finding, "declared, but it did not happen"))

    def message(self, finding: Finding, why: str) -> str:
        """One line for the finding, one for the scenario so far."""
        rule_ = RULES[finding.code]
        scenario = Scenario(self.spec, self.hidden_size, self.books.slots, tuple(self.events), self.books.context)
        depth = f", depth {finding.depth}" if finding.depth >= 0 else ""
        position = f", position {finding.position}" if finding.position >= 0 else ""
        where = f"round {finding.round}, request {finding.request or '(padding)'}{depth}{position}"
        return f"{finding.code} {rule_.title} ({rule_.rule}) in {where}: {why}\nscenario: {render(scenario)}"


def machine_for(
    factory: Factory, policy: str, design: Design | None = None, serves: frozenset[str] = frozenset()
) -> type[DrafterMachine]:
    """The state machine of one drafter: ``make(config, model)``, its prefix policy, the design it declares, and which
    of "media" and "context" it serves beside what every engine does (drawing.EVERYTHING)."""
    name = getattr(factory, "__name__", "drafter")
    attributes = {"factory": staticmethod(factory), "policy": policy, "design": design, "serves": serves}
    return type(f"MachineOf_{name}", (DrafterMachine,), attributes)


def _some(data: Any, names: list[str]) -> tuple[str, ...]:
    """Some of ``names``, at least one, in any order."""
    order = data.draw(st.permutations(names), label="order")
    return tuple(order[: len(order) - data.draw(st.integers(0, len(order) - 1), label="left out")])


def _listed(chunks: list[int]) -> tuple[int, ...]:
    """A single chunk is not listed."""
    return tuple(chunks) if len(chunks) > 1 else ()
