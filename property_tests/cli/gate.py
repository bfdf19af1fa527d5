"""``gate``: every check on every system, a table, one verdict, reports for machines."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from frontier_oracle.oracle import repro as repro_files
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.repro import Repro
from frontier_oracle.property_tests.cli import exits, reports
from frontier_oracle.property_tests.cli.options import Format, FormatOption, ReportOption, SystemsOption, own_stdout
from frontier_oracle.property_tests.gate.results import DIVERGENCE, EQUAL, NOTHING_RAN, GateReport
from frontier_oracle.property_tests.render import annotations as github
from frontier_oracle.property_tests.render import jsonout, table

MOST_QUIET = 3


def gate(
    system: SystemsOption = None,
    traces: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory of Spec-Bench-style *.jsonl accept traces, beside the bundled ones."
        ),
    ] = None,
    profile: Annotated[str, typer.Option(metavar="ci|dev|nightly", help="How much to run.")] = "ci",
    seed: Annotated[int, typer.Option(min=0, help="Everything random follows from it.")] = 0,
    format: FormatOption = Format.TABLE,
    report: ReportOption = None,
    save: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a repro file there for each failing scenario.")
    ] = None,
    require_cuda: Annotated[
        bool, typer.Option("--require-cuda", help="Check the built-in systems for a GPU too; exit 3 without one.")
    ] = False,
    corpus: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Replay every repro file of it too, as 'fuzz' left them.")
    ] = None,
    mutants: Annotated[bool, typer.Option(help="Plant faults, and fail if one survives.")] = True,
    jobs: Annotated[int, typer.Option(min=0, help="Worker processes; 0: one a core.")] = 0,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print failures and the verdict only.")] = False,
) -> int:
    """Hold drafters to the oracle: inductive step, exhaustive small scope, random scenarios, real traces, planted
    faults, determinism. Exit 0 if all are equal.

    Without --system the built-in systems are checked, those beside the reference in a light form."""
    files = reports.parse(report or [])
    _check_folders(traces, save)
    exits.need_torch()
    if require_cuda:
        exits.need_cuda()
    from frontier_oracle.property_tests.cli.progress import showing
    from frontier_oracle.property_tests.gate.run import GateOptions, run_gate

    options = GateOptions(tuple(system or ()), profile, seed, traces, jobs, mutants, require_cuda, corpus)
    with own_stdout(), showing(quiet) as progress:
        result = run_gate(options, progress)
    pending: dict[Path, Repro] = {}
    if save is not None:
        from frontier_oracle.property_tests.cli.save import name_repros

        with own_stdout():
            result, pending = name_repros(result, save)
    try:  # the result is shown first: a full disk does not take it away, nor a reader that leaves the files
        show(result, format, quiet)
    finally:
        _write(pending, files, result)
    return {EQUAL: exits.EQUAL, DIVERGENCE: exits.DIVERGENCE, NOTHING_RAN: exits.NOTHING_RAN}[result.verdict]


def _check_folders(traces: Path | None, save: Path | None) -> None:
    if traces is not None and not traces.is_dir():
        raise UsageError(f"--traces {traces}: no such directory; name one with Spec-Bench-style *.jsonl files below it")
    if traces is not None and next(traces.rglob("*.jsonl"), None) is None:
        raise UsageError(f"--traces {traces}: no *.jsonl file below it")
    if save is not None and save.exists() and not save.is_dir():
        raise UsageError(f"--save {save}: is a file, expected a directory")


def show(result: GateReport, format: Format, quiet: bool) -> None:
    """Print the report, and on GitHub its annotations."""
    typer.echo(_text(result, format, quiet))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        _annotate(result, format)
    sys.stdout.flush()


def _write(repros: Mapping[Path, Repro], files: Mapping[str, Path], result: GateReport) -> None:
    for path, repro in repros.items():
        repro_files.write(path, repro)
    reports.write(files, result)


def _text(result: GateReport, format: Format, quiet: bool) -> str:
    if format is Format.JSON:
        return jsonout.render(result)
    if quiet:
        return "\n\n".join([*table.stories(result, MOST_QUIET, each=True), result.sentence])
    return table.render(result, color=sys.stdout.isatty() and "NO_COLOR" not in os.environ)


def _annotate(result: GateReport, format: Format) -> None:
    """Workflow commands, on stderr where stdout is JSON."""
    commands = github.render(result)
    if commands:
        typer.echo(commands, err=format is Format.JSON)
