"""docs/ab.md: what every design is worth on a real model, from kept results. ``python -m`` rewrites the page and its
pictures: frontier_oracle.reports.ab_page RESULT.json... docs. Results come from ``simulate --ab``, of which the first
is told in full, and from ``property_tests.simulate.gpu`` and ``.rounding``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from frontier_oracle.reports.ab_runs import number, section

Row = dict[str, Any]
Result = dict[str, Any]

INTRO = """# What a wrong book costs: every design on a real model

The bundled model ([model.md](model.md)) serves the same prompts under every design that a chain of heads can run. The
target, the heads and the prompts are the same; only the drafter's bookkeeping differs. Everything runs in float64, so
that no tie of two tokens decides otherwise. **ideal** is the drafter that recomputes every depth over every position
in each round (S3); "as the ideal" counts verify rounds whose drafts are its own, all of them.

What a design costs here is what its cache costs these heads: chains trained on exact entries. `vllm_step3p5` runs its
deeper depths on one row a step, never over the prompt, which is not how these heads were trained. Prefix hits follow
the exact successor policy for every design, so that a donor's continuation (S21) costs none of them.

Accept length counts the bonus token. Intervals are 95 %, bootstrap over requests, paired. The losses by depth, position
and request compare, in each verify round of a design, its drafts with those of the ideal for the same tokens.

This page is generated from the kept results: `python -m frontier_oracle.reports.ab_page RESULT.json... docs`.
"""


def page(results: Sequence[Result], names: Sequence[str]) -> str:
    """The page's Markdown. names: of the result files."""
    named = list(zip(results, names, strict=True))
    compared = [(result, name) for result, name in named if "designs" in result]
    lines = [INTRO, *_lines([result for result, _ in compared], [name for _, name in compared])]
    for result, name in named:
        if "runs" in result:
            lines += ["", *section(result, name)]
    return "\n".join(lines) + "\n"


def _lines(results: Sequence[Result], names: Sequence[str]) -> Iterator[str]:
    designs = results[0]["designs"]
    yield from ("## The answer", "", *_answer(results), "")
    yield from (f"## {_title(results[0])}", "", _how(results[0], names[0]), "", *_overall(designs), "")
    yield from ("![change of the accept length](ab-accept.svg)", "")
    yield from ("### By draft depth", "", *_depths(designs), "", "![by depth](ab-depth.svg)", "")
    yield from ("### By position in the context", "", *_positions(designs), "", "![by position](ab-position.svg)", "")
    yield from ("### By how predictable the text is", "", *_rates(designs), "")
    yield from ("### Which entries", "", *_entries(designs))
    for result, name in zip(results[1:], names[1:], strict=True):
        yield from ("", f"## {_title(result)}", "", _how(result, name), "", *_overall(result["designs"]))


def _title(result: Result) -> str:
    o = result["options"]
    parts = [f"Temperature {o['sampling']['temperature']:g}" if o["sampling"]["temperature"] else "Greedy"]
    parts.append(f"chunks of {o['chunk']}" if o["chunk"] else "whole prompts")
    parts += ["prefix hits"] * bool(result["simulate"].get("hits"))
    return ", ".join(parts)


def exact_names(result: Result) -> list[str]:
    """Designs whose drafts were the ideal's in every verify round."""
    return [row["name"] for row in result["designs"] if row["rounds_as_ideal"] == row["verify_rounds"]]


def _answer(results: Sequence[Result]) -> Iterator[str]:
    first, exact = results[0], exact_names(results[0])
    rounds = sum(row["verify_rounds"] for row in first["designs"] if row["name"] in exact)
    yield (
        f"- {_title(first)}: {_listed(exact)} gave the ideal's drafts in every one of {rounds:,} request-rounds, hence "
        "the same accept lengths and the same number of verify rounds."
    )
    for row in first["designs"]:
        if row["name"] not in exact:
            equal = row["rounds_as_ideal"] / row["verify_rounds"]
            yield (
                f"- `{row['name']}`: accept length {interval(row['accept_length'])}, that is "
                f"{percent_interval(row['change'])} against the ideal; {equal:.1%} of its rounds drafted as the ideal."
            )
    for result in results[1:]:
        rounds = sum(row["verify_rounds"] for row in result["designs"] if row["name"] in exact_names(result))
        yield f"- {_title(result)}: exact in every one of {rounds:,} request-rounds are {_listed(exact_names(result))}."
    same = [row["output_is_the_targets"] for result in results for row in result["designs"]]
    if False in same:
        yield "- **Outputs differ from the target's own.**"
    else:
        yield "- Every design put out the target's own text." if all(same) else "- Outputs were not compared."


def _how(result: Result, name: str) -> str:
    o, served = result["options"], result["simulate"]
    chunk = f"chunks of {o['chunk']}" if o["chunk"] else "whole prompts"
    return (
        f"{served['prompts']} prompts of at most {result['prompt_tokens']} tokens ({chunk}), up to {o['max_tokens']} "
        f"tokens of output each, {served['tokens']:,} in all; k={o['k']}, batch {o['batch']}, {o['dtype']} on "
        f"{o['device']}; sources of this package under {len(result['files'])} file names; {result['date']}, commit "
        f"{result['environment'].get('commit', '')}. Kept in `reports/results/{name}`."
    )


def _overall(designs: Sequence[Row]) -> Iterator[str]:
    yield "| design | accept length | against the ideal | verify rounds | as the ideal | output | draft rows a round |"
    yield "| --- | --- | --- | ---: | ---: | --- | ---: |"
    for row in designs:
        rows = f"{row['rows'] / row['verify_rounds']:.0f}" if row["rows"] is not None else "-"
        output = {True: "the target's", False: "**differs**", None: "not compared"}[row["output_is_the_targets"]]
        yield (
            f"| `{row['name']}` | {interval(row['accept_length'])} | {percent_interval(row['change'])} | "
            f"{row['verify_rounds']:,} | {row['rounds_as_ideal'] / row['verify_rounds']:.1%} | {output} | {rows} |"
        )


def _losers(designs: Sequence[Row]) -> list[Row]:
    return [row for row in designs if row["rounds_as_ideal"] != row["verify_rounds"]]


def _depths(designs: Sequence[Row]) -> Iterator[str]:
    count = len(designs[0]["depths"])
    yield "Points of conditional acceptance (draft d+1 right where all before it were), less the ideal's at the same"
    yield "states. First line: the ideal's own rate, at its own states."
    yield ""
    yield "| design | " + " | ".join(f"depth {d}" for d in range(count)) + " |"
    yield "| --- |" + " ---: |" * count
    ideal = next(row for row in designs if row["name"] == "recompute")
    yield "| ideal | " + " | ".join(_percent(d["conditional"]["value"]) for d in ideal["depths"]) + " |"
    for row in _losers(designs):
        yield f"| `{row['name']}` | " + " | ".join(_points(d["change"]) for d in row["depths"]) + " |"


def _positions(designs: Sequence[Row]) -> Iterator[str]:
    bins = max((row["positions"] for row in designs), key=len)
    yield "Accept length less the ideal's at the same states, by the frontier's position."
    yield ""
    yield "| design | " + " | ".join(f"{b['from']}..{b['to']}" for b in bins) + " |"
    yield "| --- |" + " ---: |" * len(bins)
    for row in _losers(designs):
        found = {b["from"]: b for b in row["positions"]}
        cells = [_signed(found[b["from"]]["change"]) if b["from"] in found else "-" for b in bins]
        yield f"| `{row['name']}` | " + " | ".join(cells) + " |"


def _rates(designs: Sequence[Row]) -> Iterator[str]:
    yield "A third of the requests each, by the ideal's accept length: accept length less the ideal's at the same"
    yield "states, and the ideal's."
    yield ""
    rates = [each["rate"] for each in designs[0]["rates"]]
    yield "| design | " + " | ".join(rates) + " |"
    yield "| --- |" + " ---: |" * len(rates)
    for row in _losers(designs):
        cells = [f"{_signed(each['change'])} of {number(each['ideal']['value'])}" for each in row["rates"]]
        yield f"| `{row['name']}` | " + " | ".join(cells) + " |"


def _entries(designs: Sequence[Row]) -> Iterator[str]:
    yield "Entries that the accept lengths above leave wrong, per 1,000 positions and depth, index by index from each"
    yield "design's declaration: `stale` ones consumed a rejected token, `unwritten` ones were never written, `tainted`"
    yield "ones read one of those."
    yield ""
    count = len(designs[0]["depths"])
    yield "| design | state | " + " | ".join(f"depth {d}" for d in range(count)) + " |"
    yield "| --- | --- |" + " ---: |" * count
    for row in _losers(designs):
        for state, values in (row["entries"] or {"per_1000": {}})["per_1000"].items():
            if any(values):
                yield f"| `{row['name']}` | {state} | " + " | ".join(f"{v:.0f}" for v in values) + " |"


def interval(e: Row) -> str:
    """An estimate with its interval: value [low, high]."""
    return f"{number(e['value'])} [{number(e['low'])}, {number(e['high'])}]"


def percent_interval(e: Row) -> str:
    """The same in percent, with signs; 0 where nothing changed in any draw."""
    if e["low"] is None or e["value"] == e["low"] == e["high"] == 0:
        return f"{e['value']:+.1%}" if e["value"] else "0"
    return f"{e['value']:+.1%} [{e['low']:+.1%}, {e['high']:+.1%}]"


def _points(e: Row) -> str:
    return "-" if e["value"] is None else f"{100 * e['value']:+.1f}"


def _signed(e: Row) -> str:
    return "-" if e["value"] is None else f"{e['value']:+.3f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _listed(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return " and ".join([", ".join(quoted[:-1])] * (len(quoted) > 1) + quoted[-1:]) or "none"


def main(arguments: Sequence[str]) -> None:
    """Rewrite the page and its pictures."""
    from frontier_oracle.reports import ab_plots

    *files, folder = map(Path, arguments)
    results = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    (folder / "ab.md").write_text(page(results, [path.name for path in files]), encoding="utf-8")
    designs = next(result["designs"] for result in results if "designs" in result)
    for name, figure in (
        ("accept", ab_plots.accept_figure(designs)),
        ("depth", ab_plots.depth_figure(designs)),
        ("position", ab_plots.position_figure(designs)),
    ):
        figure.savefig(folder / f"ab-{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(sys.argv[1:])
