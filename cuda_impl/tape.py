"""A CUDA graph's stand-in where there is no GPU: records a round's tensor operations once, replays them on the same
storages. What a graph bakes in, a tape bakes in: Python values, addresses, shapes. What a graph refuses, it refuses.

tests/capture_operations.py lists what may differ from a real capture and why; a GPU run tries each operation, and its
page shows the differences. In short: what moves an address (``set_``, ``resize_``, ``.data``) is refused, where a graph
goes on with the old one; so is any tensor made from host values, where a graph takes zero-dimensional CPU scalars. What
a tape lets pass and a graph refuses: ``.to("cpu")`` of a CPU tensor, which looks like work that stays on the device;
``frombuffer`` and ``from_dlpack`` of host memory; operations that synchronize inside, on a GPU alone (``multinomial``,
``linalg.inv``). Work in another thread reaches neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves

from frontier_oracle.cuda_impl.errors import CaptureRefused, ReplayError
from frontier_oracle.cuda_impl.launch import Launch, listen, unlisten

aten = torch.ops.aten
# These reach the host without an operation that the dispatcher sees, or bring host values in.
HOST_FUNCTIONS = {
    Tensor.tolist, Tensor.numpy, Tensor.cpu, Tensor.__array__, Tensor.new_tensor,
    torch.tensor, torch.as_tensor, torch.asarray,
    Tensor.__dlpack__, Tensor.__repr__, Tensor.apply_, Tensor.map_,
}  # fmt: skip
# A storage that is exchanged or resized moves an address that the tape holds.
MOVES = {"set_", "resize_", "resize_as_"}
# Served, but not with a mask; what host values come in by.
MASKED = {"index", "index_put", "index_put_"}
HOST_VALUES = {"lift_fresh", "lift_fresh_copy"}
UNWRITTEN = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}


@dataclass
class _Step:
    """One operation or launch; ``results`` pairs an output's index with the storage that later operations read."""

    run: Callable[[], Any]
    name: str
    results: list[tuple[int, Tensor]]


# ``x.data = y``, which no dispatched operation shows.
REBINDING = {Tensor.data.__set__}  # type: ignore[attr-defined]


class _HostGuard(TorchFunctionMode):
    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in HOST_FUNCTIONS and not self._tape.paused:
            raise CaptureRefused(f"the round cannot be captured: {func.__name__} moves values between host and device")
        if func in REBINDING and not self._tape.paused:
            raise CaptureRefused("the round cannot be captured: setting .data changes an address")
        return func(*args, **(kwargs or {}))


class _Recorder(TorchDispatchMode):
    captures = True  # whoever runs under it can tell that this will be replayed

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        return func(*args, **kwargs) if self._tape.paused else self._tape.record(func, args, kwargs)


class Tape:
    """graph.Capture on a CPU. ``names`` lists what was recorded, in order: views and allocations are not."""

    warms_up: ClassVar[bool] = False

    def __init__(self) -> None:
        self.paused = False
        self._steps: list[_Step] = []
        self._own: set[int] = set()
        self._keep: list[Tensor] = []
        self._saved: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    @property
    def names(self) -> list[str]:
        return [step.name for step in self._steps]

    def capture(self, body: Callable[[], None]) -> None:
        """Run ``body`` once and record it, then put back what it wrote: a capture has no effect, as on a GPU."""
        if torch.is_inference_mode_enabled():
            raise CaptureRefused("the round cannot be captured under inference_mode: capture under no_grad")
        listen(self._launched)
        try:
            with torch.no_grad(), _HostGuard(self), _Recorder(self):
                body()
        finally:
            unlisten()
            for storage, before in self._saved.values():
                storage.copy_(before)
            self._saved.clear()

    @torch.no_grad()
    def replay(self) -> None:
        """Run every step again. A result lands where the first one did. Raises ReplayError if its shape changed."""
        for step in self._steps:
            outputs = step.run()
            leaves = tree_leaves(outputs) if step.results else []
            for index, home in step.results:
                if leaves[index].shape != home.shape:
                    shapes = f"{list(home.shape)} then, {list(leaves[index].shape)} now"
                    raise ReplayError(f"{step.name}: the result's shape depends on data: {shapes}")
                home.copy_(leaves[index])

    def record(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run one operation and remember it, unless it only makes a view or an allocation."""
        if reason := _refusal(func, args, kwargs):
            raise CaptureRefused(f"the round cannot be captured: {func.overloadpacket.__name__} {reason}")
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        for tensor in _written(func, args, kwargs):
            self._save(tensor)
        outputs = func(*args, **kwargs)
        shared = {_key(tensor) for tensor in inputs}
        leaves = tree_leaves(outputs)
        fresh = [(i, t) for i, t in enumerate(leaves) if isinstance(t, Tensor) and _key(t) not in shared]
        self._own.update(_key(t) for _, t in fresh)
        self._keep += [t for _, t in fresh]
        name = func.overloadpacket.__name__
        if func._schema.is_mutable or (fresh and name not in UNWRITTEN):
            frozen_args, frozen_kwargs = _freeze(args), _freeze(kwargs)
            self._steps.append(
                _Step(lambda: func(*frozen_args, **frozen_kwargs), name, [(i, _same(t)) for i, t in fresh])
            )
        return outputs

    def _launched(self, call: Launch, args: tuple[Any, ...] | None) -> None:
        """A Triton kernel in the interpreter writes through pointers, which the dispatcher never sees; an opaque call
        (args None) waits for the replays."""
        if args is not None:
            self.paused = True
            try:
                for tensor in args:
                    if isinstance(tensor, Tensor):
                        self._save(tensor)
                call()
            finally:
                self.paused = False
        self._steps.append(_Step(call, "launch" if args is not None else "call", []))

    def _save(self, tensor: Tensor) -> None:
        key = _key(tensor)
        if key and key not in self._own and key not in self._saved:
            storage = tensor.untyped_storage()
            self._saved[key] = (storage, storage.clone())


def _refusal(func: Any, args: Any, kwargs: Any) -> str:
    """Why a capture cannot hold the operation, "" if it can."""
    name = func.overloadpacket.__name__
    if torch.Tag.data_dependent_output in func.tags:
        return "reads a value on the host"
    if name in MASKED:
        return "with a mask has a shape that depends on data" if _masked(args[1]) else ""
    if torch.Tag.dynamic_output_shape in func.tags and kwargs.get("output_size") is None:
        return "has a shape that depends on data"
    if name in HOST_VALUES:
        return "brings host values in"
    return "changes an address" if name in MOVES else ""


def _masked(indices: Any) -> bool:
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _same(tensor: Tensor) -> Tensor:
    """Another handle on the same memory: what the caller does to its own handle leaves it alone."""
    return aten.alias.default(tensor)


def _freeze(tree: Any) -> Any:
    leaves, shape = tree_flatten(tree)
    return torch.utils._pytree.tree_unflatten([_same(x) if isinstance(x, Tensor) else x for x in leaves], shape)


def _written(func: Any, args: Any, kwargs: Any) -> list[Tensor]:
    out = []
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            out += [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
    return out
