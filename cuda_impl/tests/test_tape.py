"""The tape by itself: what it refuses, what it bakes, and that capturing changes nothing."""

import sys
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from frontier_oracle.cuda_impl.errors import CaptureRefused, ReplayError
from frontier_oracle.cuda_impl.launch import launch
from frontier_oracle.cuda_impl.tape import HOST_FUNCTIONS, HOST_VALUES, MASKED, MOVES, REBINDING, UNWRITTEN, Tape

sys.path.insert(0, str(Path(__file__).parent))
from capture_operations import OPERATIONS, PASSED, REFUSED, SERVED, WHY, outcome  # noqa: E402


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_reason(name):
    x = torch.tensor([3, 1, 0, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # byte masks are deprecated
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


@pytest.mark.parametrize("name", PASSED)
def test_what_a_tape_lets_pass(name):
    """The limits that its docstring names; another thread's work is lost, as a graph loses it."""
    got, _ = outcome(Tape(), "cpu", PASSED[name])
    assert got == ("not replayed" if name == "another thread" else "served")


class SeenFunctions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.functions = set()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.functions.add(func)
        return func(*args, **(kwargs or {}))


class SeenOperations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def tagged(tag):
    """The names of torch's own operations that bear the tag."""
    names = [
        name.removeprefix("aten::").partition(".") for name in torch._C._dispatch_get_all_op_names() if "aten" in name
    ]
    known = [(base, getattr(getattr(torch.ops.aten, base), overload or "default", None)) for base, _, overload in names]
    return {base for base, operation in known if operation is not None and tag in operation.tags}


def unlisted(operations):
    """What the tape refuses or treats apart and no operation of the list meets."""
    with SeenFunctions() as seen, SeenOperations() as dispatched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for operation in operations.values():
            with suppress(Exception):
                operation(torch.tensor([3, 1, 0, 2]))
    names = dispatched.names | {getattr(function, "__name__", "") for function in seen.functions}
    tags = tagged(torch.Tag.data_dependent_output) | tagged(torch.Tag.dynamic_output_shape)
    functions = {function.__name__ for function in HOST_FUNCTIONS | REBINDING if function not in seen.functions}
    return functions | ((MOVES | UNWRITTEN | MASKED | HOST_VALUES | tags) - names)


def test_every_operation_that_the_tape_treats_apart_is_tried_on_a_gpu():
    assert unlisted(OPERATIONS) == set()
    fewer = OPERATIONS.keys() - {"resize_as_", "bincount", "tolist", "data"}
    assert unlisted({name: OPERATIONS[name] for name in fewer}) == {"resize_as_", "bincount", "tolist", "__set__"}


def test_differences_have_a_reason_each():
    assert WHY.keys() <= OPERATIONS.keys()
    assert all(name in WHY for name in PASSED)


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
