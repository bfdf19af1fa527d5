"""The target on paged KV equals its dense forward in float64, whatever the chunks, pages and batch (S9, S17)."""

from __future__ import annotations

import pytest
import torch
from test_device_only import HostReadGuard
from torch import Tensor

from frontier_oracle.reference_impl.model.config import ModelConfig
from frontier_oracle.reference_impl.model.paged_target import PagedTarget
from frontier_oracle.reference_impl.model.weights import random_model
from frontier_oracle.reference_impl.pages import locations

CONFIG = ModelConfig(
    vocab_size=50, hidden_size=16, layers=2, heads=4, kv_heads=2, intermediate_size=24, windows=(None,)
)
PAGE, COLS = 4, 12
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}


class Serving:
    """Requests of known ids over shuffled pages, read row by row into one PagedTarget."""

    def __init__(self, lengths: list[int], seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.model = random_model(CONFIG, seed, "float64").target
        self.ids = [torch.randint(0, 50, (n,), generator=generator) for n in lengths]
        pages = 1 + torch.randperm(len(lengths) * COLS, generator=generator)
        self.tables = pages.view(-1, COLS).int()
        self.paged = PagedTarget(self.model, 1 + pages.numel(), PAGE, "cpu", torch.float64)
        self.done = [0] * len(lengths)

    def read(self, rows: list[tuple[int, int]], equal: bool = False) -> list[Tensor]:
        """rows: (request, how many of its next ids). Returns each request's hidden and logits, joined."""
        spans = [range(self.done[r], self.done[r] + n) for r, n in rows]
        ids = torch.cat([self.ids[r][span.start : span.stop] for (r, _), span in zip(rows, spans, strict=True)]).int()
        positions = torch.tensor([p for span in spans for p in span], dtype=torch.int32)
        counts = torch.tensor([n for _, n in rows])
        request = torch.arange(len(rows)).repeat_interleave(counts)
        table = self.tables[[r for r, _ in rows]]
        hidden, logits = self.paged.forward(
            ids.view(len(rows), -1) if equal else ids,
            positions,
            locations(table, PAGE, request, positions),
            torch.cat([counts.new_zeros(1), counts.cumsum(0)]).int(),
            torch.tensor([span.stop for span in spans], dtype=torch.int32),
            table,
        )
        for r, n in rows:
            self.done[r] += n
        return list(torch.cat([hidden, logits], -1).split(counts.tolist()))

    def dense(self, r: int) -> Tensor:
        hidden = self.model(self.ids[r][None])[0]
        return torch.cat([hidden, self.model.logits(hidden)], -1)


@pytest.mark.parametrize("chunks", [[40], [1] * 40, [17, 16, 7], [3, 30, 1, 6]], ids=str)
def test_every_chunking_equals_the_dense_forward(chunks: list[int]) -> None:
    serving = Serving([40])
    rows = torch.cat([serving.read([(0, n)])[0] for n in chunks])
    torch.testing.assert_close(rows, serving.dense(0), **TOLERANCE)


def test_ragged_batches_equal_the_dense_forward() -> None:
    serving = Serving([40, 21, 37])
    parts: list[list[Tensor]] = [[], [], []]
    for batch in ([(0, 5), (2, 33)], [(1, 20), (0, 1), (2, 3)], [(0, 34), (2, 1), (1, 1)]):
        for (r, _), rows in zip(batch, serving.read(batch), strict=True):
            parts[r].append(rows)
    for r, rows in enumerate(parts):
        torch.testing.assert_close(torch.cat(rows), serving.dense(r), **TOLERANCE)


def test_rejected_rows_are_overwritten() -> None:
    serving = Serving([30, 30])
    serving.read([(0, 10), (1, 14)])
    right = [ids.clone() for ids in serving.ids]
    for r in (0, 1):
        serving.ids[r][serving.done[r] + 3 :] = 7
    serving.read([(0, 8), (1, 8)], equal=True)
    serving.ids, serving.done = right, [13, 17]
    for r, rows in enumerate(serving.read([(0, 13), (1, 13)], equal=True)):
        torch.testing.assert_close(rows, serving.dense(r)[serving.done[r] - 13 : serving.done[r]], **TOLERANCE)


def test_both_layouts_give_the_same_rows() -> None:
    """And neither reads anything back to the host, so a graph can hold them (S24)."""
    a, b = Serving([30, 30]), Serving([30, 30])
    for serving in (a, b):
        serving.read([(0, 9), (1, 12)])
    with HostReadGuard():
        pairs = zip(a.read([(0, 8), (1, 8)], equal=True), b.read([(0, 8), (1, 8)]), strict=True)
    for left, right in pairs:
        torch.testing.assert_close(left, right, **TOLERANCE)


def test_padding_changes_no_live_row() -> None:
    """A padded row stands at position 0 of the null page with an extent of 1 (S20)."""
    serving = Serving([30, 1])
    serving.tables[1] = 0
    parts = [serving.read([(0, 20)])[0]]
    serving.done[1] = 0
    parts.append(serving.read([(0, 10), (1, 1)])[0])
    torch.testing.assert_close(torch.cat(parts), serving.dense(0), **TOLERANCE)
