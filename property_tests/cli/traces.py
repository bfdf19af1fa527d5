"""``report`` and ``compare``: what engines say of their accept lengths, in any shape they say it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.cli import exits
from frontier_oracle.property_tests.cli.options import Format, FormatOption

InputFormatOption = Annotated[
    str | None,
    typer.Option(
        "--input-format",
        metavar="FORMAT",
        help="Take the files for this format (docs/cli.md lists them); default: by their content.",
    ),
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Exit 2 if anything in the input is defective or of no known format.")
]


def report(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Files, directories or globs.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Directory to write into; it is made.")],
    input_format: InputFormatOption = None,
    strict: StrictOption = False,
    draft_cost: Annotated[
        float | None,
        typer.Option(metavar="X", help="Cost of a draft step in target steps, as 0.05: recommends a number of drafts."),
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the page.")] = "Accept-length report",
) -> int:
    """Read accept lengths in any engine's shape, and write one HTML page, plots, tables and summaries."""
    exits.need_modules("report", "reports", *exits.REPORT_MODULES)
    from frontier_oracle.reports import report as reporting

    with _writing(out):
        done = reporting.report(
            paths, out, input_format=input_format, strict=strict, draft_cost=draft_cost, title=title
        )
    if done.exit_code == exits.USAGE:
        raise UsageError(done.message)
    typer.echo(done.message)
    return done.exit_code


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="What was: a file, a directory or a glob.", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help="What is now.", show_default=False)],
    fail_if_drop: Annotated[
        str | None,
        typer.Option(
            metavar="2%",
            help="Exit 1 if B's mean is lower by more than this, beyond the noise (its interval lies below zero). "
            "Fewer than 5 requests give no interval: then the drop alone decides.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Definition to compare by; default: the first that both sides tell."),
    ] = None,
    input_format: InputFormatOption = None,
    strict: StrictOption = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Also write a page, JSON and Markdown there.")
    ] = None,
    format: FormatOption = Format.TABLE,
) -> int:
    """Compare two runs' accept lengths, request by request where they match: the change, its interval, a verdict."""
    exits.need_modules("compare", "reports", *exits.REPORT_MODULES)
    from frontier_oracle.property_tests.render import compared, jsonout
    from frontier_oracle.reports import compare as comparing

    with _writing(out):
        done = comparing.compare(
            [a], [b], fail_if_drop=fail_if_drop, metric=metric, input_format=input_format, strict=strict, out_dir=out
        )
    if done.exit_code == exits.USAGE:
        raise UsageError(done.message)
    typer.echo(jsonout.dumps(done.summary) if format is Format.JSON else compared.render(done))
    return done.exit_code


class _writing:
    """Errors of the operating system inside the block are the output directory's, one line each."""

    def __init__(self, out: Path | None) -> None:
        self.out = out

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            where = error.filename or self.out or "a file"
            raise UsageError(f"{where}: {error.strerror or error}") from None
