"""Every way to take a value to the host is caught on CPU tensors too; device-side work is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from frontier_oracle.oracle.rules import FO302
from frontier_oracle.property_tests.host_guard import allow_host_reads, no_host_reads

torch.set_num_threads(1)

READS: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda t: t[0].item(),
    "tolist": lambda t: t.tolist(),
    "numpy": lambda t: t.numpy(),
    "asarray": lambda t: np.asarray(t),
    "cpu": lambda t: t.cpu(),
    "bool": lambda t: bool(t[0]),
    "if": lambda t: 1 if (t > 0).all() else 0,
    "int": lambda t: int(t[0]),
    "float": lambda t: float(t[0]),
    "slice": lambda t: t[: t[0]],
    "range": lambda t: range(t[0]),
    "format": lambda t: f"{t}",
    "repr": lambda t: repr(t),
    "contains": lambda t: 3 in t,
    "max of tensors": lambda t: max(t[0], t[1]),
    "equal": lambda t: torch.equal(t, t),
    "allclose": lambda t: torch.allclose(t.float(), t.float()),
    "nonzero": lambda t: t.nonzero(),
    "where": lambda t: torch.where(t > 1),
    "unique": lambda t: t.unique(),
    "masked_select": lambda t: t.masked_select(t > 1),
    "mask": lambda t: t[t > 1],
    "mask write": lambda t: t.__setitem__(t > 1, torch.tensor([5, 6])),
    "bincount": lambda t: torch.bincount(t),
    "repeat_interleave": lambda t: t.repeat_interleave(t),
    "list of tensors": lambda t: torch.tensor([t[0], t[1]]),
    "narrow by a tensor": lambda t: t.narrow(0, t[0], 1),
    "split": lambda t: t.split(t[:2].tolist()),
    "dlpack": lambda t: np.from_dlpack(t),
}

DEVICE_WORK: dict[str, Callable[[Tensor], Any]] = {
    "gather": lambda t: t[t.clamp(0, 3)],
    "arithmetic": lambda t: (t * 3 + t.cumsum(0)).sum(),
    "where": lambda t: torch.where(t > 1, t, 0),
    "masked fill": lambda t: t.clone().masked_fill_(t > 1, 0),
    "mask write of one value": lambda t: t.clone().__setitem__(t > 1, 0),
    "scatter": lambda t: torch.zeros(9, dtype=t.dtype).scatter_(0, t.long(), t),
    "index_put": lambda t: torch.zeros(9, dtype=t.dtype).index_put_((t.long(),), t),
    "slices": lambda t: t[1:].view(-1, 1)[:, 0],
    "searchsorted": lambda t: torch.searchsorted(t, t),
    "shapes": lambda t: (t.shape[0], len(t), t.numel(), t.dtype),
    "to": lambda t: t.to(torch.int64).to(t.device),
    "repeat_interleave by a number": lambda t: t.repeat_interleave(4),
    "repeat_interleave of known size": lambda t: t.repeat_interleave(t, output_size=10),
}


def values() -> Tensor:
    return torch.tensor([1, 2, 3, 4], dtype=torch.int32)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", READS)
def test_host_reads_raise(name: str, inference: bool) -> None:
    with torch.inference_mode(inference):
        t = values()
        with pytest.raises(FO302, match="FO302 host synchronization: ") as caught, no_host_reads():
            READS[name](t)
    assert caught.value.finding.detail["operation"]


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", DEVICE_WORK)
def test_device_work_passes(name: str, inference: bool) -> None:
    with torch.inference_mode(inference):
        t = values()
        with no_host_reads():
            DEVICE_WORK[name](t)


def test_the_operation_and_the_place_are_named() -> None:
    with pytest.raises(FO302, match=r"Tensor\.tolist reads tensor values") as caught, no_host_reads(3, "a"):
        values().tolist()
    assert (caught.value.finding.round, caught.value.finding.request) == (3, "a")
    with pytest.raises(FO302, match=r"aten\.nonzero\.default"), no_host_reads():
        values().nonzero()


def test_the_harness_may_exempt_itself() -> None:
    t = values()
    with no_host_reads():
        with allow_host_reads():
            assert t.tolist() == [1, 2, 3, 4]
            assert int(t.nonzero().sum()) == 6
        with pytest.raises(FO302):
            t.tolist()
    assert t.tolist() == [1, 2, 3, 4]
