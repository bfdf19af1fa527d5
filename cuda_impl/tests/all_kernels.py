"""Every kernel of cuda_impl once, on small shapes and against loops, in one process: what compute-sanitizer runs.

A program for a GPU or Triton's interpreter: ``all_kernels.py DEVICE``. It prints the names of what it launched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from triton.runtime.jit import KernelInterface

from frontier_oracle.cuda_impl.triton_books import TritonBooks

sys.path.insert(0, str(Path(__file__).parent))
import books_check  # noqa: E402
import conv_check  # noqa: E402
import small_kernels_check  # noqa: E402


def record_launches() -> set[str]:
    """The names of the kernels launched from now on, through which door whatsoever."""
    names: set[str] = set()
    take = KernelInterface.__getitem__

    def taken(self: Any, grid: Any) -> Callable[..., Any]:
        names.add(self.fn.__name__)
        return take(self, grid)

    KernelInterface.__getitem__ = taken
    return names


if __name__ == "__main__":
    device_ = sys.argv[1]
    if device_ == "cpu":
        import bounds
        import writers

        bounds.install()
        writers.install()
    launched = record_launches()
    books_check.run(TritonBooks, 4, 3, rounds=1, device=device_, hidden_size=24)
    conv_check.check(4, device_, 24)
    small_kernels_check.check(device_)
    print("launched:", *sorted(launched))
    print("equal")
