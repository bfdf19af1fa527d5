"""``fuzz``: random scenarios until time is up, on one core, all cores or a cluster; what is found is made small and
kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.cli import exits
from frontier_oracle.property_tests.cli.durations import seconds_of
from frontier_oracle.property_tests.cli.options import Format, FormatOption, own_stdout
from frontier_oracle.property_tests.gate.results import DIVERGENCE, EQUAL, NOTHING_RAN


def fuzz(
    system: Annotated[
        str, typer.Option("--system", metavar="NAME|pkg.mod:make", help="What to fuzz.", show_default=True)
    ] = "frontier",
    corpus: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Repro files, explanations and the ledger; it is made, or gone on from."),
    ] = Path("fuzz-corpus"),
    seed: Annotated[int, typer.Option(min=0, help="Every scenario follows from it.")] = 0,
    max_time: Annotated[
        str | None, typer.Option(metavar="30s|10m|8h", help="Stop after so long. Default: go on until Ctrl-C.")
    ] = None,
    max_rounds: Annotated[int | None, typer.Option(min=1, help="Stop after so many request-rounds.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Worker processes; 0: one a core.")] = 0,
    ray: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Run on a Ray cluster: auto, HOST:PORT, or local to start one.")
    ] = "",
    guided: Annotated[
        bool, typer.Option("--guided/--uniform", help="Prefer events whose situations were not met yet.")
    ] = True,
    format: FormatOption = Format.TABLE,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print findings and the verdict only.")] = False,
) -> int:
    """Fuzz a drafter: random scenarios without end, each judged as the gate does. A finding is made small, explained
    and kept in the corpus, which 'gate --corpus' replays.

    The same seed gives the same findings, whatever runs it. Ctrl-C saves and ends; the same command goes on from there.
    Exit 1 if there are findings, new or left in the corpus."""
    seconds = None if max_time is None else seconds_of(max_time, "--max-time")
    if corpus.exists() and not corpus.is_dir():
        raise UsageError(f"--corpus {corpus}: is a file, expected a directory")
    exits.need_torch()
    if ray:
        exits.need_modules("fuzz --ray", "ray", "ray")
    from frontier_oracle.property_tests.cli.fuzz_progress import showing
    from frontier_oracle.property_tests.fuzz.run import FuzzOptions, run_fuzz
    from frontier_oracle.property_tests.fuzz.session import Limits
    from frontier_oracle.property_tests.fuzz.units import Plan
    from frontier_oracle.property_tests.render import fuzzed, jsonout

    options = FuzzOptions(Plan(system, seed, guided), corpus, Limits(seconds, max_rounds), jobs, ray)
    with own_stdout(), showing(quiet) as progress:
        report = run_fuzz(options, progress)
    data = format is Format.JSON
    typer.echo(jsonout.dumps(fuzzed.as_data(report)) if data else fuzzed.render(report, quiet))
    if report.interrupted:
        return exits.INTERRUPTED
    return {EQUAL: exits.EQUAL, DIVERGENCE: exits.DIVERGENCE, NOTHING_RAN: exits.NOTHING_RAN}[report.verdict]
