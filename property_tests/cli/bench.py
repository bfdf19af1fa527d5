"""``bench``: how fast the checking is, and how fast a drafter's round is on a GPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.cli import exits
from frontier_oracle.property_tests.cli.options import Format, FormatOption, SystemOption, own_stdout

app = typer.Typer(help="How fast the checking is, and a drafter's round on a GPU.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """How fast the checking is, and a drafter's round on a GPU."""


@app.command("oracle")
def oracle(
    system: SystemOption = "frontier",
    format: FormatOption = Format.TABLE,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each point; the fastest counts.")] = 3,
    threads: Annotated[int, typer.Option(min=1, help="torch threads.")] = 1,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a plot (needs matplotlib, extra 'reports').")
    ] = None,
) -> int:
    """Checked request-rounds per second (drafts, every entry written, stash, no write elsewhere), and how that grows
    with batch, k and context."""
    exits.need_torch()
    from frontier_oracle.property_tests import bench_oracle
    from frontier_oracle.property_tests.gate.environment import environment
    from frontier_oracle.property_tests.registry import load_system
    from frontier_oracle.property_tests.render import jsonout, measured

    if plot is not None and importlib.util.find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: pip install 'frontier-oracle[reports]'")
    try:
        with own_stdout():
            rows = bench_oracle.bench(load_system(system), repeats=repeats, threads=threads)
    except AssertionError as error:
        raise UsageError(f"system {system!r} is {error}; run the gate on it first") from error
    if plot is not None:
        _plot(rows, plot)
    where = environment()
    typer.echo(jsonout.dumps({"environment": where, "rows": rows}) if format is Format.JSON else measured.render(rows))
    return exits.EQUAL


@app.command("fuzz")
def fuzz(
    pick: Annotated[
        str, typer.Option(metavar="N,N,...", help="Seeds that every fault is killed under, and the hard are picked on.")
    ] = "0,1,2",
    compare: Annotated[str, typer.Option(metavar="N,N,...", help="Seeds that the hard are compared on.")] = "10,11,12",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes.")] = 1,
    format: FormatOption = Format.TABLE,
) -> int:
    """Request-rounds until fuzzing kills each planted fault, choosing scenarios by coverage and by chance."""
    exits.need_torch()
    from frontier_oracle.property_tests.fuzz.pool import Here, Processes
    from frontier_oracle.property_tests.fuzz.rounds_to_kill import bench
    from frontier_oracle.property_tests.gate.environment import environment
    from frontier_oracle.property_tests.render import jsonout, kills

    seeds = [_seeds(pick, "--pick"), _seeds(compare, "--compare")]
    pool = Here() if jobs == 1 else Processes(jobs)
    try:
        with own_stdout():
            found = bench(pool, *seeds)
    finally:
        pool.stop()
    where = environment()
    typer.echo(jsonout.dumps({"environment": where, **found}) if format is Format.JSON else kills.render(found))
    return exits.EQUAL


def _seeds(text: str, option: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise UsageError(f"{option} {text!r}: expected seeds separated by commas, as 0,1,2")
    return [int(part) for part in parts]


class Part(StrEnum):
    """What ``bench round`` measures."""

    BOOKS = "books"
    HEAD = "head"
    ALL = "all"


@app.command("round")
def round_(
    part: Annotated[
        Part, typer.Option(help="The bookkeeping alone, the round with a real MTP head, or both.", show_default=True)
    ] = Part.ALL,
    format: FormatOption = Format.TABLE,
) -> int:
    """A drafter's round on a GPU: our bookkeeping, the same as tensor operations, and a copy of the same bytes, side by
    side; then its share of a round with a real MTP head. Exit 3 without a CUDA device."""
    exits.need_torch()
    exits.need_cuda("bench round")
    exits.need_modules("bench round", "cuda", "triton")
    from frontier_oracle.cuda_impl import bench_head, bench_window
    from frontier_oracle.property_tests.render import jsonout, round_bench

    found: dict[str, Any] = {"environment": _gpu()}
    if part in (Part.BOOKS, Part.ALL):
        found |= {"bench": bench_window.bench_window(), "bench_method": bench_window.METHOD}
    if part in (Part.HEAD, Part.ALL):
        found |= {"round": bench_head.bench_head(), "round_method": bench_head.METHOD}
    typer.echo(jsonout.dumps(found) if format is Format.JSON else round_bench.render(found))
    return exits.EQUAL


def _gpu() -> dict[str, str]:
    """Where it was measured."""
    import torch

    from frontier_oracle.property_tests.gate.environment import environment

    return environment() | {"gpu": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda or "")}


def _plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    from frontier_oracle.property_tests.bench_oracle import plot

    try:
        plot(rows, path)
    except (OSError, ValueError) as error:  # no such folder; a file ending that is no picture's
        raise UsageError(f"--plot {path}: cannot be written: {error}") from None
