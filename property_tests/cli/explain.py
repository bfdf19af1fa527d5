"""``explain``: the story of a failure, or of every finding of a scenario."""

from __future__ import annotations

from typing import Annotated

import typer

from frontier_oracle.property_tests.cli.options import Format, FormatOption, SourceArgument, SystemOption
from frontier_oracle.property_tests.cli.replay import run


def explain(
    source: SourceArgument,
    system: SystemOption = "",
    every: Annotated[bool, typer.Option("--all", help="Tell every finding, not only the first.")] = False,
    format: FormatOption = Format.TABLE,
) -> int:
    """Tell why a scenario fails: what was consumed, where it came from, what is there instead, what it goes on to
    damage. Declared deviations are told too. Exit codes as in replay."""
    return run(source, system, format, every)
