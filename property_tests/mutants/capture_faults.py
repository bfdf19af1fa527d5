"""Faults that only a captured round has (S20, S23, S24): on a tape wherever the gate runs, on a CUDA graph on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from frontier_oracle.cuda_impl.graph import CudaGraph
from frontier_oracle.cuda_impl.system import FrontierDrafter, make_books
from frontier_oracle.cuda_impl.tape import Tape
from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel
from frontier_oracle.property_tests.mutants.planting import PLANTED, Mutant
from frontier_oracle.property_tests.shield import Factory, on_device

TAPE, GRAPH = "cuda_tape", "cuda_graph"


@dataclass(frozen=True)
class CaptureMutant(Mutant):
    """A fault of the GPU implementation, on its own twins: as a captured system, and as the same class run eagerly."""

    def system(self, base: str) -> Any:
        return self.apply

    def factory(self, base: str) -> Factory:
        return captured(self.apply) if base == TAPE else on_device(captured(self.apply), "cuda")

    def eager(self, base: str) -> Factory:
        def make(config: DraftConfig, model: DraftModel) -> FrontierDrafter:
            drafter: FrontierDrafter = self.apply(config, model, make_books(config))
            return drafter

        return make if base == TAPE else on_device(make, "cuda")


def captured(faulty: type[FrontierDrafter]) -> Factory:
    """The factory of a faulty system, on a tape or on a graph by the configuration's device."""

    def make(config: DraftConfig, model: DraftModel) -> FrontierDrafter:
        on_gpu = torch.device(config.device).type == "cuda"
        return faulty(config, model, make_books(config), CudaGraph if on_gpu else Tape, opaque=not on_gpu)

    return make


def _planted(id: str, title: str, code: str) -> Callable[[type[FrontierDrafter]], type[FrontierDrafter]]:
    def register(apply: type[FrontierDrafter]) -> type[FrontierDrafter]:
        assert id not in PLANTED, f"two mutants named {id}"
        PLANTED[id] = CaptureMutant(id, title, code, (TAPE, GRAPH), apply, why="only what is captured can have it")
        return apply

    return register


@_planted("captured_accepts", "column 0 is gathered by accept lengths that were host values at capture", "FO301")
class BakedAccepts(FrontierDrafter):
    accepts: tuple[int, ...] = ()

    def decode(self, batch: DecodeBatch) -> Tensor:
        self.accepts = tuple(batch.accept_lengths.tolist())
        return super().decode(batch)

    def _round(self, bs: int) -> None:
        super()._round(bs)
        for row, accept in enumerate(self.accepts[:bs]):
            self.buffers.result(bs)[row, 0].copy_(self.buffers.verify_ids[row, accept - 1])


@_planted("captured_tail", "padded rows keep what an earlier, larger batch left in the buffers", "FO205")
class TailRead(FrontierDrafter):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        scrub = self.buffers.scrub
        self.buffers.scrub = lambda start, bucket: None if start else scrub(start, bucket)  # type: ignore[method-assign]


@_planted("captured_metadata", "a buffer of the window's metadata is made anew outside the captured region", "FO303")
class MetadataOutside(FrontierDrafter):
    def _replay(self, bucket: int) -> None:
        self.buffers.frontier = self.buffers.seq_lens + self.buffers.accept_lengths
        super()._replay(bucket)
