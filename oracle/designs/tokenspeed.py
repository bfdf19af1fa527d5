"""TokenSpeed's drafter, before its repair and in both repaired forms. Slot 0 and the null page are its padding.

The stash is never reset, so a short chunk after a prefix hit borrows from the slot's previous owner. For lookback the
sources do not say what a row below position 0 does: it is masked here.
"""

from __future__ import annotations

from dataclasses import replace

from frontier_oracle.oracle.designs.declaration import (
    DONOR_CONTINUATION,
    MID_CHUNK_TAIL,
    REJECTED_DRAFTS,
    SHORT_CHUNK_AFTER_HIT,
    SHORT_PROMPT,
    Design,
    Deviation,
)

TOKENSPEED_UNREPAIRED = Design(
    name="tokenspeed_unrepaired",
    first_rows="verify",
    rows="verify",
    sample="accept_row",
    chunk_tail="drafts",
    prefix_policy="tokens",
    deviations=(REJECTED_DRAFTS, MID_CHUNK_TAIL, DONOR_CONTINUATION),
)

# D rows more in front at depths >= 1. Depth 1's are chained on the depth-0 outputs that the stash keeps.
TOKENSPEED_LOOKBACK = Design(
    name="tokenspeed_lookback",
    first_rows="verify",
    rows="lookback",
    sample="accept_row",
    stash="depth0_outputs",
    stash_length="steps-1",
    stash_validity="assumed",
    chunk_tail="drafts",
    prefix_policy="tokens",
    deviations=(MID_CHUNK_TAIL, SHORT_CHUNK_AFTER_HIT, DONOR_CONTINUATION),
)

# The k rows that end at the frontier, none masked: below k positions clamp to 0 while write locations count on.
TOKENSPEED_FRONTIER = Design(
    name="tokenspeed_frontier",
    first_rows="frontier",
    rows="frontier",
    hidden=("chain", "target"),
    stash="pairs",
    stash_length="k-1",
    stash_validity="assumed",
    before_zero="clamp",
    chunk_tail="drafts",
    prefix_policy="tokens",
    deviations=(MID_CHUNK_TAIL, SHORT_PROMPT, SHORT_CHUNK_AFTER_HIT, DONOR_CONTINUATION),
)

# The same drafter where each group's cells come from the backend's hook: it clamps row by row, so that several rows of
# a call write position 0's cell. In row order the last one, which is right, stays; on a GPU nothing says which.
TOKENSPEED_HOOK = replace(
    TOKENSPEED_FRONTIER,
    name="tokenspeed_hook",
    cells_before_zero="share",
    deviations=(
        MID_CHUNK_TAIL,
        Deviation(SHORT_PROMPT.id, "while the frontier is below k, several rows of a call write position 0's cell"),
        SHORT_CHUNK_AFTER_HIT,
        DONOR_CONTINUATION,
    ),
)
