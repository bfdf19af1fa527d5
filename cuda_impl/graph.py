"""A round captured as one CUDA graph. Synchronization is an error while capturing and replaying (S9, S24)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

import torch

from frontier_oracle.cuda_impl.errors import CaptureRefused


class Capture(Protocol):
    """What runs a round again and again on the same storages: a CUDA graph, or a tape on a CPU. ``warms_up``: whether
    the round must have run once before (kernels compiled, handles made)."""

    warms_up: ClassVar[bool]

    def capture(self, body: Callable[[], None]) -> None:
        """Record ``body``. The storages it writes keep their values. Raises CaptureRefused with the reason."""
        ...

    def replay(self) -> None:
        """Run what was recorded, on whatever the input storages now hold."""
        ...


@contextmanager
def no_sync() -> Iterator[None]:
    """A host synchronization raises inside."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


class CudaGraph:
    """Capture on a GPU. Graphs of one drafter share a memory pool: they never run at the same time."""

    warms_up: ClassVar[bool] = True

    def __init__(self, pool: Any = None) -> None:
        with warnings.catch_warnings():  # torch says once that the mode is a prototype
            warnings.simplefilter("ignore")
            with no_sync():
                pass
        self._graph = torch.cuda.CUDAGraph()
        self._pool = pool

    def capture(self, body: Callable[[], None]) -> None:
        """Capture on a side stream. ``body`` must have run before (kernels compiled, handles made)."""
        torch.cuda.synchronize()
        # A capture that breaks leaves its side stream the current one; the outer block puts ours back.
        here = torch.cuda.stream(torch.cuda.current_stream())
        try:
            with here, torch.cuda.graph(self._graph, pool=self._pool), no_sync():
                body()
        except RuntimeError as error:
            raise CaptureRefused(f"the round cannot be captured: {_first(error)}") from error

    def replay(self) -> None:
        """Replay on the current stream; a host synchronization here is an error."""
        with no_sync():
            self._graph.replay()


def _first(error: BaseException) -> str:
    """The first line of what went wrong first: ending a broken capture raises once more."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error).splitlines()[0]
