"""``replay``: a scenario or a repro file on a system, judged; the text of a failure fails again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frontier_oracle.property_tests.cli import exits
from frontier_oracle.property_tests.cli.options import (
    Format,
    FormatOption,
    SourceArgument,
    SystemOption,
    own_stdout,
)
from frontier_oracle.property_tests.gate.results import DIVERGENCE, EQUAL, NOTHING_RAN


def replay(
    source: SourceArgument,
    system: SystemOption = "",
    format: FormatOption = Format.TABLE,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the rounds there as a history, as an engine's log would have them."),
    ] = None,
) -> int:
    """Run a scenario (its text, or a repro file) and say what it finds. Exit 1 if it diverges from what the system
    declares, 5 if the scenario has no round."""
    code = run(source, system, format, every=False)
    if history is not None:
        from frontier_oracle.property_tests.recording import record

        with own_stdout():
            record(source, system, history)
    return code


def run(source: str, system: str, format: Format, every: bool) -> int:
    """What ``replay`` and ``explain`` share. every: tell all findings, not only the first."""
    exits.need_torch()
    from frontier_oracle.property_tests import replay as replaying
    from frontier_oracle.property_tests.render import jsonout, replayed

    with own_stdout():
        done = replaying.replay(source, system)
    data = format is Format.JSON
    typer.echo(jsonout.dumps(replaying.as_data(done, every)) if data else replayed.render(done, every))
    return {EQUAL: exits.EQUAL, DIVERGENCE: exits.DIVERGENCE, NOTHING_RAN: exits.NOTHING_RAN}[done.verdict]
