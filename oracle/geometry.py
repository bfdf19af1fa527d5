"""Where a row stands: three witnesses (position passed, extent, write location) and what the median of them says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle.calls import CallLog
from frontier_oracle.oracle.timeline import View

I64 = NDArray[np.int64]


@dataclass(frozen=True)
class RowPlace:
    """One unmasked row of a live request. located: the position its cell belongs to, None if the cell is not the
    request's own; anchor: the position two of three witnesses agree on."""

    row: int
    location: int
    position: int
    extent: int
    located: int | None
    anchor: int


def places(call: CallLog, row: int, view: View, group: int) -> list[RowPlace]:
    """The unmasked rows of batch row ``row``, placed by its page table in ``group``."""
    out = []
    extents = call.extents(row).tolist()
    for j, i in enumerate(call.rows_of(row)):
        if call.masked[i]:
            continue
        location, position, extent = int(call.out_cache_loc[group][i]), int(call.positions[i]), int(extents[j])
        located = position_of(view, group, location, extent - 1)
        witnesses = [position, extent - 1] + ([located] if located is not None else [position])
        out.append(RowPlace(i, location, position, extent, located, sorted(witnesses)[1]))
    return out


def position_of(view: View, group: int, location: int, near: int) -> int | None:
    """The inverse of S17: which of the request's positions a cell holds, the one closest to ``near`` on a ring."""
    table = view.request.tables[group]
    size = table.pool.group.page_size
    page, offset = divmod(location, size)
    if page == 0:
        return None
    columns = np.flatnonzero(table.pages == page)
    if len(columns) == 0:
        return None
    base = int(columns[0]) * size + offset
    if table.pool.group.window is None:
        return base
    period = table.cols * size
    return base + period * max(0, round((near - base) / period))
