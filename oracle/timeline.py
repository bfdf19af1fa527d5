"""The serving engine of a scenario: slots, pages, target and forced accepts. It hands out steps and takes drafts back.

Accept lengths are inputs: v is built from the drafts that the system returned, so that exactly ``a`` tokens commit,
whatever the system drafts. A step's views say what the drafter must see once it runs; drafts are all that is open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, ExtendBatch
from frontier_oracle.oracle.engine_requests import (
    Adopted,
    Released,
    Request,
    Room,
    Round,
    Step,
    View,
    room_of,
    run_target,
)
from frontier_oracle.oracle.limits import check_sizes
from frontier_oracle.oracle.pages import PagePool, Table
from frontier_oracle.oracle.scenario import (
    Admit,
    Decode,
    Event,
    Extend,
    Finish,
    Scenario,
    chunks_after_hit,
    validate,
)
from frontier_oracle.oracle.spec import Spec

__all__ = ["POLICIES", "Adopted", "Released", "Request", "Room", "Round", "Step", "Timeline", "View"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

PROMPT, COMMIT, GARBAGE, DISCARDED = 1, 2, 3, 4
POLICIES = ("successor", "tokens")


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
        self.spec, self.room, self.policy = spec, room, policy
        self.max_positions = room.positions
        self.cols = tuple(g.cols(room.positions, spec.k, room.chunk) for g in spec.groups)
        self.pools = [PagePool(g, room.requests * c + 1) for g, c in zip(spec.groups, self.cols, strict=True)]
        self.free_slots = list(range(room.slots, 0, -1))
        self.live: dict[str, Request] = {}
        self.gone: dict[str, Request] = {}
        self.rounds = 0
        self._fresh: list[tuple[int, int]] = []

    def config(self, device: str = "cpu", dtype: str = "bfloat16") -> DraftConfig:
        """The buffers a system needs for this timeline."""
        return DraftConfig(
            spec=self.spec,
            num_slots=self.room.slots + 1,
            max_batch=self.room.batch,
            num_pages=tuple(p.num_pages for p in self.pools),
            cols=self.cols,
            hidden_size=self.room.hidden_size,
            dtype=dtype,
            device=device,
        )

    def steps(self) -> Iterator[Step]:
        """All of the scenario's steps."""
        events = self.scenario.events
        for position, event in enumerate(events):
            later = (e for e in events[position + 1 :] if isinstance(e, Admit) and e.like is not None)
            kept = isinstance(event, Finish) and any(e.like[0] == event.name for e in later if e.like is not None)
            yield from self.advance(event, kept)

    def advance(self, event: Event, kept: bool = False) -> Iterator[Step]:
        """One event's steps. kept: the prefix cache keeps the pages of the request that ends (a later hit names it)."""
        if isinstance(event, Admit):
            request = self._admit(event)
            if request.hit:
                yield Adopted(request, request.tables[0].logical_pages(), request.hit)
            while request.chunks and not event.held:
                yield self._extend([request])
        elif isinstance(event, Extend):
            batch = [self.live[n] for n in event.names if self.live[n].chunks]
            if batch:
                yield self._extend(batch)
        elif isinstance(event, Decode):
            yield self._decode(event)
        else:
            yield self._finish(event.name, kept)

    def commit(self, step: Round, returned: I32) -> None:
        """Take the drafts a system returned for a round ([bs, steps+1]); the next verify round builds on them."""
        for row, view in enumerate(step.views):
            view.request.drafts = np.asarray(returned[row, 1:], dtype=np.int32)

    # -- requests ----------------------------------------------------------------------------------------------------

    def _admit(self, event: Admit) -> Request:
        number = len(self.live) + len(self.gone)
        tokens = digest.scripted_token(PROMPT, number, np.arange(event.prompt, dtype=np.int64)).tolist()
        tables = [Table(pool, cols) for pool, cols in zip(self.pools, self.cols, strict=True)]
        donor = None
        if event.like is not None:
            donor = self.live.get(event.like[0]) or self.gone[event.like[0]]
            tokens[: event.like[1]] = donor.tokens[: event.like[1]]
        hit = self._hit(event, donor) if donor is not None and event.like is not None else 0
        states, hidden = run_target(tokens)
        request = Request(
            event.name, number, self.free_slots.pop(), event.prompt, tokens, [], hidden, states, tables, hit, hit
        )
        if hit and donor is not None:
            for table, source in zip(tables, donor.tables, strict=True):
                table.adopt(source, hit)
        request.chunks = list(chunks_after_hit(event, hit))
        self.live[event.name] = request
        return request

    def _hit(self, event: Admit, donor: Request) -> int:
        """The length the prefix cache gives. Under "successor" keys a page needs the next ``steps`` tokens too."""
        assert event.like is not None
        limit = min(event.like[1] - (self.spec.steps if self.policy == "successor" else 0), donor.computed)
        limit = min(limit, event.prompt - 1)
        unit = math.lcm(*(g.page_size for g in self.spec.groups))
        length = max(0, limit // unit * unit)
        kept = all(t.retains(length, g.window) for t, g in zip(donor.tables, self.spec.groups, strict=True))
        return length if kept else 0

    def _finish(self, name: str, kept: bool) -> Released:
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
            ids += r.tokens[s:end]
            hidden.append(r.hidden[s:end])
            ahead = r.tokens[end : end + steps] if end < r.prompt else []
            following.append(ahead + [-1] * (steps - len(ahead)))
            kind = COMMIT if end == r.prompt else DISCARDED
            sample = int(digest.scripted_token(kind, r.number, end)[0])
            sampled.append(sample)
            if end == r.prompt:
                r.tokens.append(sample)
            r.computed = end
            prefix.append(s)
            extend.append(n)
            final.append(end == r.prompt)
            views.append(self._view(r, s, 0, end == r.prompt))
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
            page_table=self._page_table(batch, len(batch)),
        )
        return self._round("extend", packed, views)

    def _decode(self, event: Decode) -> Round:
        k = self.spec.k
        batch = [self.live[name] for name, _ in event.rows]
        rows = max(event.bucket or 0, len(batch))
        accepts = np.ones(rows, dtype=np.int32)
        seq_lens = np.ones(rows, dtype=np.int32)
        slots = np.zeros(rows, dtype=np.int32)
        verify = np.full((rows, k), 0, dtype=np.int32)
        hidden = np.zeros((rows, k), dtype=np.int64)
        live = len(batch)
        accepts[:live] = [a for _, a in event.rows]
        seq_lens[:live] = [r.computed for r in batch]
        slots[:live] = [r.slot for r in batch]
        verify[:live] = self._verify_ids(batch, accepts[:live])
        hidden[:live] = self._verify_hidden(batch)
        views = []
        for row, r in enumerate(batch):
            before, accept = r.computed, int(accepts[row])
            self._ensure(r, before + accept + k)
            r.tokens += verify[row, :accept].tolist()
            self._advance(r, hidden[row, :accept])
            views.append(self._view(r, before, accept, True))
        packed = DecodeBatch(
            req_pool_indices=slots,
            seq_lens=seq_lens,
            accept_lengths=accepts,
            verify_ids=verify,
            hidden=hidden.reshape(-1),
            page_table=self._page_table(batch, rows),
        )
        return self._round("decode", packed, views)

    def _verify_ids(self, batch: list[Request], accepts: I32) -> I32:
        """v [bs, k]: returned drafts up to a-1, then a committed token of the target's own, then garbage."""
        k = self.spec.k
        numbers = np.array([[r.number] for r in batch], dtype=np.int64)
        positions = np.array([[r.computed] for r in batch], dtype=np.int64) + 1 + np.arange(k)
        out = digest.scripted_token(GARBAGE, numbers, positions, self.rounds)
        own = digest.scripted_token(COMMIT, numbers, positions)
        for row, r in enumerate(batch):
            a = int(accepts[row])
            out[row, : a - 1] = r.drafts[: a - 1]
            out[row, a - 1] = own[row, a - 1]
        return out

    def _verify_hidden(self, batch: list[Request]) -> I64:
        """[bs, k] h(F+j) on the candidates [x[F], draft 1, ..]; a missing candidate (steps < k-1) is -1."""
        k = self.spec.k
        candidates = np.full((len(batch), k), -1, dtype=np.int64)
        for row, r in enumerate(batch):
            candidates[row, 0] = r.tokens[r.computed]
            drafts = r.drafts[: k - 1]
            candidates[row, 1 : 1 + len(drafts)] = drafts
        state = np.array([r.states[r.computed - 1] for r in batch], dtype=np.int64)
        first = np.array([r.computed for r in batch], dtype=np.int64)
        out = np.zeros((len(batch), k), dtype=np.int64)
        states = np.zeros_like(out)
        for j in range(k):
            state = digest.target_state(state, candidates[:, j])
            states[:, j] = state
            out[:, j] = digest.target_hidden(state, first + j)
        for row, r in enumerate(batch):
            r.states = np.concatenate([r.states[: r.computed], states[row]])
        return out

    def _advance(self, r: Request, hidden: I64) -> None:
        r.hidden = np.concatenate([r.hidden[: r.computed], hidden])
        r.computed += len(hidden)
        r.states = r.states[: r.computed]

    def _ensure(self, r: Request, positions: int) -> None:
        for group, table in enumerate(r.tables):
            self._fresh += [(group, page) for page in table.ensure(min(positions, self.max_positions))]

    def _page_table(self, batch: list[Request], rows: int) -> tuple[I32, ...]:
        out = []
        for group, cols in enumerate(self.cols):
            table = np.zeros((rows, cols), dtype=np.int32)
            for row, r in enumerate(batch):
                table[row] = r.tables[group].pages
            out.append(table)
        return tuple(out)

    def _view(self, r: Request, before: int, accept: int, sampled: bool) -> View:
        tokens = np.array(r.tokens, dtype=np.int32)
        return View(r, tokens, r.hidden[: r.computed].copy(), r.computed, before, accept, sampled)

    def _round(self, mode: str, batch: ExtendBatch | DecodeBatch, views: list[View]) -> Round:
        step = Round(self.rounds, mode, batch, tuple(views), tuple(self._fresh))
        self._fresh = []
        self.rounds += 1
        return step
