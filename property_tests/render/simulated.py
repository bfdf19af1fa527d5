"""What ``simulate`` prints: a line a design, then what is wrong with an output."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from frontier_oracle.property_tests.simulate.drafters import TARGET
from frontier_oracle.property_tests.simulate.run import DesignRun, Simulation

COLUMNS = ("tokens", "rounds", "accept length", "as the ideal", "draft rows", "seconds", "tokens/s")
WIDTH = 110


def render(done: Simulation) -> str:
    """The table, without a line end at its end."""
    out = StringIO()
    console = Console(file=out, width=WIDTH, highlight=False, emoji=False, markup=False)
    o = done.options
    how = f"temperature {o.sampling.temperature:g}" if o.sampling.temperature else "greedy"
    console.print(f"{len(done.prompts)} prompts, {how}, k={o.k}, {o.dtype} on {o.device}, batch {o.batch}")
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("design", no_wrap=True)
    for name in COLUMNS:
        table.add_column(name, justify="right")
    table.add_column("output", no_wrap=True)
    for run in done.runs:
        table.add_row(*_cells(done, run))
    console.print(table)
    for line in _differences(done):
        console.print(line, soft_wrap=True)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _cells(done: Simulation, run: DesignRun) -> Iterator[str]:
    equal = run.equal_rounds
    yield run.name
    yield f"{run.tokens:,}"
    yield f"{run.verify_rounds:,}"
    yield f"{run.accept_length:.3f}"
    yield "-" if equal is None else f"{equal / max(1, run.verify_rounds):.1%}"
    yield "-" if run.rows is None else f"{run.rows:,}"
    yield f"{run.seconds:.1f}"
    yield f"{run.tokens / run.seconds:.0f}"
    differs = len(done.findings.get(run.name, []))
    if run.name == TARGET or run.name not in done.findings:
        yield run.output_sha256[:8]
    else:
        yield f"{differs} differ" if differs else "the target's"


def _differences(done: Simulation) -> Iterator[str]:
    lower = " (lower precision may break a tie of two tokens otherwise)" if done.options.dtype != "float64" else ""
    for name, findings in done.findings.items():
        for finding in findings[:1]:
            d = finding.detail
            yield f"FO501 output differs from the target's own (S25): {name}, {len(findings)} requests{lower}"
            yield f"  first at request {finding.request}, position {finding.position}, round {finding.round}: "
            yield f"  expected {d['expected']}, got {d['got']}; {d['because']}"
