"""How a fuzz run stands: a live panel on a terminal, a plain line now and then elsewhere. On stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from frontier_oracle.property_tests.fuzz.results import Progress

EVERY_SECONDS = 10.0


@contextmanager
def showing(quiet: bool) -> Iterator[Progress]:
    """What ``run_fuzz`` reports to, shown while the block runs."""
    if quiet:
        yield Progress()
    elif sys.stderr.isatty():
        progress = Progress()
        with Live(console=Console(file=sys.stderr), transient=True, refresh_per_second=4) as live:
            progress.on_change = lambda p: live.update(panel(p))
            yield progress
    else:
        yield Progress(on_change=_Lines().show)


def panel(p: Progress) -> Table:
    """The figures, one a row."""
    table = Table.grid(padding=(0, 2))
    rows = (
        ("time", f"{p.seconds:,.0f} s"),
        ("request-rounds", f"{p.rounds:,} ({_speed(p)})"),
        ("scenarios", f"{p.scenarios:,} in {p.units:,} units"),
        ("rules exercised", str(p.rules)),
        ("situations met", f"{p.pairs:,} of {p.known_pairs:,} known"),
        ("findings", str(p.findings)),
        ("last", p.label),
    )
    for row in rows:
        table.add_row(*row)
    return table


def line(p: Progress) -> str:
    """The same on one line."""
    return (
        f"fuzz: {p.rounds:,} request-rounds after {p.seconds:.0f} s ({_speed(p)}), {p.scenarios:,} scenarios, "
        f"{p.rules} rules, {p.pairs:,} of {p.known_pairs:,} situations, {p.findings} findings ({p.label})"
    )


def _speed(p: Progress) -> str:
    return f"{p.rounds / p.seconds:,.0f}/s" if p.seconds > 0 else "-"


class _Lines:
    def __init__(self) -> None:
        self.last = 0.0

    def show(self, p: Progress) -> None:
        if p.seconds - self.last >= EVERY_SECONDS:
            self.last = p.seconds
            print(line(p), file=sys.stderr, flush=True)
