"""The engine behind a history, rebuilt from the log: requests, page tables, and rounds as the judge wants them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle.contract import DecodeBatch, ExtendBatch
from frontier_oracle.oracle.engine_requests import Request, Round, View
from frontier_oracle.oracle.errors import RecordError
from frontier_oracle.oracle.history.schema import Admitted, BatchRow, History, Left, LoggedRound
from frontier_oracle.oracle.pages import PagePool, Table
from frontier_oracle.oracle.spec import CacheGroup, Spec

I64 = NDArray[np.int64]
# Stands for a garbage value that was not logged: nothing consumes it.
NOBODYS = -3
# Where no page table is logged, each request has one page of its own that holds all of its positions.
WHOLE = 1 << 20


@dataclass
class Known:
    """A live request, and which of its values the log does not have: token positions, hidden positions."""

    request: Request
    tokens: set[int] = field(default_factory=set)
    hidden: set[int] = field(default_factory=set)
    seen: bool = False


class HistoryBooks:
    """Feed it the events in order. ``spec`` is the history's, its groups replaced where no page table is logged."""

    def __init__(self, history: History) -> None:
        self.path, self.tabled = history.path, "page_table" in history.row_fields
        groups = history.spec.groups if self.tabled else tuple(CacheGroup(WHOLE, g.window) for g in history.spec.groups)
        self.spec = Spec(history.spec.k, history.spec.steps, history.spec.hidden, history.spec.conv_width, groups)
        most = _highest_page(history) if self.tabled else 1 + sum(isinstance(e, Admitted) for e in history.events)
        self.pools = [PagePool(g, 1) for g in groups]  # pages are the engine's to hand out: nothing is free here
        for pool in self.pools:
            pool.num_pages, pool.refs = most + 1, np.zeros(most + 1, dtype=np.int64)
        self.cols = _widest(history) if self.tabled else [1] * len(groups)
        self.live: dict[str, Known] = {}
        self.requests = self.rounds = 0

    def admit(self, event: Admitted) -> None:
        """Raises RecordError, with file and line, where the request is live."""
        if event.request in self.live:
            self._fail(event.line, f"request {event.request!r} is admitted again without a release")
        number, self.requests = self.requests, self.requests + 1
        tokens = list(event.prompt or ())
        unknown = set() if event.prompt is not None else set(range(event.prompt_len))
        tokens += [_made_up(number, p) for p in sorted(unknown)]
        tables = [Table(pool, cols) for pool, cols in zip(self.pools, self.cols, strict=True)]
        if not self.tabled:
            for table in tables:
                table.pages[:] = number + 1
        hidden = np.array([_made_up(number, p) for p in range(event.hit)], dtype=np.int64)
        request = Request(
            event.request,
            number,
            event.slot,
            event.prompt_len,
            tokens,
            [],
            hidden,
            hidden,
            tables,
            event.hit,
            event.hit,
        )
        self.live[event.request] = Known(request, unknown, set(range(event.hit)))

    def release(self, event: Left) -> None:
        if self.live.pop(event.request, None) is None:
            self._fail(event.line, f"request {event.request!r} is released, and is not live")

    def round(self, event: LoggedRound) -> Round:
        """The round as the judge sees it. Raises RecordError where it does not follow from the rounds before."""
        views: list[View] = []
        rows: list[int] = []
        fresh: list[tuple[int, int]] = []
        for i, row in enumerate(event.rows):
            if not row.request:
                continue
            known = self._known(event, row, [v.request.name for v in views])
            fresh += self._tables(known, row)
            views.append(self._extended(known, row) if event.mode == "extend" else self._decoded(known, row))
            rows.append(i)
        for group, pool in enumerate(self.pools):
            pool.refs[:] = 0
            for known in self.live.values():
                pool.refs[np.unique(known.request.tables[group].pages)] += 1
        batch = _extend_batch(event, views) if event.mode == "extend" else _decode_batch(event, views, self.spec.k)
        step = Round(self.rounds, event.mode, batch, tuple(views), tuple(fresh), tuple(rows))
        self.rounds += 1
        return step

    def _known(self, event: LoggedRound, row: BatchRow, taken: list[str]) -> Known:
        known = self.live.get(row.request)
        if known is None:
            self._fail(event.line, f"request {row.request!r} is not live: its admit line is missing")
        if row.request in taken:
            self._fail(event.line, f"request {row.request!r} stands twice in the batch")
        r = known.request
        if row.first != r.computed:
            what = "start" if event.mode == "extend" else "frontier"
            self._fail(
                event.line, f"{what} {row.first} of {row.request!r}, but the lines before leave it at {r.computed}: a "
                "round is missing, or its count is off"
            )  # fmt: skip
        if event.mode == "extend" and r.computed + row.count > r.prompt:
            self._fail(event.line, f"chunk of {row.count} from {row.first} on passes the prompt of {r.prompt}")
        if event.mode == "decode" and r.computed < r.prompt:
            self._fail(event.line, f"{row.request!r} decodes, but only {r.computed} of its {r.prompt} tokens were read")
        return known

    def _tables(self, known: Known, row: BatchRow) -> list[tuple[int, int]]:
        """Take over the row's page tables; returns (group, page) of pages that are new to the request. Those that its
        prefix hit brought are not: what stands in them is the donor's."""
        fresh = []
        for group, pages in enumerate(row.more.get("page_table", ())):
            table = known.request.tables[group]
            before = set(table.pages.tolist()) if known.seen else self._adopted(known.request.hit, group, pages)
            fresh += [(group, page) for page in sorted(set(pages.tolist()) - before - {0})]
            table.pages[:] = 0
            table.pages[: len(pages)] = pages
        known.seen = True
        return fresh

    def _adopted(self, hit: int, group: int, pages: I64) -> set[int]:
        count = -(-hit // self.spec.groups[group].page_size)
        cols = self.cols[group]
        return {int(pages[i % cols]) for i in range(max(0, count - cols), count) if i % cols < len(pages)}

    def _extended(self, known: Known, row: BatchRow) -> View:
        r, final = known.request, row.first + row.count == known.request.prompt
        if final:
            self._commit(known, [row.sampled])
        self._advance(known, row, row.count)
        return self._view(r, row.first, 0, final)

    def _decoded(self, known: Known, row: BatchRow) -> View:
        verified = row.more.get("verified")
        self._commit(known, [None] * row.count if verified is None else verified[: row.count].tolist())
        self._advance(known, row, row.count)
        return self._view(known.request, row.first, row.count, True)

    def _commit(self, known: Known, tokens: list[int | None]) -> None:
        r = known.request
        for token in tokens:
            if token is None:
                known.tokens.add(len(r.tokens))
            r.tokens.append(_made_up(r.number, len(r.tokens)) if token is None else token)

    def _advance(self, known: Known, row: BatchRow, count: int) -> None:
        r, hidden = known.request, row.more.get("target_hidden")
        if hidden is None:
            known.hidden |= set(range(r.computed, r.computed + count))
            hidden = np.array([_made_up(r.number, r.computed + i) for i in range(count)], dtype=np.int64)
        r.hidden = np.concatenate([r.hidden, hidden[:count]])
        r.computed += count

    def _view(self, r: Request, before: int, accept: int, sampled: bool) -> View:
        return View(r, np.array(r.tokens, dtype=np.int32), r.hidden, r.computed, before, accept, sampled)

    def _fail(self, line: int, problem: str) -> NoReturn:
        raise RecordError(f"{self.path}:{line}: {problem}")


def _made_up(number: int, position: int) -> int:
    """A value of its own for what was not logged; below 0, as no token is."""
    return -(10 + (number * 65_537 + position) % (1 << 30))


def _widest(history: History) -> list[int]:
    """Columns of the widest page table in each group: a shorter one ends in null pages."""
    widest = [1] * len(history.spec.groups)
    for event in history.events:
        for row in event.rows if isinstance(event, LoggedRound) else ():
            for group, pages in enumerate(row.more.get("page_table", ())):
                widest[group] = max(widest[group], len(pages))
    return widest


def _highest_page(history: History) -> int:
    """Of every page table and every location in the log."""
    most = 0
    for event in history.events:
        if isinstance(event, LoggedRound):
            fields = [row.more for row in event.rows] + [call.more for call in event.calls]
            tables = [table for more in fields for table in more.get("page_table", ()) if table.size]
            most = max([most, *(int(table.max()) for table in tables)])
            for call in event.calls:
                groups = zip(call.more.get("locations", ()), history.spec.groups, strict=False)
                most = max([most, *(int(loc.max()) // g.page_size for loc, g in groups if loc.size)])
    return most


def _extend_batch(event: LoggedRound, views: list[View]) -> ExtendBatch:
    """What the judge reads of it: the sampled ids."""
    rows = [row for row in event.rows if row.request]
    empty = np.zeros(0, dtype=np.int32)
    return ExtendBatch(
        req_pool_indices=np.array([v.request.slot for v in views], dtype=np.int32),
        prefix_lens=tuple(row.first for row in rows),
        extend_lens=tuple(row.count for row in rows),
        is_final=tuple(v.sampled for v in views),
        input_ids=empty,
        next_ids=empty,
        sampled_ids=np.array([NOBODYS if row.sampled is None else row.sampled for row in rows], dtype=np.int64),
        hidden=empty,
        seq_lens=np.array([v.computed for v in views], dtype=np.int32),
        page_table=(),
    )


def _decode_batch(event: LoggedRound, views: list[View], k: int) -> DecodeBatch:
    """What the judge reads of it: what was verified, garbage included."""
    rows = [row for row in event.rows if row.request]
    verify, hidden = np.full((len(rows), k), NOBODYS, dtype=np.int64), np.full((len(rows), k), NOBODYS, dtype=np.int64)
    for i, row in enumerate(rows):
        for name, into in (("verified", verify), ("target_hidden", hidden)):
            if name in row.more:
                into[i, : len(row.more[name])] = row.more[name]
    return DecodeBatch(
        req_pool_indices=np.array([v.request.slot for v in views], dtype=np.int32),
        seq_lens=np.array([v.before for v in views], dtype=np.int32),
        accept_lengths=np.array([v.accept for v in views], dtype=np.int32),
        verify_ids=verify,
        hidden=hidden.reshape(-1),
        page_table=(),
    )
