"""Options that several verbs share."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, redirect_stdout
from enum import StrEnum
from typing import Annotated

import typer


def own_stdout() -> AbstractContextManager[object]:
    """What an adapter prints goes to stderr while the block runs: stdout is the verb's own, and may be JSON."""
    return redirect_stdout(sys.stderr)


class Format(StrEnum):
    """How a verb prints what it found."""

    TABLE = "table"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="A table for people, or JSON on stdout.")]
ReportOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND=FILE,...",
        help="Files to write: junit=F, json=F, md=F, record=F. Repeatable.",
        show_default=False,
    ),
]
SystemsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--system",
        metavar="NAME|pkg.mod:make",
        help="A built-in system, or your adapter's factory. Repeatable; default: every built-in one that needs no GPU.",
        show_default=False,
    ),
]
SystemOption = Annotated[
    str,
    typer.Option(
        "--system",
        metavar="NAME|pkg.mod:make",
        help="The system to run. Default: the one that a repro file names, else 'frontier'.",
        show_default=False,
    ),
]
SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="TEXT|REPRO",
        help="A scenario, as 'k4 page16 | a: p12 chunks 5,5,2 | a1', or the path of a repro file.",
        show_default=False,
    ),
]
