"""Where Triton kernels are launched: one door, so that a tape can record what the dispatcher never sees."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

Launch = Callable[[], None]
# A tape that captures. It is told of a launch and the tensors that it may write; None: not to be run before a replay.
Listener = Callable[[Launch, tuple[Any, ...] | None], None]
_listeners: list[Listener] = []


def launch(kernel: Any, programs: int, *args: Any, **constants: Any) -> None:
    """Run ``kernel`` on a grid of ``programs``. Tensors among ``args`` may be written."""

    def call() -> None:
        kernel[(programs,)](*args, **constants)

    if _listeners:
        _listeners[-1](call, args)
    else:
        call()


def run_opaque(call: Launch) -> None:
    """Run ``call``, or have a tape that captures run it at each replay: what it does inside is not recorded."""
    if _listeners:
        _listeners[-1](call, None)
    else:
        call()


def listen(listener: Listener) -> None:
    """Hand launches to ``listener`` (a tape that captures), until ``unlisten``."""
    _listeners.append(listener)


def unlisten() -> None:
    """End the last ``listen``."""
    _listeners.pop()


def kernels_run_on(device: str) -> bool:
    """Whether the Triton kernels run on ``device``: a GPU, or a CPU under TRITON_INTERPRET=1."""
    return device.startswith("cuda") or os.environ.get("TRITON_INTERPRET") == "1"
