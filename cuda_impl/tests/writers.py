"""A race check of global memory for Triton's interpreter: no cell is written by two programs of a launch, or by one
program and read by another, or by two rows of one store. (compute-sanitizer's racecheck looks at shared memory alone.)

The interpreter runs one program after the other, so that such a launch comes out right, or wrong in one way only. As a
program it shows on a kernel of its own, and on a real one given a slot twice, that each of the three is caught.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

# Of each access: the program, and the address of every byte.
Accesses = list[tuple[int, "np.ndarray[Any, Any]"]]


class SharedCell(AssertionError):
    """A launch whose result depends on which of its programs, or which row of a program, comes first."""


def install() -> None:
    """Check every launch from now on, in this process."""
    read: Accesses = []
    written: Accesses = []
    builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
    load, store, call = builder.create_masked_load, builder.create_masked_store, executor.__call__

    def loaded(self: Any, ptrs: Any, mask: Any, *rest: Any) -> Any:
        read.append((self.grid_idx[0], _bytes(ptrs, mask)))
        return load(self, ptrs, mask, *rest)

    def stored(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        cells = _bytes(ptrs, mask)
        if np.unique(cells).size != cells.size:
            raise SharedCell(f"two rows of one store write one cell (program {self.grid_idx[0]})")
        written.append((self.grid_idx[0], cells))
        return store(self, ptrs, value, mask, *rest)

    def launched(self: Any, *args: Any, **constants: Any) -> Any:
        read.clear()
        written.clear()
        result = call(self, *args, **constants)
        _check(self.fn.__name__, read, written)
        return result

    builder.create_masked_load, builder.create_masked_store, executor.__call__ = loaded, stored, launched


def _bytes(ptrs: Any, mask: Any) -> np.ndarray[Any, Any]:
    """The address of every byte of the elements that the mask lets through."""
    used = np.broadcast_to(np.asarray(mask.data, dtype=bool), np.shape(ptrs.data))
    size = ptrs.get_element_ty().primitive_bitwidth // 8
    return (np.asarray(ptrs.data).astype(np.int64)[used][:, None] + np.arange(size)).ravel()


def _flat(accesses: Accesses) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Programs and addresses, one a byte."""
    programs = np.repeat([program for program, _ in accesses], [cells.size for _, cells in accesses]).astype(np.int64)
    return programs, np.concatenate([np.zeros(0, np.int64), *(cells for _, cells in accesses)])


def _check(kernel: str, read: Accesses, written: Accesses) -> None:
    programs, cells = _flat(written)
    order = np.argsort(cells, kind="stable")
    programs, cells = programs[order], cells[order]
    same = (cells[1:] == cells[:-1]) & (programs[1:] != programs[:-1])
    if same.any():
        first, second = programs[:-1][same][0], programs[1:][same][0]
        raise SharedCell(f"{kernel}: programs {first} and {second} write one cell ({same.sum()} bytes in all)")
    readers, at = _flat(read)
    where = np.searchsorted(cells, at).clip(max=max(cells.size - 1, 0))
    if cells.size and (crossed := (cells[where] == at) & (programs[where] != readers)).any():
        writer, reader = programs[where][crossed][0], readers[crossed][0]
        raise SharedCell(f"{kernel}: program {reader} reads a cell that program {writer} writes")


@triton.jit
def shared_cells(out, n, step, shift, FOLD: tl.constexpr, BLOCK: tl.constexpr):
    """Clean with step = BLOCK, shift 0 and FOLD 1."""
    i = tl.program_id(0) * step + tl.arange(0, BLOCK)
    value = tl.load(out + i + shift, mask=i + shift < n)
    tl.store(out + i // FOLD, value, mask=i < n)


def two_requests_in_one_slot() -> None:
    """The books' own kernel, given what an engine must never give it: the stash of slot 1 belongs to two requests."""
    import sys

    from frontier_oracle.cuda_impl.buffers import Buffers
    from frontier_oracle.cuda_impl.triton_books import TritonBooks

    sys.path.insert(0, str(Path(__file__).parent))
    from slow_loops import Feeder, rounds_config

    config = rounds_config(4)
    books, buffers = TritonBooks(config), Buffers(config)
    books.decode(buffers, buffers.fill(Feeder(config, 0).decode([1, 1])))


def main() -> None:
    install()
    out = torch.zeros(30, dtype=torch.int32)
    launches: list[Callable[[], Any]] = [
        lambda: shared_cells[(4,)](out, 30, 8, 0, FOLD=1, BLOCK=8),
        lambda: shared_cells[(4,)](out, 30, 7, 0, FOLD=1, BLOCK=8),
        lambda: shared_cells[(4,)](out, 30, 8, 1, FOLD=1, BLOCK=8),
        lambda: shared_cells[(1,)](out, 30, 8, 0, FOLD=2, BLOCK=8),
        two_requests_in_one_slot,
    ]
    for run in launches:
        try:
            run()
        except Exception as error:  # the interpreter wraps what a kernel raises
            print("caught", error if isinstance(error, SharedCell) else error.__cause__)
        else:
            print("clean")


if __name__ == "__main__":
    main()
