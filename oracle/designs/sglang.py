"""SGLang's multi-layer drafter, as it ships and with its boundary fix. Prefix pages are keyed by token pairs."""

from __future__ import annotations

from dataclasses import replace

from frontier_oracle.oracle.designs.declaration import CHUNK_TAIL_SAMPLE, DONOR_CONTINUATION, REJECTED_DRAFTS, Design

# Every depth runs the verify window. Its ids are rotated left once a depth, the draft going in at the accept row, so
# rows up to that one consume x[p+d+1] and the rest is garbage. Every chunk ends on the round's sample.
SGLANG_DEFAULT = Design(
    name="sglang_default",
    first_rows="verify",
    rows="verify",
    hidden=("chain", "target"),
    sample="accept_row",
    chunk_tail="sampled",
    prefix_policy="bigram",
    padding="pad_slot",
    notes=("ids are rotated left once a depth, and the draft goes in at the accept row",),
    deviations=(REJECTED_DRAFTS, CHUNK_TAIL_SAMPLE, DONOR_CONTINUATION),
)

# A front of steps-1 rows before the window, at every depth, from a stash of (token, target hidden) with valid lengths.
# W-1 rows before that only warm the conv up: their KV goes to a sacrificial slot, so here they store nothing.
SGLANG_BOUNDARY_FIX = replace(
    SGLANG_DEFAULT,
    name="sglang_boundary_fix",
    first_rows="front",
    rows="front",
    hidden=("chain",),
    stash="pairs",
    stash_length="front",
    stash_validity="valid_lens",
    notes=(
        "ids are rotated left once a depth, and the draft goes in at the accept row",
        "the KV of the W-1 warm-up rows goes to a sacrificial slot: here they store nothing",
    ),
    deviations=(CHUNK_TAIL_SAMPLE, DONOR_CONTINUATION),
)
