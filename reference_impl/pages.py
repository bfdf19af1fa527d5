"""Where a position's KV is written: page tables of full histories and of sliding windows (S17)."""

from __future__ import annotations

from torch import Tensor


def locations(page_table: Tensor, page_size: int, request: Tensor, positions: Tensor) -> Tensor:
    """Cache location of each position: ``table[r, (p // page) % cols] * page + p % page`` (S17).

    page_table [bs, cols] int32; request: the table row of each position (an index, broadcast against positions);
    positions: any shape, int32. A sliding window's table is a ring of pages, hence the modulo; a full history never
    reaches it. Returns int32 of the broadcast shape. Positions below 0 give a location that must not be used.
    """
    column = (positions // page_size) % page_table.shape[1]
    return page_table[request, column.long()] * page_size + positions % page_size
