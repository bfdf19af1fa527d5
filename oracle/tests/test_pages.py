"""Page pools and tables: ownership, sharing, rings of pages (S17, S21)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frontier_oracle.oracle.pages import PagePool, Table
from frontier_oracle.oracle.spec import CacheGroup


def test_null_page_is_never_handed_out_and_freed_pages_come_back_first() -> None:
    pool = PagePool(CacheGroup(4), num_pages=4)
    assert [pool.take(), pool.take(), pool.take()] == [1, 2, 3]
    pool.drop(2)
    assert pool.take() == 2


@given(st.integers(1, 5), st.integers(1, 40))
def test_full_history_places_every_position_once(page: int, positions: int) -> None:
    group = CacheGroup(page)
    pool = PagePool(group, num_pages=50)
    pool.take()
    table = Table(pool, cols=group.cols(positions, k=4))
    table.ensure(positions)
    cells = [table.location(p) for p in range(positions)]
    assert len(set(cells)) == positions and min(cells) >= page


@given(st.integers(1, 4), st.integers(1, 6), st.integers(2, 6), st.integers(1, 60))
def test_ring_keeps_the_window_and_a_windows_rows_apart(page: int, window: int, k: int, positions: int) -> None:
    group = CacheGroup(page, window)
    table = Table(PagePool(group, num_pages=100), cols=group.cols(positions, k))
    table.ensure(positions)
    live = range(max(0, positions - window - k + 1), positions)
    assert len({table.location(p) for p in live}) == len(live)


def test_a_shared_page_is_swapped_when_the_ring_reaches_it() -> None:
    group = CacheGroup(2, window=2)
    pool = PagePool(group, num_pages=40)
    donor, sharer = (Table(pool, cols=group.cols(99, k=2)) for _ in range(2))
    donor.ensure(4)
    adopted = sharer.adopt(donor, 4)
    assert adopted == [int(p) for p in donor.pages if p] and all(pool.shared(p) for p in adopted)
    before = donor.pages.copy()
    sharer.ensure(2 * sharer.cols * 2)
    assert np.array_equal(donor.pages, before)
    assert not set(sharer.pages.tolist()) & {p for p in before.tolist() if p}
    assert not any(pool.shared(p) for p in adopted)


def test_a_ring_that_moved_on_retains_only_what_stands() -> None:
    group = CacheGroup(2, window=2)
    table = Table(PagePool(group, num_pages=40), cols=group.cols(99, k=2))
    table.ensure(table.cols * 2)
    assert table.retains(4, reach=2)
    table.ensure(table.cols * 2 + 6)
    assert not table.retains(4, reach=2)
    assert table.logical_pages()[0] == 0
