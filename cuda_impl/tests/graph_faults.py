"""Planted faults of the kinds that only a captured round has: each must be killed, on a tape and on a graph."""

from __future__ import annotations

from typing import Any

import torch

from frontier_oracle.cuda_impl.buffers import Buffers
from frontier_oracle.cuda_impl.graph import CudaGraph
from frontier_oracle.cuda_impl.system import FrontierDrafter, make_books
from frontier_oracle.cuda_impl.tape import Tape
from frontier_oracle.oracle.contract import DraftConfig, DraftModel


class TailRead(FrontierDrafter):
    """Padded rows keep what an earlier, larger batch left in them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.buffers.scrub = lambda start, bucket: None if start else Buffers.scrub(self.buffers, start, bucket)


class MetadataOutside(FrontierDrafter):
    """The window's metadata is rebuilt outside the captured region: a new seq_lens tensor every round."""

    def _replay(self, bucket: int) -> None:
        self.buffers.frontier = self.buffers.seq_lens + self.buffers.accept_lengths
        super()._replay(bucket)


class ReadsHost(FrontierDrafter):
    """Reads an accept length on the host to choose a slice."""

    def _round(self, bs: int) -> None:
        super()._round(bs)
        longest = int(self.buffers.accept_lengths[:bs].max())
        self.buffers.ids[:bs, : self.config.spec.k - longest].zero_()


class BakedAccepts(FrontierDrafter):
    """Gathers column 0 by accept lengths that were copied to the host before the capture."""

    accepts: tuple[int, ...] = ()

    def decode(self, batch: Any) -> torch.Tensor:
        self.accepts = tuple(batch.accept_lengths.tolist())
        return super().decode(batch)

    def _round(self, bs: int) -> None:
        super()._round(bs)
        for row, accept in enumerate(self.accepts[:bs]):
            self.buffers.result(bs)[row, 0].copy_(self.buffers.verify_ids[row, accept - 1])


FAULTS = {
    "host value baked at capture": BakedAccepts,
    "buffer tail read": TailRead,
    "metadata rebuilt outside the graph": MetadataOutside,
    "host read in the round": ReadsHost,
}


def make_faulty(name: str, config: DraftConfig, model: DraftModel) -> FrontierDrafter:
    """The faulty system, on a tape or on a graph by its device."""
    capture = CudaGraph if config.device.startswith("cuda") else Tape
    return FAULTS[name](config, model, make_books(config), capture)
