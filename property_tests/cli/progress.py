"""How far a run is: a bar on a terminal, a plain line now and then elsewhere. On stderr, so that stdout stays clean."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from frontier_oracle.property_tests.gate.run import Progress

EVERY_SECONDS = 10.0


@contextmanager
def showing(quiet: bool) -> Iterator[Progress]:
    """What ``run_gate`` reports to, shown while the block runs."""
    if quiet:
        yield Progress()
    elif sys.stderr.isatty():
        with bar() as shown:
            task = shown.add_task("starting", total=None)

            def advance(progress: Progress, label: str) -> None:
                shown.update(task, total=progress.total, completed=progress.done, description=label)

            yield Progress(on_change=advance)
    else:
        yield Progress(on_change=_Lines().show)


def bar() -> Bar:
    """A bar on stderr, gone when it is done."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    return Bar(*columns, console=Console(file=sys.stderr), transient=True)


class _Lines:
    """A line at most every few seconds, and one for the last task."""

    def __init__(self) -> None:
        self.started = self.last = time.monotonic()

    def show(self, progress: Progress, label: str) -> None:
        now = time.monotonic()
        if now - self.last >= EVERY_SECONDS or progress.done == progress.total:
            self.last = now
            line = f"gate: {progress.done} of {progress.total} tasks done after {now - self.started:.0f} s ({label})"
            print(line, file=sys.stderr, flush=True)
