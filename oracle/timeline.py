"""The serving engine of a scenario: slots, pages, target and forced accepts. It hands out steps and takes drafts back.

Accept lengths are inputs: v is built from the drafts that the system returned, so that exactly ``a`` tokens commit,
whatever the system drafts. A step's views say what the drafter must see once it runs; drafts are all that is open.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, ExtendBatch
from frontier_oracle.oracle.engine_requests import (
    COMMIT,
    DISCARDED,
    GARBAGE,
    HASH,
    MEDIA,
    PROMPT,
    Adopted,
    Released,
    Request,
    Room,
    Round,
    Step,
    View,
    page_table,
    prompt_of,
    room_of,
    run_target,
    view_of,
)
from frontier_oracle.oracle.engine_verify import verify_hidden, verify_ids
from frontier_oracle.oracle.limits import check_sizes
from frontier_oracle.oracle.pages import PagePool, Table
from frontier_oracle.oracle.policies import POLICIES
from frontier_oracle.oracle.scenario import (
    Admit,
    Decode,
    Event,
    Extend,
    Resume,
    Scenario,
    chunks_after_hit,
    leaving,
    validate,
)
from frontier_oracle.oracle.spec import Spec

__all__ = [
    "COMMIT",
    "DISCARDED",
    "GARBAGE",
    "POLICIES",
    "PROMPT",
    "Adopted",
    "Released",
    "Request",
    "Room",
    "Round",
    "Step",
    "Timeline",
    "View",
]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


class Timeline:
    """Runs a scenario. Iterate over ``steps()``; after each Round call ``commit`` with what the system returned."""

    def __init__(self, scenario: Scenario, policy: str = "successor") -> None:
        validate(scenario)
        check_sizes(scenario)
        self.scenario = scenario
        self._build(scenario.spec, room_of(scenario), policy)

    @classmethod
    def open(cls, spec: Spec, room: Room, policy: str = "successor") -> Timeline:
        """A timeline whose events are not known yet: drive it with ``advance``. The caller keeps them legal (scenario
        .Books) and within ``room``."""
        timeline = cls.__new__(cls)
        timeline.scenario = Scenario(spec, room.hidden_size, room.slots)
        timeline._build(spec, room, policy)
        return timeline

    def _build(self, spec: Spec, room: Room, policy: str) -> None:
        self.spec, self.room, self.policy = spec, room, POLICIES[policy]
        self.max_positions = room.positions
        self.cols = tuple(g.cols(room.positions, spec.k, room.chunk) for g in spec.groups)
        self.pools = [PagePool(g, room.requests * c + 1) for g, c in zip(spec.groups, self.cols, strict=True)]
        self.free_slots = list(range(room.slots, 0, -1))
        self.live: dict[str, Request] = {}
        self.gone: dict[str, Request] = {}
        self.rounds = 0
        self._below = ~HASH if room.media else -1  # the bits that scripted tokens may have
        self._fresh: list[tuple[int, int]] = []

    def config(self) -> DraftConfig:
        """The buffers a system needs for this timeline."""
        return DraftConfig(
            spec=self.spec,
            num_slots=self.room.slots + 1,
            max_batch=self.room.batch,
            num_pages=tuple(p.num_pages for p in self.pools),
            cols=self.cols,
            hidden_size=self.room.hidden_size,
            media=MEDIA if self.room.media else None,
        )

    def steps(self) -> Iterator[Step]:
        """All of the scenario's steps."""
        events = self.scenario.events
        for position, event in enumerate(events):
            gone = leaving(event)
            later = events[position + 1 :] if gone else ()
            kept = any(isinstance(e, Admit | Resume) and e.like is not None and e.like[0] in gone for e in later)
            yield from self.advance(event, kept)

    def advance(self, event: Event, kept: bool = False) -> Iterator[Step]:
        """One event's steps. kept: the prefix cache keeps the pages of the requests that leave (a later hit names
        one)."""
        if isinstance(event, Admit | Resume):
            request = self._admit(event) if isinstance(event, Admit) else self._resume(event)
            if request.hit:
                yield Adopted(request, request.tables[0].logical_pages(), request.hit)
            while request.chunks and not event.held:
                yield self._extend([request])
        elif isinstance(event, Extend):
            batch = [self.live[n] for n in event.names if self.live[n].chunks]
            if batch:
                yield self._extend(batch)
        elif isinstance(event, Decode):
            step = self._decode(event)
            yield step
            self._settle(event, step)
        for name in leaving(event):
            if name in self.live:  # else it is given up while preempted
                yield self._leave(name, kept)

    def commit(self, step: Round, returned: I32) -> None:
        """Take the drafts a system returned for a round ([bs, steps+1]); the next verify round builds on them."""
        for row, view in enumerate(step.views):
            view.request.drafts = np.asarray(returned[row, 1:], dtype=np.int32)

    # -- requests ----------------------------------------------------------------------------------------------------

    def _admit(self, event: Admit) -> Request:
        number = len(self.live) + len(self.gone)
        donor = self._donor(event.like[0]) if event.like is not None else None
        return self._start(event, number, *prompt_of(event, number, donor, self._below))

    def _resume(self, event: Resume) -> Request:
        """The tokens are there, everything else is computed again."""
        before = self.gone[event.name]
        request = self._start(event.admission(len(before.tokens)), before.number, list(before.tokens), before.media)
        del self.gone[event.name]
        return request

    def _start(self, event: Admit, number: int, tokens: list[int], media: dict[int, int]) -> Request:
        """A request takes a slot, and what the prefix cache has of its tokens."""
        tables = [Table(pool, cols) for pool, cols in zip(self.pools, self.cols, strict=True)]
        donor = self._donor(event.like[0]) if event.like is not None else None
        hit = self._hit(event, donor) if donor is not None else 0
        states, hidden = run_target(tokens)
        slot = self.free_slots.pop()
        request = Request(event.name, number, slot, event.prompt, tokens, [], hidden, states, tables, hit, hit)
        request.media = media
        if hit and donor is not None:
            for table, source in zip(tables, donor.tables, strict=True):
                table.adopt(source, hit)
        request.chunks = list(chunks_after_hit(event, hit))
        self.live[event.name] = request
        return request

    def _donor(self, name: str) -> Request:
        return self.live.get(name) or self.gone[name]

    def _hit(self, event: Admit, donor: Request) -> int:
        """The length the prefix cache gives: what its policy says, where the donor's rings of pages still have it."""
        assert event.like is not None
        length = self.policy.hit(self.spec, event.like[1], donor.computed, event.prompt)
        kept = all(t.retains(length, reach) for t, reach in zip(donor.tables, self.spec.reaches, strict=True))
        return length if kept else 0

    def _leave(self, name: str, kept: bool) -> Released:
        request = self.live.pop(name)
        if kept:
            for table in request.tables:
                table.hold()
        held = [Table(t.pool, t.cols, reached=t.reached) for t in request.tables]
        for mine, old in zip(held, request.tables, strict=True):
            mine.pages[:] = old.pages
            old.release()
        request.tables = held
        self.gone[name] = request
        self.free_slots.append(request.slot)
        return Released(request)

    def _settle(self, event: Decode, step: Round) -> None:
        """After a round: drafts that are thrown away (S26), accepted tokens that an end cut off."""
        for name in event.undrafted:
            self.live[name].drafts = np.zeros(0, dtype=np.int32)
        before = {view.request.name: view.before for view in step.views}
        for name, committed in event.ends:
            del self.live[name].tokens[before[name] + 1 + committed :]

    # -- rounds ------------------------------------------------------------------------------------------------------

    def _extend(self, batch: list[Request]) -> Round:
        steps = self.spec.steps
        ids: list[int] = []
        hidden, following, sampled, views = [], [], [], []
        prefix, extend, final = [], [], []
        for r in batch:
            s, n = r.computed, r.chunks.pop(0)
            end = s + n
            self._ensure(r, end + self.spec.steps)  # some drafters run rows on their drafts (S22: spare positions)
            ids += r.given(s, end)
            hidden.append(r.hidden[s:end])
            ahead = r.given(end, end + steps) if end < r.prompt else []
            following.append(ahead + [-1] * (steps - len(ahead)))
            kind = COMMIT if end == r.prompt else DISCARDED
            sample = int(digest.scripted_token(kind, r.number, end)[0]) & self._below
            sampled.append(sample)
            if end == r.prompt:
                r.tokens.append(sample)
            r.computed = end
            prefix.append(s)
            extend.append(n)
            final.append(end == r.prompt)
            views.append(view_of(r, s, 0, end == r.prompt))
        packed = ExtendBatch(
            req_pool_indices=np.array([r.slot for r in batch], dtype=np.int32),
            prefix_lens=tuple(prefix),
            extend_lens=tuple(extend),
            is_final=tuple(final),
            input_ids=np.array(ids, dtype=np.int32),
            next_ids=np.array(following, dtype=np.int32).reshape(len(batch), steps),
            sampled_ids=np.array(sampled, dtype=np.int32),
            hidden=np.concatenate(hidden),
            seq_lens=np.array([r.computed for r in batch], dtype=np.int32),
            page_table=page_table(batch, len(batch), self.cols),
        )
        return self._round("extend", packed, views)

    def _decode(self, event: Decode) -> Round:
        k = self.spec.k
        batch = [self.live[name] for name, _ in event.live]
        rows = max(event.bucket or 0, len(event.rows))
        accepts = np.ones(rows, dtype=np.int32)
        seq_lens = np.ones(rows, dtype=np.int32)
        slots = np.zeros(rows, dtype=np.int32)
        verify = np.full((rows, k), 0, dtype=np.int32)
        hidden = np.zeros((rows, k), dtype=np.int64)
        live = len(batch)
        accepts[:live] = [a for _, a in event.live]
        seq_lens[:live] = [r.computed for r in batch]
        slots[:live] = [r.slot for r in batch]
        verify[:live] = verify_ids(batch, accepts[:live], k, self.rounds, self._below)
        hidden[:live] = verify_hidden(batch, k)
        views = []
        for row, r in enumerate(batch):
            before, accept = r.computed, int(accepts[row])
            self._ensure(r, before + accept + k)
            r.tokens += verify[row, :accept].tolist()
            r.advance(hidden[row, :accept])
            views.append(view_of(r, before, accept, True))
        packed = DecodeBatch(
            req_pool_indices=slots,
            seq_lens=seq_lens,
            accept_lengths=accepts,
            verify_ids=verify,
            hidden=hidden.reshape(-1),
            page_table=page_table(batch, rows, self.cols),
        )
        at = tuple(i for i, (_, accept) in enumerate(event.rows) if accept)
        return self._round("decode", packed, views, at)

    def _ensure(self, r: Request, positions: int) -> None:
        for group, table in enumerate(r.tables):
            self._fresh += [(group, page) for page in table.ensure(min(positions, self.max_positions))]

    def _round(
        self, mode: str, batch: ExtendBatch | DecodeBatch, views: list[View], at: tuple[int, ...] | None = None
    ) -> Round:
        rows = tuple(range(len(views))) if at is None else at
        step = Round(self.rounds, mode, batch, tuple(views), tuple(self._fresh), rows)
        self._fresh = []
        self.rounds += 1
        return step
