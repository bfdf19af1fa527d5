"""Lets the gate's CPU side judge a system that runs on another device: batches go there, every cell comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import torch

from frontier_oracle.oracle.contract import DraftConfig, DraftModel, StashView, System
from frontier_oracle.property_tests.probe import DigestProbe


def moved(batch: Any, device: str) -> Any:
    """A batch dataclass with its tensors on ``device``."""

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(device)
        return tuple(move(v) for v in value) if isinstance(value, tuple) else value

    return replace(batch, **{f.name: move(getattr(batch, f.name)) for f in fields(batch)})


class Bridge:
    """contract.StashSystem on the CPU over a system on ``device``; ``mirror`` is the probe that the judge reads."""

    def __init__(self, make: Callable[..., System], config: DraftConfig, mirror: DraftModel, device: str) -> None:
        assert isinstance(mirror, DigestProbe)
        there = replace(config, device=device)
        self.device, self.mirror, self.probe = device, mirror, DigestProbe(there)
        self.system: Any = make(there, self.probe)
        self.capabilities, self.prefix_policy = self.system.capabilities, self.system.prefix_policy

    def extend(self, batch: Any) -> torch.Tensor:
        return self._back(self.system.extend(moved(batch, self.device)))

    def decode(self, batch: Any) -> torch.Tensor:
        return self._back(self.system.decode(moved(batch, self.device)))

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        self.system.adopt(slot, pages, length)

    def release(self, slot: int) -> None:
        self.system.release(slot)

    def stash(self) -> StashView:
        return moved(self.system.stash(), "cpu")

    def load_stash(self, *values: torch.Tensor) -> None:
        self.system.load_stash(*(value.to(self.device) for value in values))

    def _back(self, returned: torch.Tensor) -> torch.Tensor:
        pairs = zip([*self.mirror.kv, self.mirror.ring, self.mirror.ckpt], state_of(self.probe), strict=True)
        for mine, theirs in pairs:
            mine.copy_(theirs)
        self.mirror.contract_errors += self.probe.contract_errors
        self.probe.contract_errors.clear()
        return returned.cpu()


def state_of(probe: DigestProbe) -> list[torch.Tensor]:
    """Every cell of a probe."""
    return [*probe.kv, probe.ring, probe.ckpt]


def on_device(make: Callable[..., System], device: str = "cuda") -> Callable[[DraftConfig, DraftModel], Bridge]:
    """A factory for ``run_bulk``."""
    return lambda config, model: Bridge(make, config, model, device)
