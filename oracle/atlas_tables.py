"""The atlas as JSON-ready data, as table rows, and as Markdown."""

from __future__ import annotations

from typing import Any

from frontier_oracle.oracle.atlas import STATES, Atlas, DesignRun

COLUMNS = (
    "design",
    "rows",
    "x bound",
    *STATES,
    "draft mismatch rounds",
    "verify rounds",
    "exact",
    "deviations seen",
)


def as_data(atlas: Atlas) -> dict[str, Any]:
    """{k, steps, prompt, accepts, designs}. accepts is one list of numbers, or a list of such lists where several
    sequences were run; the designs' numbers are then sums over them."""
    single = len(atlas.accepts) == 1
    return {
        "k": atlas.k,
        "steps": atlas.steps,
        "prompt": atlas.prompt,
        "accepts": list(atlas.accepts[0]) if single else [list(sequence) for sequence in atlas.accepts],
        "designs": [_design_data(run) for run in atlas.designs],
    }


def table_rows(atlas: Atlas) -> list[tuple[str, ...]]:
    """One row of text per design, in the order of COLUMNS. "x bound": rows over the lower bound."""
    return [
        (
            run.name,
            str(run.rows),
            f"{run.rows / run.lower_bound_rows:.2f}" if run.lower_bound_rows else "-",
            *(str(run.states[state]) for state in STATES),
            f"{run.draft_mismatch_rounds} of {run.decode_rounds}",
            "-" if run.verify_rounds is None else str(run.verify_rounds),
            "yes" if run.exact else "no",
            ", ".join(run.deviations) or "-",
        )
        for run in atlas.designs
    ]


def as_markdown(atlas: Atlas) -> str:
    """A Markdown table with a line above it that says what was run."""
    lines = [caption(atlas), "", _line(COLUMNS), _line(["---"] + ["---:"] * (len(COLUMNS) - 3) + ["---", "---"])]
    lines += [_line((f"`{name}`", *cells)) for name, *cells in table_rows(atlas)]
    return "\n".join(lines) + "\n"


def caption(atlas: Atlas) -> str:
    """What was run, in a line."""
    if len(atlas.accepts) == 1:
        sequence = atlas.accepts[0]
        accepts = "accepts " + ",".join(map(str, sequence[:32])) + (", ..." if len(sequence) > 32 else "")
    else:
        accepts = f"{len(atlas.accepts)} accept sequences"
    return f"k={atlas.k}, steps={atlas.steps}, prompt {atlas.prompt}, {accepts}"


def _design_data(run: DesignRun) -> dict[str, Any]:
    return {
        "name": run.name,
        "rows": run.rows,
        "lower_bound_rows": run.lower_bound_rows,
        **run.states,
        "draft_mismatch_rounds": run.draft_mismatch_rounds,
        "exact": run.exact,
    }


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"
