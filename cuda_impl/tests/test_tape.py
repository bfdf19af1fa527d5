"""The tape by itself: what it refuses, what it bakes, and that capturing changes nothing."""

import numpy as np
import pytest
import torch

from frontier_oracle.cuda_impl.errors import CaptureRefused, ReplayError
from frontier_oracle.cuda_impl.launch import launch
from frontier_oracle.cuda_impl.tape import Tape

REFUSED = {
    "item": lambda x: x[0].item(),
    "bool": lambda x: bool(x[0] > 0),
    "int": lambda x: int(x.max()),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "cpu": lambda x: x.cpu(),
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: torch.unique(x),
    "masked_select": lambda x: x.masked_select(x > 0),
    "mask index": lambda x: x[x > 0],
    "masked rows put": lambda x: x.__setitem__(x > 0, x),
    "one device value put under a mask": lambda x: x.__setitem__(x > 0, x[:1] * 2),
    "list index": lambda x: x[[0, 1]],
    "tensor of host values": lambda x: x + torch.tensor([1, 2, 3, 4], device=x.device),
    "equal": lambda x: torch.equal(x, x + 0),
    "repeat_interleave": lambda x: x.repeat_interleave(x),
    "repr": lambda x: repr(x),
    "dlpack": lambda x: np.from_dlpack(x),
    "apply_": lambda x: x.apply_(lambda value: value + 1),
    "map_": lambda x: x.map_(x, lambda a, b: a + b),
    "data": lambda x: setattr(x, "data", torch.zeros(4, dtype=x.dtype, device=x.device)),
    "resize_": lambda x: x.resize_(8),
    "set_": lambda x: x.set_(torch.zeros(4, dtype=x.dtype, device=x.device)),
}
SERVED = {
    "arithmetic": lambda x: x * 2 + 1,
    "zeros and arange": lambda x: torch.zeros_like(x) + torch.arange(4, device=x.device) + x,
    "gather": lambda x: x.gather(0, x % 4),
    "index": lambda x: x[x % 4],
    "one value put under a mask": lambda x: x.clone().masked_fill_(x > 2, 0),
    "where": lambda x: torch.where(x > 2, x, 0),
    "cat and views": lambda x: torch.cat([x[1:], x[:1]]).view(2, 2).t().reshape(-1),
    "empty, then filled": lambda x: torch.empty_like(x).copy_(x),
    "repeat_interleave of a known size": lambda x: x.repeat_interleave(x * 0 + 1, output_size=4),
    "scatter_reduce": lambda x: torch.zeros_like(x).scatter_reduce_(0, x % 4, x, "amax"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_reason(name):
    x = torch.tensor([3, 1, 0, 2])
    with pytest.raises(CaptureRefused, match="the round cannot be captured: "):
        Tape().capture(lambda: REFUSED[name](x))


@pytest.mark.parametrize("name", SERVED)
def test_served_and_equal_to_eager_on_new_inputs(name):
    x, out = torch.tensor([3, 1, 0, 2]), torch.zeros(4, dtype=torch.int64)
    tape = Tape()
    tape.capture(lambda: out.copy_(SERVED[name](x)))
    for values in ([3, 1, 0, 2], [7, 7, 1, 0], [0, 0, 0, 9]):
        x.copy_(torch.tensor(values))
        tape.replay()
        assert torch.equal(out, SERVED[name](x))


def test_a_capture_has_no_effect():
    x = torch.arange(4)
    tape = Tape()
    tape.capture(lambda: x.add_(1).mul_(2))
    assert x.tolist() == [0, 1, 2, 3]
    tape.replay()
    assert x.tolist() == [2, 4, 6, 8]
    assert tape.names == ["add_", "mul_"]


def test_a_failed_capture_has_no_effect():
    x = torch.arange(4)
    with pytest.raises(CaptureRefused):
        Tape().capture(lambda: x.add_(1).sum().item())
    assert x.tolist() == [0, 1, 2, 3]


def test_python_values_are_baked():
    x, shift = torch.arange(4), 1
    tape = Tape()
    tape.capture(lambda: x.add_(shift))
    shift = 100
    tape.replay()
    assert x.tolist() == [1, 2, 3, 4]


def test_rebinding_leaves_the_tape_on_the_old_storage():
    box = {"x": torch.arange(4)}
    first, tape = box["x"], Tape()
    tape.capture(lambda: box["x"].add_(1))
    box["x"] = torch.zeros(4, dtype=torch.int64)
    tape.replay()
    assert first.tolist() == [1, 2, 3, 4]
    assert box["x"].tolist() == [0, 0, 0, 0]


def test_scratch_memory_does_not_leak_between_replays():
    x, out = torch.ones(4), torch.zeros(4)

    def body():
        scratch = torch.zeros(4)
        scratch.add_(x)
        out.copy_(scratch)

    tape = Tape()
    tape.capture(body)
    for _ in range(3):
        tape.replay()
    assert out.tolist() == [1, 1, 1, 1]


def test_launches_are_recorded_and_undone():
    class Kernel:
        def __getitem__(self, grid):
            return lambda x: x.add_(torch.tensor(grid[0]))

    x = torch.zeros(2)
    tape = Tape()
    tape.capture(lambda: launch(Kernel(), 3, x))
    assert x.tolist() == [0, 0]
    tape.replay()
    tape.replay()
    assert x.tolist() == [6, 6]
    assert tape.names == ["launch"]


def test_a_shape_that_changed_is_an_error():
    sizes, tape = iter((4, 3)), Tape()
    out = torch.zeros(4)
    tape.capture(lambda: out.copy_(torch.ones(4)))
    tape._steps[0].run = lambda: torch.ones(next(sizes))
    tape.replay()
    with pytest.raises(ReplayError, match="shape depends on data"):
        tape.replay()


def test_inference_mode_is_refused():
    with torch.inference_mode(), pytest.raises(CaptureRefused, match="inference_mode"):
        Tape().capture(lambda: None)
