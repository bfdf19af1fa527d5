"""A system's decode rounds as graphs: what an engine does with its drafter, done to any drafter that reads no host
values. On a GPU each batch size is one CUDA graph; on a CPU a tape stands in for it.

The judge stays on the CPU: batches go to the device, and every cell comes back after each round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from frontier_oracle.cuda_impl.graph import Capture, CudaGraph
from frontier_oracle.cuda_impl.tape import Tape
from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, StashView
from frontier_oracle.property_tests.probe import DigestProbe
from frontier_oracle.property_tests.shield import Factory


class Captured:
    """contract.StashSystem on the CPU over ``make``'s system on ``device``, its decode rounds captured and replayed.

    mirror: the probe that the judge reads. Raises CaptureRefused where a round cannot be captured."""

    def __init__(self, make: Factory, config: DraftConfig, mirror: DraftModel, device: str) -> None:
        assert isinstance(mirror, DigestProbe)
        self.config, self.mirror = replace(config, device=device), mirror
        self.probe = DigestProbe(self.config)
        self.system = make(self.config, self.probe)
        self.capabilities, self.prefix_policy = self.system.capabilities, self.system.prefix_policy
        self.new_capture: Callable[[], Capture] = Tape if device == "cpu" else CudaGraph
        self.captured: dict[int, tuple[Capture, DecodeBatch, Tensor]] = {}
        self.replays = 0

    def decode(self, batch: DecodeBatch) -> Tensor:
        """A round on the storages that were captured, whatever they now hold."""
        bs = len(batch.seq_lens)
        if bs not in self.captured:
            self.captured[bs] = self._capture(bs)
        capture, static, result = self.captured[bs]
        for name, value in _tensors(batch).items():
            _tensors(static)[name].copy_(value)
        capture.replay()
        self.replays += 1
        return self._back(result)

    def _capture(self, bs: int) -> tuple[Capture, DecodeBatch, Tensor]:
        """Capture on padding alone, which changes no live slot (S20)."""
        config, k = self.config, self.config.spec.k

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=config.device)

        static = DecodeBatch(
            req_pool_indices=zeros(bs),
            seq_lens=zeros(bs) + 1,
            accept_lengths=zeros(bs) + 1,
            verify_ids=zeros(bs, k),
            hidden=torch.zeros(bs * k, config.hidden_size, dtype=getattr(torch, config.dtype), device=config.device),
            page_table=tuple(zeros(bs, cols) for cols in config.cols),
        )
        result = zeros(bs, config.spec.steps + 1)

        def body() -> None:
            result.copy_(self.system.decode(static))

        capture = self.new_capture()
        if capture.warms_up:
            body()
        capture.capture(body)
        return capture, static, result

    def extend(self, batch: Any) -> Tensor:
        """Eager: chunk lengths are host values."""
        return self._back(self.system.extend(_moved(batch, self.config.device)))

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        self.system.adopt(slot, pages, length)

    def release(self, slot: int) -> None:
        self.system.release(slot)

    def stash(self) -> StashView:
        view: StashView = _moved(self.system.stash(), "cpu")
        return view

    def _back(self, returned: Tensor) -> Tensor:
        mine = [*self.mirror.kv, self.mirror.ring, self.mirror.ckpt]
        for here, there in zip(mine, [*self.probe.kv, self.probe.ring, self.probe.ckpt], strict=True):
            here.copy_(there)
        self.mirror.contract_errors += self.probe.contract_errors
        self.probe.contract_errors.clear()
        return returned.cpu().clone()


def captured(make: Factory, device: str = "cpu") -> Factory:
    """The factory of a captured system."""
    return lambda config, model: Captured(make, config, model, device)


def _tensors(batch: DecodeBatch) -> dict[str, Tensor]:
    flat: dict[str, Tensor] = {}
    for f in fields(batch):
        value = getattr(batch, f.name)
        flat.update({f"{f.name}{i}": v for i, v in enumerate(value)} if isinstance(value, tuple) else {f.name: value})
    return flat


def _moved(batch: Any, device: str) -> Any:
    """A dataclass of tensors with its tensors on ``device``."""

    def move(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.to(device)
        return tuple(move(v) for v in value) if isinstance(value, tuple) else value

    return replace(batch, **{f.name: move(getattr(batch, f.name)) for f in fields(batch)})
