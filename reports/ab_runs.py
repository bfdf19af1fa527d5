"""The sections of docs/ab.md that tell of runs in lower precision: results of ``property_tests.simulate.gpu`` (the
captured graph) and of ``property_tests.simulate.rounding`` (designs beside each other)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]
Result = dict[str, Any]


def section(result: Result, name: str) -> Iterator[str]:
    """Lines of one result with ``runs``. name: of its file."""
    return _rounding(result, name) if "designs" in result["runs"][0] else _graph(result, name)


def number(value: float | None) -> str:
    """Three decimals, - for None."""
    return "-" if value is None else f"{value:.3f}"


def _small(value: float | None) -> str:
    """None stands for what was no number."""
    return "-" if value is None else f"{value:.1e}"


def _kept(result: Result, name: str) -> str:
    run = result["runs"][0]
    return (
        f"{result['gpu'] if result['gpu'] != 'none' else 'On a CPU'}, batch {run['batch']}, k={run['k']}, "
        f"{run['prompts']} prompts, {result['date']}, commit {result['environment'].get('commit', '')}. Kept in "
        f"`reports/results/{name}`. {result['method']}"
    )


def _faults(row: Row) -> str:
    """Kept results of before twins were run count ties alone: what is no tie is a fault."""
    faults = row.get("faults", row["differing"] - row["ties"])
    return f"**{faults:,}**" if faults else "0"


# -- designs beside each other ----------------------------------------------------------------------------------------


def _rounding(result: Result, name: str) -> Iterator[str]:
    rows = [(run, row) for run in result["runs"] for row in run["designs"]]
    yield "## In lower precision"
    yield ""
    yield _kept(result, name)
    yield ""
    yield _verdict(rows)
    yield ""
    yield (
        "| dtype | design | request-rounds | differing | rounding ties | faults | twins apart by | largest rounding "
        "error | largest margin of a tie, of its error |"
    )
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for run, row in rows:
        share = row["largest_margin_of_error"]
        yield (
            f"| {run['dtype']} | `{row['name']}` | {row['request_rounds']:,} | {row['differing']:,} | "
            f"{row['ties']:,} | {_faults(row)} | {_small(row['largest_books_distance'])} | "
            f"{_small(row['largest_error'])} | {'-' if share is None else f'{share:.0%}'} |"
        )
    yield ""
    yield "Twins' distance and rounding error are relative to the largest logit."
    for run in result["runs"]:
        if not run["complete"]:
            yield f"The {run['dtype']} run was ended by its time limit, after {run['request_rounds']:,} request-rounds."


def _verdict(rows: list[tuple[Row, Row]]) -> str:
    leader = f"`{rows[0][0]['leader']}`"
    rounds, differing, faults = (sum(row[of] for _, row in rows) for of in ("request_rounds", "differing", "faults"))
    if faults:
        return f"**{faults:,} of {rounds:,} request-rounds held against {leader} show a fault that is no rounding.**"
    return (
        f"Of {rounds:,} request-rounds held against {leader}, {differing:,} drafted differently, every one by a "
        "rounding tie; in all of them the float64 twins had the same logits."
    )


# -- the captured graph -----------------------------------------------------------------------------------------------


def _graph(result: Result, name: str) -> Iterator[str]:
    """The real head under a captured graph."""
    yield "## Under a captured graph"
    yield ""
    yield f"{_kept(result, name)} The target's verification is not captured."
    yield ""
    for run in result["runs"]:
        for against, pair in run["drafts"].items():
            yield (
                f"- {run['dtype']}: drafts of `{run['graph']}` against `{against}`: {pair['differing']} of "
                f"{pair['request_rounds']:,} request-rounds differ, {pair['ties']} of them rounding ties; "
                f"{_faults(pair)} faults."
            )
    yield ""
    yield "| dtype | drafter | accept length | drafter, us | round, us | tokens/s |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for run in result["runs"]:
        for each in run["times"]:
            drafting = f"{each['drafter_us']:,.0f}" if each["drafter_us"] is not None else "-"
            plain = "no speculation" if each["drafter_us"] is None else f"`{each['name']}`"
            yield (
                f"| {run['dtype']} | {plain} | {number(each['accept_length'])} | {drafting} | "
                f"{each['round_us']:,.0f} | {each['tokens_per_second']:,.0f} |"
            )
