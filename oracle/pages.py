"""Page pools and page tables, owned by the harness: who holds which page, what is shared, what is free (S17, S21)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle.spec import CacheGroup


@dataclass
class PagePool:
    """One cache group's pages. Page 0 is the null page and is never handed out. Freed pages are reused last in,
    first out, so that a new request meets what an earlier one left behind (S19)."""

    group: CacheGroup
    num_pages: int
    refs: NDArray[np.int64] = field(init=False)
    free: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.refs = np.zeros(self.num_pages, dtype=np.int64)
        self.free = list(range(self.num_pages - 1, 0, -1))

    def take(self) -> int:
        page = self.free.pop()
        self.refs[page] = 1
        return page

    def share(self, page: int) -> None:
        self.refs[page] += 1

    def drop(self, page: int) -> None:
        self.refs[page] -= 1
        if self.refs[page] == 0:
            self.free.append(page)

    def shared(self, page: int) -> bool:
        """More than one holder: a live request beside another, or beside the prefix cache."""
        return bool(self.refs[page] > 1)


@dataclass
class Table:
    """One request's page table in one group: [cols] page ids, 0 where nothing is allocated."""

    pool: PagePool
    cols: int
    pages: NDArray[np.int32] = field(init=False)
    reached: int = 0  # logical pages allocated so far

    def __post_init__(self) -> None:
        self.pages = np.zeros(self.cols, dtype=np.int32)

    def ensure(self, positions: int) -> list[int]:
        """Allocate for positions 0..positions-1; returns the pages newly taken. A ring column is reused in place once
        its old positions left the window, but a shared page is swapped for a fresh one."""
        size, fresh = self.pool.group.page_size, []
        while self.reached * size < positions:
            col = self.reached % self.cols
            old = int(self.pages[col])
            if old == 0 or self.pool.shared(old):
                if old:
                    self.pool.drop(old)
                self.pages[col] = self.pool.take()
                fresh.append(int(self.pages[col]))
            self.reached += 1
        return fresh

    def page_at(self, position: int) -> int:
        return int(self.pages[position // self.pool.group.page_size % self.cols])

    def logical_pages(self) -> tuple[int, ...]:
        """Page ids by logical page, 0 where a ring has moved on."""
        kept = range(max(0, self.reached - self.cols), self.reached)
        return tuple(int(self.pages[i % self.cols]) if i in kept else 0 for i in range(self.reached))

    def location(self, position: int) -> int:
        """S17: the cell of an absolute position, -1 when no page is there."""
        size = self.pool.group.page_size
        page = self.page_at(position)
        return page * size + position % size if page else -1

    def retains(self, length: int, reach: int | None) -> bool:
        """Whether the ``reach`` positions below ``length`` (None: all) still stand in this table."""
        size = self.pool.group.page_size
        first = 0 if reach is None else max(0, length - reach)
        return first // size + self.cols >= self.reached

    def adopt(self, donor: Table, length: int) -> list[int]:
        """Share the donor's pages that hold positions up to ``length`` (a multiple of the page size)."""
        size = self.pool.group.page_size
        logical = length // size
        adopted = []
        for page_index in range(max(0, logical - self.cols), logical):
            if page_index + self.cols < donor.reached:
                continue  # the donor's ring has moved past it, and so has every window
            page = int(donor.pages[page_index % self.cols])
            self.pages[page_index % self.cols] = page
            self.pool.share(page)
            adopted.append(page)
        self.reached = logical
        return adopted

    def hold(self) -> list[int]:
        """Take one more reference on every page (the prefix cache keeps them)."""
        pages = [int(p) for p in self.pages if p]
        for page in pages:
            self.pool.share(page)
        return pages

    def release(self) -> None:
        for page in self.pages:
            if page:
                self.pool.drop(int(page))
        self.pages[:] = 0
