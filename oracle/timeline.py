"""The serving engine of a scenario: slots, pages, target and forced accepts. It hands out steps and takes drafts back.

Accept lengths are inputs: v is built from the drafts that the system returned, so that exactly ``a`` tokens commit,
whatever the system drafts. A step's views say what the drafter must see once it runs; drafts are all that is open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, ExtendBatch
from frontier_oracle.oracle.pages import PagePool, Table
from frontier_oracle.oracle.scenario import (
    Admit,
    Decode,
    Extend,
    Finish,
    Scenario,
    chunks_after_hit,
    max_batch,
    max_positions,
    requests,
    validate,
)

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

PROMPT, COMMIT, GARBAGE, DISCARDED = 1, 2, 3, 4
POLICIES = ("successor", "tokens")


@dataclass
class Request:
    """One request as the engine holds it. tokens = x[0..K], hidden = h(0..C-1), computed = C, hit = L."""

    name: str
    number: int
    slot: int
    prompt: int
    tokens: list[int]
    chunks: list[int]
    hidden: I64
    states: I64
    tables: list[Table]
    hit: int = 0
    computed: int = 0
    drafts: I32 = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    @property
    def known(self) -> int:
        """K: the last known token's position."""
        return len(self.tokens) - 1


@dataclass(frozen=True)
class View:
    """What one request's row must be judged against in a round. tokens [K+1], hidden [C]; tables are live objects
    whose locations hold for this round; sampled: x[C] was sampled (decode, or a prompt's last chunk)."""

    request: Request
    tokens: I32
    hidden: I64
    computed: int
    before: int
    accept: int
    sampled: bool

    @property
    def known(self) -> int:
        return len(self.tokens) - 1


@dataclass(frozen=True)
class Adopted:
    """A request took a slot with ``length`` cached positions; ``pages`` are group 0's."""

    request: Request
    pages: tuple[int, ...]
    length: int


@dataclass(frozen=True)
class Released:
    """The request's slot is free again."""

    request: Request


@dataclass(frozen=True)
class Round:
    """One model round. ``batch`` holds numpy arrays, hiddens as int64 digests [N]; views are per live batch row."""

    index: int
    mode: str
    batch: ExtendBatch | DecodeBatch
    views: tuple[View, ...]
    fresh_pages: tuple[tuple[int, int], ...]


Step = Adopted | Released | Round


class Timeline:
    """Runs a scenario. Iterate over ``steps()``; after each Round call ``commit`` with what the system returned."""

    def __init__(self, scenario: Scenario, policy: str = "successor") -> None:
        validate(scenario)
        self.scenario, self.spec, self.policy = scenario, scenario.spec, policy
        self.names = list(requests(scenario))
        self.max_positions = max_positions(scenario)
        longest = max([_longest_chunk(a) for a in requests(scenario).values()], default=1)
        cols = [g.cols(self.max_positions, self.spec.k, longest) for g in self.spec.groups]
        self.pools = [PagePool(g, len(self.names) * c + 1) for g, c in zip(self.spec.groups, cols, strict=True)]
        self.cols = tuple(cols)
        self.free_slots = list(range(scenario.slots, 0, -1))
        self.live: dict[str, Request] = {}
        self.gone: dict[str, Request] = {}
        self.rounds = 0
        self._fresh: list[tuple[int, int]] = []

    def config(self, device: str = "cpu", dtype: str = "bfloat16") -> DraftConfig:
        """The buffers a system needs for this scenario."""
        return DraftConfig(
            spec=self.spec,
            num_slots=self.scenario.slots + 1,
            max_batch=max_batch(self.scenario),
            num_pages=tuple(p.num_pages for p in self.pools),
            cols=self.cols,
            hidden_size=self.scenario.hidden_size,
            dtype=dtype,
            device=device,
        )

    def steps(self) -> Iterator[Step]:
        for position, event in enumerate(self.scenario.events):
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
            elif isinstance(event, Finish):
                yield self._finish(event.name, position)

    def commit(self, step: Round, returned: I32) -> None:
        """Take the drafts a system returned for a round ([bs, steps+1]); the next verify round builds on them."""
        for row, view in enumerate(step.views):
            view.request.drafts = np.asarray(returned[row, 1:], dtype=np.int32)

    # -- requests ----------------------------------------------------------------------------------------------------

    def _admit(self, event: Admit) -> Request:
        number = self.names.index(event.name)
        tokens = digest.scripted_token(PROMPT, number, np.arange(event.prompt, dtype=np.int64)).tolist()
        tables = [Table(pool, cols) for pool, cols in zip(self.pools, self.cols, strict=True)]
        donor = None
        if event.like is not None:
            donor = self.live.get(event.like[0]) or self.gone[event.like[0]]
            tokens[: event.like[1]] = donor.tokens[: event.like[1]]
        hit = self._hit(event, donor) if donor is not None and event.like is not None else 0
        states, hidden = _run_target(tokens)
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

    def _finish(self, name: str, position: int) -> Released:
        request = self.live.pop(name)
        later = self.scenario.events[position + 1 :]
        if any(isinstance(e, Admit) and e.like is not None and e.like[0] == name for e in later):
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
            self._ensure(r, end)
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


def _run_target(tokens: list[int]) -> tuple[I64, I64]:
    """(states [P], hiddens [P]) of the target over a prompt."""
    states = np.zeros(len(tokens), dtype=np.int64)
    state = np.zeros(1, dtype=np.int64)
    for p, token in enumerate(tokens):
        state = digest.target_state(state, np.array([token], dtype=np.int64))
        states[p] = state[0]
    return states, digest.target_hidden(states, np.arange(len(tokens), dtype=np.int64))


def _longest_chunk(admit: Admit) -> int:
    """The longest EXTEND round an admission can lead to, whatever the prefix cache gives."""
    chunks = admit.chunks or (admit.prompt,)
    return max(*chunks, chunks[0] + admit.prompt - sum(chunks))
