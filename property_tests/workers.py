"""Worker processes: they leave interrupts to their parent, run torch on one thread, and keep off stdout."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_interrupts() -> Iterator[None]:
    """Workers that start meanwhile ignore interrupts: the parent ends them, and they print no tracebacks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def start_worker() -> None:
    """What every worker begins with."""
    import torch

    torch.set_num_threads(1)
    os.dup2(2, 1)  # what an adapter prints, from C too: stdout is the verb's own, and may be JSON
