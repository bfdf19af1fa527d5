"""The inductive step's states: which (accept, stash valid length, frontier) there are, and where they live in memory.

A round that takes every one of these states to the invariant at F' = F + a keeps it for ever, if its bookkeeping is
oblivious (gathers by index) and positions enter it only modulo page * cols of each ring group, page of each full one,
and R. docs/inductive.md states the invariant and what is declared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.spec import Spec

I64 = NDArray[np.int64]
Domain = Literal["full", "declared"]

VERDICT = "inductive under declared obliviousness and periodicity"
DOMAINS: dict[Domain, str] = {
    "full": "every accept, every stash valid length, every frontier of one period, context end included",
    "declared": "full stash only (v = k-1, so F' >= k), no prefix hit (L = 0)",
}


@dataclass(frozen=True)
class Cases:
    """B states and the round that each takes. accept: a; valid: v, how many of the stash's last entries hold;
    frontier: F before the round; hit: L, below which rows stand on shared pages (S21). All [B] int64."""

    accept: I64
    valid: I64
    frontier: I64
    hit: I64

    def __len__(self) -> int:
        return len(self.accept)

    def take(self, rows: NDArray[np.integer]) -> Cases:
        return Cases(self.accept[rows], self.valid[rows], self.frontier[rows], self.hit[rows])

    def batches(self, size: int, seed: int = 0) -> Iterator[Cases]:
        """At most ``size`` cases each, of neighbouring frontiers, shuffled so that neighbours in a batch differ."""
        rng = np.random.Generator(np.random.Philox(key=seed))
        for first in range(0, len(self), size):
            yield self.take(first + rng.permutation(min(size, len(self) - first)))


def period(spec: Spec) -> int:
    """After how many positions the books of a round repeat (S17, S18): the least common multiple of R, the page size
    of each full group and page * cols of each ring of pages."""
    spans = [g.page_size * (1 if g.window is None else g.cols(0, spec.k)) for g in spec.groups]
    return math.lcm(spec.ring_rows, *spans)


def cases_of(spec: Spec, domain: Domain = "full") -> Cases:
    """Every a in 1..max_accept for every v and F of the domain, ordered by F.

    F runs over 1..k-1 and at least one full period behind, up to where a verify window ends in the last cell of the
    cache (S22). v <= min(k-1, F): what is missing to min(k-1, F) was lost to a hit of length L = F - v. v = k-1 stands
    right at its boundary too, but for the declared domain, where L = 0.
    """
    k = spec.k
    unit = math.lcm(*(g.page_size for g in spec.groups if g.window is None))
    last = math.ceil((2 * k - 1 + period(spec)) / unit) * unit - k
    frontiers = range(1 if domain == "full" else k - 1, last + 1)
    valids = range(k) if domain == "full" else range(k - 1, k)
    rows = [(a, v, f) for f in frontiers for v in valids if v <= f for a in range(1, spec.max_accept + 1)]
    accept, valid, frontier = np.array(rows, dtype=np.int64).T
    return Cases(accept, valid, frontier, frontier - valid if domain == "full" else np.zeros_like(frontier))


def symbols(index: I64, seed: int) -> I64:
    """Tokens in [2^30, 2^31), which no drafter draws: a bijection of indices below 2^30, another one for each seed."""
    mask = digest.TOKEN_SPACE - 1
    keys = digest.mix(digest.TAG_TOKEN, seed, np.arange(3))
    x = (index + keys[0]) & mask
    for key, shift in zip(keys[1:], (15, 13), strict=True):
        x = ((x ^ (x >> shift)) * (key | 1)) & mask
    x ^= x >> 16
    tokens: I64 = x + digest.TOKEN_SPACE
    return tokens


class CaseLayout:
    """Slots and page tables of a batch of cases, shuffled (S17, S21).

    Slots 1..B+1, one of which (``idle``) belongs to no case. tables[g] [B, cols_g]: a page wholly below L is shared by
    the cases of the same F and v; two pages are free and the null page is nobody's. leader [B]: the first case of those
    that share. Per page of group g: page_owner[g] a case (the leader's for shared pages, -1 for nobody's),
    page_shared[g], page_logical[g] the page's number counted from position 0.
    """

    def __init__(self, spec: Spec, cases: Cases, seed: int = 0) -> None:
        rng = np.random.Generator(np.random.Philox(key=seed))
        count = len(cases)
        self.spec, self.cases = spec, cases
        self.max_positions = int(cases.frontier.max()) + spec.k
        slots = 1 + rng.permutation(count + 1)
        self.slots, self.idle, self.num_slots = slots[:count], int(slots[count]), count + 2
        self.slot_owner = np.full(self.num_slots, -1)
        self.slot_owner[self.slots] = np.arange(count)
        same = cases.frontier * spec.k + cases.valid
        _, first, group = np.unique(same, return_index=True, return_inverse=True)
        self.leader: I64 = first[group]
        self.cols = tuple(g.cols(self.max_positions, spec.k) for g in spec.groups)
        self.tables: list[I64] = []
        self.num_pages: list[int] = []
        self.page_owner: list[I64] = []
        self.page_shared: list[NDArray[np.bool_]] = []
        self.page_logical: list[I64] = []
        for g in range(len(spec.groups)):
            self._group(g, rng)

    def _group(self, g: int, rng: np.random.Generator) -> None:
        """A column of a ring belongs to the last of its logical pages that a verify window has reached."""
        size, cols, count = self.spec.groups[g].page_size, self.cols[g], len(self.cases)
        column = np.arange(cols)
        reached = -(-(self.cases.frontier[:, None] + self.spec.k) // size)
        logical = reached - 1 - (reached - 1 - column) % cols
        shared = (logical >= 0) & ((logical + 1) * size <= self.cases.hit[:, None])
        owner = np.where(shared, self.leader[:, None], np.arange(count)[:, None])
        exists = logical >= 0
        keys, number = np.unique(owner[exists] * cols + np.nonzero(exists)[1], return_inverse=True)
        pages = len(keys) + 3
        physical = 1 + rng.permutation(pages - 1)[:-2]
        table = np.zeros((count, cols), dtype=np.int64)
        table[exists] = physical[number]
        held = [np.full(pages, -1), np.zeros(pages, dtype=bool), np.zeros(pages, dtype=np.int64)]
        for values, of in zip(held, (owner, shared, logical), strict=True):
            values[table[exists]] = of[exists]
        self.tables.append(table)
        self.num_pages.append(pages)
        self.page_owner.append(held[0])
        self.page_shared.append(held[1])
        self.page_logical.append(held[2])

    def cells(self, g: int, positions: I64) -> I64:
        """Cells of ``positions`` [T] of every case: [B, T] (S17)."""
        size = self.spec.groups[g].page_size
        return self.tables[g][:, positions // size % self.cols[g]] * size + positions % size

    def first_read(self, g: int, computed: I64) -> I64:
        """The lowest position that a later round's rows, C+1-k at the earliest, attend to. [B]."""
        window = self.spec.groups[g].window
        return np.zeros_like(computed) if window is None else np.maximum(0, computed + 2 - self.spec.k - window)

    def first_ring_row(self, computed: I64) -> I64:
        """The lowest position whose ring row a later round's taps read; a hit brings W-1 rows below L (S18). [B]."""
        taps = self.spec.taps
        return np.maximum(np.maximum(0, self.cases.hit - taps), computed + 1 - self.spec.k - taps)

    def shared_tokens(self) -> I64:
        """How many tokens cases of one F and v have in common: all that the entries on shared pages consumed. [B]."""
        rounded = [self.cases.hit // g.page_size * g.page_size for g in self.spec.groups]
        most: I64 = np.max(rounded, axis=0)
        return np.where(most > 0, most + self.spec.steps, 0)
