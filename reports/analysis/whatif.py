"""What if: the accept lengths of this input through every drafter design of the atlas.

How many entries of the draft cache a design would have left stale or unwritten, and how many rows it would have run
against the fewest that keep every entry exact, depends on the accept lengths alone, so real ones can be replayed.
"""

from __future__ import annotations

import numpy as np

from frontier_oracle.oracle.atlas import Accepts, atlas
from frontier_oracle.reports.analysis.basis import Basis
from frontier_oracle.reports.canonical import NULL32, Trace
from frontier_oracle.reports.table import Cell, Column, Table, missing

SAMPLE_REQUESTS = 24
SAMPLE_ROUNDS = 32
MAX_WIDTH = 16
"""Widest verification that is replayed: the widest that the designs' rules are checked for."""

_COLUMNS = [
    Column("design"),
    Column("stale per 1,000 tokens", "number", "entries that hold a rejected draft for ever"),
    Column("unwritten per 1,000 tokens", "number", "entries that were never written"),
    Column("otherwise wrong", "number", "wrong, tainted or foreign entries per 1,000 tokens"),
    Column("rows per round", "number", "draft rows run per verify round"),
    Column("rows over the lower bound", "number", "rows run / the fewest that keep every entry exact"),
    Column("rounds with other drafts", "percent", "rounds whose drafts are not those of an exact cache"),
    Column("exact"),
    Column("deviations declared"),
]


def whatif_table(trace: Trace, basis: Basis | None) -> Table:
    """One row per design, over a stated sample of requests. Needs ordered rounds of known length."""
    title = "What if: these accept lengths through every drafter design"
    if basis is None or basis.values is None:
        return missing("whatif", title, "needs ordered rounds; a histogram is not shuffled into a made-up order")
    longest = int(basis.values.max())
    width = max(trace.header.k_verify_width or 0, longest)
    if longest < 2:
        return missing("whatif", title, "no draft was ever accepted")
    if width > MAX_WIDTH:
        return missing("whatif", title, f"rounds verify up to {width} tokens, designs are replayed up to {MAX_WIDTH}")
    sample = _sample(trace, basis)
    if not sample:
        return missing("whatif", title, "no request has a whole sequence of accept lengths")
    tokens = sum(map(sum, sample))
    result = atlas(sample, k=width)
    rows: list[list[Cell]] = []
    for run in result.designs:
        per = {state: 1000 * count / tokens for state, count in run.states.items()}
        other = sum(count for state, count in per.items() if state not in ("stale", "unwritten"))
        ratio = run.rows / run.lower_bound_rows if run.lower_bound_rows else None
        rows.append(
            [
                run.name, per["stale"], per["unwritten"], other, run.rows / run.decode_rounds, ratio,
                run.draft_mismatch_rounds / run.decode_rounds, run.exact, ", ".join(run.deviations),
            ]
        )  # fmt: skip
    rounds = sum(map(len, sample))
    note = (
        f"Sample: the first {SAMPLE_ROUNDS} rounds at most of {len(sample)} of {trace.n_units} requests, evenly spread "
        f"in the input: {rounds} of {trace.n_rounds} rounds, {tokens} tokens. Verify width {width}"
        f"{'' if trace.header.k_verify_width else ' (the longest round seen)'}, {width - 1} draft depths, chains, "
        f"a prompt of {result.prompt} tokens; states after the last round. On {basis.what}."
    )
    if trace.header.tree:
        note += " These are lengths of tree drafts: a chain drafter would have had other ones."
    return Table("whatif", title, _COLUMNS, rows, note)


def _sample(trace: Trace, basis: Basis) -> list[Accepts]:
    """Accept lengths of requests spread evenly over the input, cut to their first rounds."""
    assert basis.values is not None
    lengths = np.diff(trace.starts)
    units = np.flatnonzero(lengths > 0)
    picked = units[np.unique(np.linspace(0, len(units) - 1, min(SAMPLE_REQUESTS, len(units))).astype(int))]
    sample = []
    for u in picked.tolist():
        start = int(trace.starts[u])
        part = basis.values[start : start + min(SAMPLE_ROUNDS, int(lengths[u]))]
        if part.min() >= 1 and part.min() != NULL32:
            sample.append(tuple(part.tolist()))
    return sample
