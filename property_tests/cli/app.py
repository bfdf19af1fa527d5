"""The application: its verbs, and the one place where errors become exit codes."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.cli import (
    atlas,
    bench,
    check,
    doctor,
    exits,
    explain,
    fuzz,
    gate,
    manual,
    replay,
    simulate,
    traces,
    train,
)

PROGRAM = "frontier-oracle"

app = typer.Typer(
    help="Proves that speculative-decoding drafters keep their books right.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 equal, 1 divergence or a drop, 2 usage, adapter or corrupt file, 3 required hardware "
    "missing, 5 nothing ran, 130 interrupted.",
)
app.command("gate", short_help="Hold drafters to the oracle; a table, one verdict.")(gate.gate)
app.command("fuzz", short_help="Random scenarios without end; keeps what it finds.")(fuzz.fuzz)
app.command("replay", short_help="Run one scenario, or a repro file, again.")(replay.replay)
app.command("explain", short_help="Tell why a scenario fails.")(explain.explain)
app.command("check", short_help="Judge rounds that an engine logged.")(check.check)
app.command("doctor", short_help="Find the usual mistakes of an adapter.")(doctor.doctor)
app.command("atlas", short_help="Compare every drafter design on the same accepts.")(atlas.atlas)
app.command("simulate", short_help="Serve text by a real model under any drafter design.")(simulate.simulate)
app.command("report", short_help="Report on accept lengths in any engine's shape.")(traces.report)
app.command("compare", short_help="Compare two runs' accept lengths.")(traces.compare)
app.command("train", short_help="Train a target and its MTP chain.")(train.train)
app.add_typer(bench.app, name="bench", short_help="Measure the checking, or a drafter's round on a GPU.")
manual.attach(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from frontier_oracle.property_tests.gate.environment import environment

        for key, value in environment().items():
            typer.echo(f"{key:<16} {value or '-'}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Versions and machine, then exit."),
    ] = False,
) -> None:
    """Proves that speculative-decoding drafters keep their books right."""


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a character gets a question mark, not a crash
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code. What a user can mend is one line on stderr."""
    try:
        result = app(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
        if result == exits.INTERRUPTED:  # newer typers return it, older ones raise Abort
            raise KeyboardInterrupt
        return result if isinstance(result, int) else exits.EQUAL
    except UsageError as error:
        return _refuse(str(error), exits.USAGE)
    except exits.HardwareMissing as error:
        return _refuse(str(error), exits.HARDWARE)
    except (KeyboardInterrupt, typer.Abort):
        return _refuse("interrupted", exits.INTERRUPTED)
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as error:  # never the verbs' own: a verdict that an adapter makes up is none
        if isinstance(error.__context__, BrokenPipeError):  # click and rich make one of a closed pipe
            return _reader_gone()
        if _completing(arguments):
            return error.code if isinstance(error.code, int) else exits.EQUAL
        return _refuse(f"the system under test ended the program (exit {error.code})", exits.USAGE)
    except Exception as error:
        if hasattr(error, "format_message"):  # click's usage errors; newer typers bring a click of their own
            return _refuse(_usage(error), exits.USAGE)
        traceback.print_exc()
        return _refuse("internal error: this is a bug of frontier-oracle, please report the lines above", exits.CRASH)


def _reader_gone() -> int:
    """Whoever read stdout has gone; what is still buffered has nowhere to go when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exits.DIVERGENCE


def _completing(arguments: Sequence[str]) -> bool:
    """typer answers the shell, or shows and installs its script, and leaves."""
    asked = ("--show-completion", "--install-completion")
    return "_FRONTIER_ORACLE_COMPLETE" in os.environ or any(word in asked for word in arguments)


def _usage(error: Any) -> str:
    message = error.format_message().replace("Value error, ", "") or "a command is missing"
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else PROGRAM
    return f"{message} (see '{path} --help')"


def _refuse(message: str, code: int) -> int:
    print(f"{PROGRAM}: {' '.join(message.split())}", file=sys.stderr)
    return code
