"""Fixed-address buffers of one drafter (S20, S24): what a captured round reads and writes never moves.

A decode batch of bs rows runs in a bucket (the next power of two, max_batch at most): the rows past bs are padded, and
the whole padded tail is scrubbed at each fill, so that nothing of an earlier, larger batch can be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from frontier_oracle.cuda_impl.errors import BatchError
from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig


def torch_dtype(config: DraftConfig) -> torch.dtype:
    """The dtype of hiddens, by the name in the configuration."""
    known = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
    return {str(dtype).removeprefix("torch."): dtype for dtype in known}[config.dtype]


@dataclass(frozen=True)
class Window:
    """The books of one decode window: views of a bucket's rows, contiguous but for ``ids``.

    ids [bs, k+steps] int32: column j + d is what depth d's row j consumes, so depth d's ids are columns d..d+k-1,
    column k-1 is v[a-1] and column k+d is draft d+1 (S5, S7, S10). positions [bs*k] int32; locs[g] [bs*k] int32;
    hidden [bs*k, H]: h(p) of each row (S6); frontier [bs] int32: F', seq_lens of attention and conv (S9).
    """

    ids: Tensor
    positions: Tensor
    hidden: Tensor
    locs: tuple[Tensor, ...]
    frontier: Tensor


class Buffers:
    """Inputs and books of decode rounds of up to ``config.max_batch`` rows.

    The inputs may be written in place (``batch(bs)`` gives the views): an engine's verification does so, and ``fill``
    then copies nothing.
    """

    def __init__(self, config: DraftConfig) -> None:
        spec, device = config.spec, torch.device(config.device)
        self.config, self.rows = config, config.max_batch
        b, k = self.rows, spec.k

        def ints(*shape: int, value: int = 0) -> Tensor:
            return torch.full(shape, value, dtype=torch.int32, device=device)

        self.req_pool_indices = ints(b).long()
        self.seq_lens = ints(b, value=1)
        self.accept_lengths = ints(b, value=1)
        self.verify_ids = ints(b, k)
        self.verify_hidden = torch.zeros(b * k, config.hidden_size, dtype=torch_dtype(config), device=device)
        # One allocation: group g's table starts at rows * (columns of the groups before it).
        self.tables = ints(b * sum(config.cols))
        self.ids = ints(b, k + spec.steps)
        self.positions = ints(b * k)
        self.hidden = torch.zeros_like(self.verify_hidden)
        self.locs = ints(len(spec.groups), b * k)
        self.frontier = ints(b, value=1)
        # Never change: every request has k rows, and the last of them is sampled.
        self.query_start_loc = torch.arange(b + 1, dtype=torch.int32, device=device) * k
        self.sample_rows = self.query_start_loc[1:] - 1

    def table(self, group: int) -> Tensor:
        """[rows, cols_g] page table of one cache group."""
        cols = self.config.cols
        start = self.rows * sum(cols[:group])
        return self.tables[start : start + self.rows * cols[group]].view(self.rows, cols[group])

    def batch(self, bs: int) -> DecodeBatch:
        """Views of the first ``bs`` input rows."""
        k = self.config.spec.k
        return DecodeBatch(
            req_pool_indices=self.req_pool_indices[:bs],
            seq_lens=self.seq_lens[:bs],
            accept_lengths=self.accept_lengths[:bs],
            verify_ids=self.verify_ids[:bs],
            hidden=self.verify_hidden[: bs * k],
            page_table=tuple(self.table(g)[:bs] for g in range(len(self.config.cols))),
        )

    def window(self, bs: int) -> Window:
        """Views of the books of the first ``bs`` rows."""
        n = bs * self.config.spec.k
        return Window(self.ids[:bs], self.positions[:n], self.hidden[:n], tuple(self.locs[:, :n]), self.frontier[:bs])

    def result(self, bs: int) -> Tensor:
        """[bs, steps+1] int32: column 0 is v[a-1], then the drafts (S10). The end of the id rows: a view."""
        return self.ids[:bs, self.config.spec.k - 1 :]

    def tensors(self) -> dict[str, Tensor]:
        """Every buffer by name: none of them may move (S24)."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def fill(self, batch: DecodeBatch) -> int:
        """Copy a round's inputs in, scrub the padded tail, return the bucket. Raises BatchError."""
        bs = batch.req_pool_indices.shape[0]
        self._check(batch, bs)
        bucket = self.bucket(bs)
        for mine, theirs in zip(_tensors(self.batch(bs)), _tensors(batch), strict=True):
            _put(mine, theirs)
        self.scrub(bs, bucket)
        return bucket

    def bucket(self, bs: int) -> int:
        """Rows of the graph that serves ``bs``: the next power of two, max_batch at most."""
        return min(1 << (bs - 1).bit_length(), self.rows)

    def scrub(self, start: int, bucket: int) -> None:
        """Make rows start..bucket-1 padding: slot 0, seq_len 1, accept 1, null page, ids and hiddens zero (S20)."""
        if start == bucket:
            return
        k = self.config.spec.k
        self.seq_lens[start:bucket].fill_(1)
        self.accept_lengths[start:bucket].fill_(1)
        self.req_pool_indices[start:bucket].zero_()
        self.verify_ids[start:bucket].zero_()
        self.verify_hidden[start * k : bucket * k].zero_()
        for g in range(len(self.config.cols)):
            self.table(g)[start:bucket].zero_()

    @contextmanager
    def padded(self, bucket: int) -> Iterator[None]:
        """Padding alone in the first ``bucket`` rows; then the inputs that stood there are put back."""
        inputs = _tensors(self.batch(bucket))
        before = [tensor.clone() for tensor in inputs]
        self.scrub(0, bucket)
        try:
            yield
        finally:
            for tensor, values in zip(inputs, before, strict=True):
                tensor.copy_(values)

    def _check(self, batch: DecodeBatch, bs: int) -> None:
        if not 1 <= bs <= self.config.max_batch:
            raise BatchError(f"decode batch of {bs} rows: expected 1..max_batch = {self.config.max_batch}")
        expected = self.batch(bs)
        if len(batch.page_table) != len(expected.page_table):
            raise BatchError(
                f"page_table: expected {len(expected.page_table)} cache groups, got {len(batch.page_table)}"
            )
        named = [(name, getattr(batch, name), getattr(expected, name)) for name in _FIELDS]
        named += [(f"page_table[{g}]", batch.page_table[g], t) for g, t in enumerate(expected.page_table)]
        for name, got, want in named:
            if got.shape != want.shape or got.is_floating_point() != want.is_floating_point():
                raise BatchError(f"{name}: expected {list(want.shape)} {want.dtype}, got {list(got.shape)} {got.dtype}")
            if got.device.type != want.device.type:
                raise BatchError(f"{name}: expected a tensor on {want.device}, got one on {got.device}")


_FIELDS = ("req_pool_indices", "seq_lens", "accept_lengths", "verify_ids", "hidden")


def _tensors(batch: DecodeBatch) -> list[Tensor]:
    return [*(getattr(batch, name) for name in _FIELDS), *batch.page_table]


def _put(mine: Tensor, theirs: Tensor) -> None:
    """Copy, unless ``theirs`` is ``mine`` already. Other rows of the same buffer may overlap it: read them first."""
    if (mine.data_ptr(), mine.stride(), mine.dtype) == (theirs.data_ptr(), theirs.stride(), theirs.dtype):
        return
    overlaps = mine.untyped_storage().data_ptr() == theirs.untyped_storage().data_ptr()
    mine.copy_(theirs.clone() if overlaps else theirs)
