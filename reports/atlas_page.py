"""docs/atlas.md: every design explained from its declaration, beside what it leaves behind. ``python -m`` rewrites the
page and its pictures in the folder it is given."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from frontier_oracle.oracle.atlas import Atlas, atlas, exhaustive
from frontier_oracle.oracle.atlas_tables import as_markdown
from frontier_oracle.oracle.designs import DESIGNS, Design

SHOWN = ((1, 1, 1, 1), (4, 4, 4, 4), (1, 4, 2, 1))

_ROWS = {
    "verify": "the verify window F..F+k-1",
    "lookback": "the verify window and D = steps-1 rows in front of it, F-D..F+k-1",
    "front": "the verify window, D = steps-1 rows in front of it, and W-1 more that only warm the conv up",
    "frontier": "the k rows that end at the new frontier, F'-k..F'-1",
    "last_steps": "the `steps` rows that end at the new frontier, F'-steps..F'-1",
    "minimal": "the max(steps, a) rows that end at the new frontier",
    "minimal_in_k": "the max(steps, a) rows that end at the new frontier, behind padding that makes them k",
    "advancing": "one row at F'-1+d",
    "rebuild": "the verify rows F..F'-1 (rejected ones removed), then d+1 rows F'..F'+d",
}
_TOKENS = {
    "shift": "x[p+d+1], this round's draft beyond F'",
    "own_argmax": "x[p+1] at depth 0, then what the depth before would draft at the same row",
    "unshifted": "x[p]",
}
_HIDDEN = {
    "chain": "the output of the depth before, O(d-1,p)",
    "target": "the target's h(p) at every depth",
    "shifted": "the target's h(p+d), past the frontier O(d-1,p)",
    "previous": "the target's h(p-1)",
    "single": "h(p), and for a later step the output of the row before",
}
_STASH = {
    "none": "nothing",
    "pairs": "(token, target hidden) pairs",
    "depth0_outputs": "tokens and depth-0 outputs",
}
_LENGTH = {
    "1": "1 position",
    "steps-1": "steps-1 positions",
    "steps": "`steps` positions",
    "k-1": "k-1 positions",
    "front": "steps-1 + W-1 positions",
}
_VALIDITY = {
    "valid_lens": "with a valid length per slot",
    "assumed": "all of them assumed to hold",
    "scheduler": "all of them held, since the scheduler keeps last chunks at least `steps` long",
}
_TAIL = {
    "drafts": "depth 0 is given the next prompt token, deeper rows read this round's drafts",
    "sampled": "the last row reads the round's sample, deeper rows its drafts",
    "lookahead": "the chunk is given the next `steps` prompt tokens",
    "none": "no row needs a token from behind its chunk",
}
_PREFIX = {
    "tokens": "pages keyed by their own tokens",
    "bigram": "pages keyed by token pairs",
    "drop_last": "the last matched block is dropped",
    "finalized": "only blocks whose successors are final are published",
    "successor": "pages keyed by their tokens and the next `steps`",
    "recompute": "the tail of a hit is computed again",
}
_PADDING = {
    "null_page": "slot 0 and the null page",
    "pad_slot": "slot indices that stores skip",
    "negative_accept": "an accept length of -1",
}


def page() -> str:
    """The whole page as Markdown."""
    parts = [_HEAD, "## What each leaves behind\n", _TABLES_NOTE]
    parts += [as_markdown(table) for table in shown()]
    parts += [_PICTURES, "## Over all accept sequences of four rounds\n", _sweep(), "## The designs\n"]
    parts += [_section(design) for design in DESIGNS.values()]
    return "\n".join(parts)


def shown() -> list[Atlas]:
    """The runs of the page: k=4, a prompt of 12 in one chunk."""
    return [atlas([accepts]) for accepts in SHOWN]


def describe(design: Design) -> list[tuple[str, str]]:
    """A design's declaration in words, axis by axis."""
    rows = _ROWS[design.first_rows]
    if design.rows != design.first_rows:
        rows = f"depth 0 {rows}; deeper ones {_ROWS[design.rows]}"
    stash = _STASH[design.stash]
    if design.stash != "none":
        stash += f" of the last {_LENGTH[design.stash_length]}, {_VALIDITY[design.stash_validity]}"
    axes = [
        ("rows in a decode round", rows),
        ("token a row consumes", _TOKENS[design.tokens]),
        ("hidden it consumes", " or ".join(_HIDDEN[semantic] for semantic in design.hidden)),
        ("position", "advancing with d" if design.rows == "advancing" else "fixed at p"),
        ("seq_lens", "advance by one a step" if design.seq_lens == "advance" else "end with the window"),
        ("draft taken from", "row r*k + a-1" if design.sample == "accept_row" else "the window's last row"),
        ("stash", stash),
        ("rows below position 0", "clamped to 0" if design.before_zero == "clamp" else "masked"),
        ("chunk boundary", _TAIL[design.chunk_tail] + ("; final chunks re-run rows" if design.rerun else "")),
        ("prefix cache", _PREFIX[design.prefix_policy]),
        ("padding", _PADDING[design.padding]),
    ]
    axes += [("layers", "one, for every step")] if design.one_layer else []
    return axes + ([("in the engine", "; ".join(design.notes))] if design.notes else [])


def write(folder: Path) -> list[Path]:
    """Write the page and its pictures into ``folder``; returns what was written."""
    from frontier_oracle.reports.atlas_plots import as_svg, heat_map, rate_chart, rated

    texts = {
        "atlas.md": page(),
        "atlas-states.svg": as_svg(heat_map(shown())),
        "atlas-rates.svg": as_svg(rate_chart(rated())),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def _section(design: Design) -> str:
    lines = [f"### `{design.name}`\n"]
    lines += [f"- {axis}: {words}" for axis, words in describe(design)]
    if design.deviations:
        lines += ["", "Known to deviate:\n"]
        lines += [f"- `{deviation.id}`: {deviation.text}" for deviation in design.deviations]
    return "\n".join(lines) + "\n"


def _sweep() -> str:
    """Entries in a bad state, summed over all accept sequences of 4 rounds, per k."""
    tables = {k: atlas(exhaustive(k, 0, 4), k=k) for k in (3, 4, 5)}
    lines = [_SWEEP_NOTE, "| design | " + " | ".join(f"k={k} ({k**4})" for k in tables) + " |"]
    lines.append("| --- |" + " --- |" * len(tables))
    for name in DESIGNS:
        cells = [_bad_words(table, name) for table in tables.values()]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _bad_words(table: Atlas, name: str) -> str:
    run = table.design(name)
    bad = [f"{count} {state}" for state, count in run.states.items() if count]
    return ", ".join(bad) if bad else "exact" if run.exact else f"{run.draft_mismatch_rounds} rounds differ"


_HEAD = """# The design atlas

How serving engines draft with several MTP heads, one declaration each (`oracle/designs/`), under one truth: the drafter
that recomputes everything from scratch. F is the frontier before a round, a its accept length, F' = F + a the frontier
after it; E(d,p) is what depth d keeps at position p. Each design is judged against the ideal of its own head.

    frontier-oracle atlas --accepts 1,4,2,1
    frontier-oracle atlas --exhaustive 4 --k 5 --format json

`rows` counts the draft rows of the decode rounds, masked ones included (rounds with the given accept lengths); `x
bound` is that over the fewest rows that keep every entry exact, max(d+1, a) at depth d. States are counted over
positions p < F after the last round: **stale** entries consumed a token that was rejected later, **unwritten** ones
were never written, **wrong** ones got a hidden that is not theirs; **tainted** ones did nothing wrong themselves and
read one of the others; **foreign** ones belong to another request, which one request alone never shows.

`verify rounds` are no input: the target has an output of its own, the one on which the ideal drafter accepts just the
given lengths, and a design's drafts are compared with it. A design that drafts as the ideal does needs the ideal's
rounds; one with wrong drafts has them rejected and needs more. Where nothing is accepted anyway wrong drafts cost
nothing. `deviations seen` are those of the declared ones that these runs show.

Lookback and frontier: equal drafts and equal verify rounds (S11, S25) hold for one-shot prompts. In chunks,
`tokenspeed_lookback` and the published `tokenspeed_frontier` both read drafts where the prompt goes on (SEMANTICS
section 9), and below k tokens the published frontier clamps its positions; `frontier` and `minimal` draft as the ideal
does under every chunking and from one token on.

What the designs are was read from public code in late 2026. Where that leaves room, the comments in `oracle/designs/`
say which reading was taken.

This page is generated: `python -m frontier_oracle.reports.atlas_page docs`.
"""

_TABLES_NOTE = "One request, its prompt in one chunk.\n"

_PICTURES = """The same three runs, entry by entry (the line marks the end of the prompt):

![Depth by position for every design, coloured by state](atlas-states.svg)

What is left behind as drafts are accepted more or less often (48 rounds, 16 requests a rate):

![Entries left stale, unwritten or wrong against the accept rate](atlas-rates.svg)

A verify window leaves most behind when drafts are rejected, since the rows that held them are not run again. Rows that
end at the frontier with fewer than k of them fail the other way round: they step over position F when all is accepted.
"""

_SWEEP_NOTE = "Entries after the last round, summed over every sequence; prompt 12 in one chunk.\n"


def main(arguments: Sequence[str]) -> None:
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        sys.exit("usage: python -m frontier_oracle.reports.atlas_page FOLDER")
    for path in write(Path(arguments[0])):
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
