"""Pages of the target's cache and of the draft caches, and what the prefix cache keeps of them (S17, S21, S22)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from frontier_oracle.oracle.pages import PagePool, Table
from frontier_oracle.oracle.policies import POLICIES
from frontier_oracle.oracle.spec import CacheGroup, Spec


@dataclass(eq=False)
class Holding:
    """What one request holds. tables[0] is the target's, then one a cache group of the drafter. tokens: those known of
    it; computed: positions whose entries stand in the pages."""

    tables: list[Table]
    tokens: list[int]
    hidden: list[Tensor]
    computed: int = 0
    hit: int = 0


@dataclass
class Memory:
    """Page pools for ``slots`` requests of ``positions`` positions, and for ``kept`` finished ones behind them.

    Finished requests' pages stay until ``kept`` later ones have finished. A new request takes over what an earlier one
    has of its prompt, under the successor policy, whose entries are exact at every depth (S21).
    """

    spec: Spec
    page_size: int
    slots: int
    positions: int
    chunk: int
    kept: int
    live: list[Holding] = field(default_factory=list)
    gone: deque[Holding] = field(default_factory=deque)

    def __post_init__(self) -> None:
        groups = (CacheGroup(self.page_size), *self.spec.groups)
        self.cols = tuple(group.cols(self.positions, self.spec.k, self.chunk) for group in groups)
        holders = self.slots + self.kept + 1
        self.pools = [PagePool(g, holders * c + 1) for g, c in zip(groups, self.cols, strict=True)]
        self.unit = POLICIES["successor"]

    def admit(self, tokens: list[int]) -> Holding:
        """A new request's tables, with what the prefix cache gives of its tokens. ``tokens`` stays the caller's list
        and grows with the request."""
        new = Holding([Table(p, c) for p, c in zip(self.pools, self.cols, strict=True)], tokens, [])
        hits = [(self._hit(donor, tokens), donor) for donor in (*self.live, *self.gone)]
        length, donor = max(hits, key=lambda pair: pair[0], default=(0, None))
        if length and donor is not None:
            for mine, theirs in zip(new.tables, donor.tables, strict=True):
                mine.adopt(theirs, length)
            new.hidden = [torch.cat(donor.hidden)[:length]] if donor.hidden else []
            new.computed = new.hit = length
        self.live.append(new)
        return new

    def _hit(self, donor: Holding, tokens: list[int]) -> int:
        """Positions that a donor gives. Its pages end where the target's and every draft group's do."""
        shared = 0
        for mine, theirs in zip(tokens, donor.tokens, strict=False):
            if mine != theirs:
                break
            shared += 1
        length = self.unit.hit(self.spec, shared, donor.computed, len(tokens))
        length -= length % self.page_size
        reaches = (None, *self.spec.reaches)
        kept = all(t.retains(length, reach) for t, reach in zip(donor.tables, reaches, strict=True))
        return length if kept else 0

    def leave(self, holding: Holding) -> None:
        """A request has finished: its pages stay in the prefix cache for a while."""
        self.live.remove(holding)
        self.gone.append(holding)
        while len(self.gone) > self.kept:
            for table in self.gone.popleft().tables:
                table.release()

    def ensure(self, holding: Holding, positions: int) -> None:
        """Pages for positions 0..positions-1, as far as tables reach."""
        for table in holding.tables:
            table.ensure(min(positions, self.positions))

    def page_tables(self, holdings: Sequence[Holding], device: str) -> list[Tensor]:
        """[bs, cols] int32 each: the target's, then one a draft group."""
        return [
            torch.tensor([h.tables[i].pages.tolist() for h in holdings], dtype=torch.int32, device=device)
            for i in range(len(self.pools))
        ]
