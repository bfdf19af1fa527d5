"""This project's own drafters: exact under every chunking, prefix hit and short prompt."""

from __future__ import annotations

from dataclasses import replace

from frontier_oracle.oracle.designs.declaration import Design

# The k rows that end at the frontier. A row whose source the stash cannot vouch for is masked, a chunk knows the prompt
# tokens that follow it, and the final chunk re-runs the rows that needed a token nobody had.
FRONTIER = Design(
    name="frontier",
    first_rows="frontier",
    rows="frontier",
    hidden=("chain", "target"),
    stash="pairs",
    stash_length="k-1",
    stash_validity="valid_lens",
    chunk_tail="lookahead",
    rerun=True,
    prefix_policy="successor",
)

# The same, with the fewest rows that keep every entry exact when no output is kept across rounds.
MINIMAL = replace(FRONTIER, name="minimal", first_rows="minimal", rows="minimal")
