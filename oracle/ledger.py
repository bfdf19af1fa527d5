"""The ledger: who wrote each cache entry, with what, and which state of SEMANTICS §3 it is in after each round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.timeline import View

I64 = NDArray[np.int64]

UNWRITTEN, FOREIGN, STALE, WRONG, TAINTED, PROVISIONAL, EXACT = (
    "unwritten",
    "foreign",
    "stale",
    "wrong",
    "tainted",
    "provisional",
    "exact",
)
CAUSES = (FOREIGN, STALE, WRONG, UNWRITTEN)


@dataclass(frozen=True)
class Record:
    """One written row. anchor: the position it stood for. chain: (position, token) pairs it consumed through its own
    chain, its own last. foreign: a token or hidden of another request is in that chain. base: whether the hidden that
    starts the chain was right. faults: codes of its local findings. hidden: the digest it consumed."""

    request: str
    depth: int
    anchor: int
    round: int
    chain: tuple[tuple[int, int], ...]
    foreign: bool
    faults: frozenset[str]
    output: int
    hidden: int = 0


@dataclass(frozen=True)
class Entry:
    """The state of one entry (request, d, p) after a round. equal: its cell holds the ideal's digest."""

    request: str
    depth: int
    position: int
    state: str
    equal: bool = field(default=False, compare=False)


def live_from(spec: Spec, depth: int, computed: int) -> int:
    """The lowest position that a later row of this depth can still read (attention window, or taps)."""
    window = spec.window_of(depth)
    if window is None:
        return 0
    return max(0, computed + 2 - spec.k - max(window, spec.conv_width))


@dataclass
class Ledger:
    """Records by physical cell: cells[d][location]. A page handed to a new owner starts empty."""

    spec: Spec
    cells: list[dict[int, Record]] = field(default_factory=list)
    outputs: dict[tuple[str, int, int], int] = field(default_factory=dict)
    by_output: dict[int, Record] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cells = [{} for _ in range(self.spec.steps)]

    def clear_page(self, group: int, page: int) -> None:
        """A page was handed out: what stands there is nobody's."""
        size = self.spec.groups[group].page_size
        for depth in range(self.spec.steps):
            if self.spec.group_of(depth) == group:
                for location in range(page * size, (page + 1) * size):
                    self.cells[depth].pop(location, None)

    def write(self, location: int, record: Record) -> None:
        self.cells[record.depth][location] = record
        self.by_output[record.output] = record
        self.outputs[record.request, record.depth, record.anchor] = record.output

    def record(self, view: View, depth: int, position: int) -> Record | None:
        """Who wrote the cell of an entry last, None if nobody did since the page was handed out."""
        return self.cells[depth].get(view.request.tables[self.spec.group_of(depth)].location(position))

    def latest_output(self, request: str, depth: int, position: int) -> int | None:
        """The last O(depth, position) that the model returned for this request, None if there is none."""
        return self.outputs.get((request, depth, position))

    def states(self, view: View, depth: int, kv: I64, ideal: I64, drafts: list[int]) -> Iterator[Entry]:
        """States of the request's live entries of one depth. kv: the depth's pool; ideal [C]: E(depth, p); drafts[m-1]:
        what the model sampled this round for position C+m."""
        name = view.request.name
        first = live_from(self.spec, depth, view.computed)
        positions = np.arange(first, view.computed)
        locations = locations_of(view, self.spec.group_of(depth), positions)
        same = kv[np.maximum(locations, 0)] == ideal[positions]
        cells = self.cells[depth]
        for p, location, equal in zip(positions.tolist(), locations.tolist(), same.tolist(), strict=True):
            record = cells.get(location)
            if equal and record is not None and not record.faults:
                state = EXACT if p + self.spec.ahead(depth) <= view.known else PROVISIONAL
            else:
                state = self._bad_state(record, view, p, equal, drafts)
            yield Entry(name, depth, p, state, equal)

    def logged_states(self, view: View, depth: int, first: int, drafts: list[int]) -> Iterator[Entry]:
        """The same from ``first`` on where no value of the cache is to be had: what is right in all that was given is
        "tainted", since what it read is not known."""
        positions = np.arange(max(first, live_from(self.spec, depth, view.computed)), view.computed)
        locations = locations_of(view, self.spec.group_of(depth), positions)
        for p, location in zip(positions.tolist(), locations.tolist(), strict=True):
            state = self._bad_state(self.cells[depth].get(location), view, p, False, drafts)
            yield Entry(view.request.name, depth, p, state)

    def _bad_state(self, record: Record | None, view: View, p: int, equal: bool, drafts: list[int]) -> str:
        if record is None:
            return UNWRITTEN
        name = view.request.name
        if record.foreign or (record.request != name and not equal and p >= view.request.hit):
            return FOREIGN
        chain = record.chain
        if record.anchor != p:  # it landed on another position's cell: what it read is not this cell's token
            chain = tuple((p + q - record.anchor, token) for q, token in chain)
        if any(token_at(view, q, drafts) != token for q, token in chain if view.sampled or q <= view.known):
            return STALE
        if record.faults or record.anchor != p or self._hidden_left_behind(record, view, p):
            return WRONG
        if not view.sampled and p + self.spec.ahead(record.depth) > view.known:
            return PROVISIONAL  # while the prompt is read, whichever round's drafts it consumed (S13 runs it again)
        return EXACT if equal else TAINTED

    def _hidden_left_behind(self, record: Record, view: View, p: int) -> bool:
        """A shifted head's row that read the draft's own hidden, and was not run again once h(p+d) was there (S1)."""
        source = p + record.depth
        if self.spec.hidden != "shifted" or record.depth == 0 or source >= view.computed:
            return False
        return record.hidden != int(view.hidden[source])


def token_at(view: View, position: int, drafts: list[int]) -> int | None:
    """The token a row must consume for ``position``: known, else this round's draft, None if there is none yet."""
    if position <= view.known:
        return int(view.tokens[position]) if position >= 0 else None
    m = position - view.computed - 1
    return drafts[m] if 0 <= m < len(drafts) else None


def locations_of(view: View, group: int, positions: I64) -> I64:
    """S17 for many positions: cells in ``group``, -1 where the table has no page."""
    table = view.request.tables[group]
    size = table.pool.group.page_size
    page = table.pages[positions // size % table.cols].astype(np.int64)
    return np.where(page > 0, page * size + positions % size, -1)


def causes(entries: Iterable[Entry]) -> set[Entry]:
    """Causes apart from symptoms: foreign, stale, wrong and unwritten entries."""
    return {e for e in entries if e.state in CAUSES}
