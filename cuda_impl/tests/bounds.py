"""A sanitizer for Triton's interpreter: every unmasked address of a load or store must lie in a tensor of its launch.

The interpreter itself reads and writes wherever a pointer leads. As a program it shows on a kernel of its own that one
element past an end is caught, read or written, and nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

Ranges = list[tuple[int, int]]


class OutOfBounds(AssertionError):
    """A kernel went past the end of every tensor that it was given."""


def install() -> None:
    """Check every launch from now on, in this process."""
    ranges: Ranges = []
    builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
    load, store, call = builder.create_masked_load, builder.create_masked_store, executor.__call__

    def checked(action: Callable[..., Any], what: str, mask_at: int) -> Callable[..., Any]:
        def run(self: Any, ptrs: Any, *rest: Any) -> Any:
            _check(ptrs, rest[mask_at], ranges, what)
            return action(self, ptrs, *rest)

        return run

    def launched(self: Any, *args: Any, **constants: Any) -> Any:
        ranges[:] = [extent(arg) for arg in args if isinstance(arg, torch.Tensor)]
        return call(self, *args, **constants)

    builder.create_masked_load = checked(load, "read", 0)
    builder.create_masked_store = checked(store, "written", 1)
    executor.__call__ = launched


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Addresses [first, end) of a tensor, strided or not."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size() * bool(tensor.numel())


def _check(ptrs: Any, mask: Any, ranges: Ranges, what: str) -> None:
    used = np.broadcast_to(np.asarray(mask.data, dtype=bool), np.shape(ptrs.data))
    at = np.asarray(ptrs.data).astype(np.uint64)[used]
    size = ptrs.get_element_ty().primitive_bitwidth // 8
    inside = np.zeros(at.shape, dtype=bool)
    for first, end in ranges:
        inside |= (at >= first) & (at + np.uint64(size) <= end)
    if not inside.all():
        raise OutOfBounds(f"{(~inside).sum()} of {at.size} elements are {what} outside of every tensor of the launch")


@triton.jit
def shifted_copy(source, out, n, source_shift, out_shift, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(source + i + source_shift, mask=i < n)
    tl.store(out + i + out_shift, value, mask=i < n)


def main() -> None:
    install()
    arena = torch.zeros(64, dtype=torch.int32)
    source, out = arena[8:13], arena[32:37]  # neighbours in one storage: only the views count
    for shifts in ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1)):
        try:
            shifted_copy[(1,)](source, out, 5, *shifts, BLOCK=8)
        except Exception as error:  # the interpreter wraps what a kernel raises
            words = f"{error}{error.__cause__}"
            print("caught", "read" if "are read outside" in words else "written" if "are written" in words else words)
        else:
            print("clean")


if __name__ == "__main__":
    main()
