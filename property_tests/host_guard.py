"""Catches host reads (FO302): a decode round that takes a value to the host cannot be captured and stalls (S9, S24).

On a CPU tensor such a read costs nothing and nobody notices; on a GPU it is a synchronization. So the guard looks at
what is asked for, not at the device: the same fault fails on a laptop.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from frontier_oracle.oracle.rules import Finding, raise_finding

aten = torch.ops.aten

CONVERSIONS = {
    getattr(Tensor, name)
    for name in (
        "tolist", "numpy", "cpu", "item", "__array__", "__dlpack__", "__repr__", "__format__",
        "__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__", "is_nonzero",
    )
}  # fmt: skip
BUILDERS = {torch.tensor, torch.as_tensor, Tensor.new_tensor}
MASKED_READS = (aten.index.Tensor,)
MASKED_WRITES = (aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default)

_allowed: ContextVar[bool] = ContextVar("allowed", default=False)


@contextmanager
def allow_host_reads() -> Iterator[None]:
    """Exempts the harness's own work (logging, checking) inside ``no_host_reads``."""
    token = _allowed.set(True)
    try:
        yield
    finally:
        _allowed.reset(token)


@contextmanager
def no_host_reads(round: int = -1, request: str = "") -> Iterator[None]:
    """Raises FO302, naming the operation, when a tensor's values are read on the host inside the block.

    Caught: conversions (``item``, ``tolist``, ``numpy``, ``cpu``, ``bool``/``int``/``float`` and an index of a tensor),
    operations whose result or shape depends on values (``nonzero``, ``unique``, ``equal``, ...), boolean-mask indexing,
    and copies from a device to the host. ``round`` and ``request`` go into the finding.
    """

    def refuse(operation: str) -> None:
        finding = Finding("FO302", round, request, detail={"operation": operation})
        raise_finding(finding, f"FO302 host synchronization: {operation} reads tensor values on the host (S9, S24)")

    with _Functions(refuse), _Dispatch(refuse):
        yield


class _Functions(TorchFunctionMode):
    """Conversions that the dispatcher never sees on CPU tensors."""

    def __init__(self, refuse: Any) -> None:
        super().__init__()
        self.refuse = refuse

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not _allowed.get():
            if func in CONVERSIONS:
                self.refuse(f"Tensor.{func.__name__}")
            if func in BUILDERS and any(_lists_tensors(arg) for arg in args):
                self.refuse(f"torch.{func.__name__} of a list of tensors")
        return func(*args, **(kwargs or {}))


class _Dispatch(TorchDispatchMode):
    """Operations, by the tags that say their output depends on values."""

    def __init__(self, refuse: Any) -> None:
        super().__init__()
        self.refuse = refuse

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not _allowed.get():
            if _reads_values(func, args, kwargs):
                self.refuse(str(func))
            if func._can_decompose():  # inference mode hands over composites whole, with the read inside
                with self:
                    result = func.decompose(*args, **kwargs)
                if result is not NotImplemented:
                    return result
        return func(*args, **kwargs)


def _reads_values(func: Any, args: Any, kwargs: Any) -> bool:
    if torch.Tag.data_dependent_output in func.tags:
        return True
    if func in MASKED_READS:
        return _has_mask(args[1])
    if func in MASKED_WRITES:
        # One value for all is a masked fill, which needs no count of the mask.
        return _has_mask(args[1]) and args[2].numel() != 1
    if torch.Tag.dynamic_output_shape in func.tags:
        return kwargs.get("output_size") is None
    return func is aten._to_copy.default and args[0].is_cuda and _to_host(kwargs.get("device"))


def _lists_tensors(data: Any) -> bool:
    return isinstance(data, (list, tuple)) and any(isinstance(x, Tensor) or _lists_tensors(x) for x in data)


def _has_mask(indices: Any) -> bool:
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)


def _to_host(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cpu"
