"""``check``: rounds that an engine logged, judged without running its drafter (Tier 0)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from frontier_oracle.oracle.errors import RecordError
from frontier_oracle.oracle.history import check as checking
from frontier_oracle.oracle.history.schema import History, LoggedRound, read
from frontier_oracle.property_tests.cli import exits, reports
from frontier_oracle.property_tests.cli.gate import show
from frontier_oracle.property_tests.cli.options import Format, FormatOption, ReportOption
from frontier_oracle.property_tests.gate.results import DIVERGENCE, EQUAL, NOTHING_RAN
from frontier_oracle.property_tests.history import report as report_of

MOST_DIRTY = 20


def check(
    histories: Annotated[
        list[Path], typer.Argument(metavar="HISTORY.jsonl...", help="Files of logged rounds.", show_default=False)
    ],
    format: FormatOption = Format.TABLE,
    report: ReportOption = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print failures and the verdict only.")] = False,
) -> int:
    """Judge rounds that an engine logged, without running its drafter: ids, positions, write locations, seq_lens,
    sampled rows, drafts. A rule whose fields were not logged is skipped and counted, never passed."""
    files = reports.parse(report or [])
    started = time.perf_counter()
    logs = [_read(path) for path in histories]
    with _showing(sum(isinstance(e, LoggedRound) for log in logs for e in log.events)) as on_round:
        done = [checking.check(log, on_round) for log in logs]
    result = report_of(done, time.perf_counter() - started)
    try:
        show(result, format, quiet)
    finally:
        reports.write(files, result)
    return {EQUAL: exits.EQUAL, DIVERGENCE: exits.DIVERGENCE, NOTHING_RAN: exits.NOTHING_RAN}[result.verdict]


def _read(path: Path) -> History:
    log, dirty = read(path)
    if log is not None:
        return log
    for line in dirty[:MOST_DIRTY]:
        print(line, file=sys.stderr)
    more = f", {len(dirty) - MOST_DIRTY} of them not shown" if len(dirty) > MOST_DIRTY else ""
    raise RecordError(f"{path}: {len(dirty)} dirty line{'s' * (len(dirty) != 1)}{more}: mend them; nothing was judged")


@contextmanager
def _showing(rounds: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal, on stderr."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("rounds"))
    with Bar(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task("rounds", total=rounds)
        yield lambda: bar.advance(task)
