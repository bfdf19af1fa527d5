"""``atlas``: every drafter design on the same accept lengths, side by side."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from frontier_oracle.oracle import atlas as runs
from frontier_oracle.oracle.atlas_tables import as_data, as_markdown, caption
from frontier_oracle.oracle.designs import DESIGNS
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.limits import MOST as LIMITS
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.cli import exits
from frontier_oracle.reports.traces import clip, read_directory

MOST_SEQUENCES = 200_000
_HEADERS = {"unwritten": "un-\nwrit-\nten", "tainted": "tain-\nted", "foreign": "for-\neign"}


class AtlasFormat(StrEnum):
    """How the atlas is printed."""

    TABLE = "table"
    JSON = "json"
    MD = "md"


def atlas(
    k: Annotated[int, typer.Option("--k", help="Rows of a verify window.")] = 4,
    steps: Annotated[int, typer.Option("--steps", help="Draft depths; 0 is k-1.")] = 0,
    accepts: Annotated[
        str | None, typer.Option("--accepts", metavar="1,4,2", help="One sequence of accept lengths.")
    ] = None,
    random: Annotated[int | None, typer.Option("--random", metavar="R", help="R random accept lengths.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="What --random follows from.")] = 0,
    traces: Annotated[
        Path | None, typer.Option("--traces", metavar="DIR", help="Sequences of Spec-Bench *.jsonl files below DIR.")
    ] = None,
    exhaustive: Annotated[
        int | None, typer.Option("--exhaustive", metavar="R", help="Every sequence of R rounds.")
    ] = None,
    prompt: Annotated[int, typer.Option("--prompt", metavar="P", help="Prompt tokens.")] = 12,
    chunks: Annotated[
        str | None, typer.Option("--chunks", metavar="5,5,2", help="Sizes of the prompt's chunks. Default: one.")
    ] = None,
    format_: Annotated[AtlasFormat, typer.Option("--format", help="table, json or md, on stdout.")] = AtlasFormat.TABLE,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a heat map of the first sequence, svg, png or pdf (extra 'reports')."),
    ] = None,
) -> int:
    """Run every design of the atlas on one request and count what each leaves behind.

    Name at most one of --accepts, --random, --traces and --exhaustive; without one, nothing is ever accepted: 1,1,1,1.
    """
    sequences = _sequences(k, steps, accepts, random, seed, traces, exhaustive)
    if plot is not None and importlib.util.find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: pip install 'frontier-oracle[reports]'")
    if plot is not None and not plot.parent.is_dir():  # said before the long run, not after it
        raise UsageError(f"--plot {plot}: there is no folder {plot.parent}; make it first")
    with _showing(len(sequences)) as progress:
        table = runs.atlas(
            sequences, k, steps, prompt, _numbers(chunks, "--chunks") if chunks is not None else (), progress=progress
        )
    if plot is not None:
        _plot(table, plot)
    if format_ is AtlasFormat.JSON:
        print(json.dumps(as_data(table), indent=2))
    elif format_ is AtlasFormat.MD:
        print(as_markdown(table), end="")
    else:
        _print_table(table)
    return exits.EQUAL


def _sequences(
    k: int,
    steps: int,
    accepts: str | None,
    random: int | None,
    seed: int,
    traces: Path | None,
    exhaustive: int | None,
) -> list[tuple[int, ...]]:
    """The accept sequences that the options name."""
    given = {"--accepts": accepts, "--random": random, "--traces": traces, "--exhaustive": exhaustive}
    named = [option for option, value in given.items() if value is not None]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)}: name one of them")
    for option, value in (("--random", random), ("--exhaustive", exhaustive)):
        if value is not None and value < 1:
            raise UsageError(f"{option} {value}: expected a number of rounds >= 1")
    most = Spec(k, steps).max_accept
    if random:
        if random > LIMITS["positions of a request"]:
            raise UsageError(f"--random {random}: at most {LIMITS['positions of a request']} rounds are run")
        return [runs.drawn(k, steps, random, seed)]
    if exhaustive:
        # 2^R is more than R's limit long before most^R takes time to work out.
        if exhaustive >= MOST_SEQUENCES.bit_length() or most**exhaustive > MOST_SEQUENCES:
            raise UsageError(
                f"--exhaustive {exhaustive}: {most}^{exhaustive} sequences, at most {MOST_SEQUENCES} are run"
            )
        return runs.exhaustive(k, steps, exhaustive)
    if traces:
        found = [clip(sequence.lengths, most)[0] for sequence in read_directory(traces).sequences]
        if not found:
            raise UsageError(f"--traces {traces}: no accept lengths below it; expected Spec-Bench *.jsonl files")
        return found
    return [tuple(_numbers("1,1,1,1" if accepts is None else accepts, "--accepts"))]


def _numbers(text: str, option: str) -> list[int]:
    """1,4,2 as numbers."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} {text!r}: expected numbers with commas between, as 1,4,2") from None


@contextmanager
def _showing(sequences: int) -> Iterator[Callable[[str, int], None]]:
    """A bar on a terminal, on stderr; nothing elsewhere, since the longest run takes minutes at most."""
    if not sys.stderr.isatty():
        yield lambda name, done: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task("starting", total=sequences * len(DESIGNS))
        yield lambda name, done: bar.update(task, advance=done, description=name)


def _plot(table: runs.Atlas, path: Path) -> None:
    from frontier_oracle.reports.atlas_plots import heat_map

    try:
        heat_map([table]).savefig(path, dpi=120)
    except (OSError, ValueError) as error:  # no such folder; a file ending that is no picture's
        raise UsageError(f"--plot {path}: {error}") from None


def _print_table(table: runs.Atlas) -> None:
    """Narrow enough for 80 columns. off: decode rounds whose drafts are not the ideal's; needs: verify rounds when left
    to its own drafts."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    grid = Table(title=caption(table), title_justify="left", box=None, padding=(0, 1, 0, 0))
    states = runs.STATES
    grid.add_column("design", no_wrap=True)
    for header in (
        "rows",
        "x\nbound",
        *(_HEADERS.get(state, state) for state in states),
        "off",
        "needs",
    ):
        grid.add_column(header, justify="right", no_wrap=True)
    grid.add_column("exact")
    for run in table.designs:
        bound = f"{run.rows / run.lower_bound_rows:.2f}" if run.lower_bound_rows else "-"
        cells = [str(run.states[state]) for state in states]
        off = f"{run.draft_mismatch_rounds}/{run.decode_rounds}"
        needed = "-" if run.verify_rounds is None else str(run.verify_rounds)
        grid.add_row(run.name, str(run.rows), bound, *cells, off, needed, "yes" if run.exact else "no")
    console.print(grid)
