"""TensorRT-LLM's MTP as it ships ("vanilla")."""

from __future__ import annotations

from frontier_oracle.oracle.designs.declaration import (
    CHUNK_TAIL_SAMPLE,
    DONOR_CONTINUATION,
    FULL_ACCEPT_HOLE,
    HIDDEN_LEFT_BEHIND,
    SHORT_CHUNK_AFTER_HIT,
    Design,
)

# The stash of ``steps`` pairs is updated before drafting and is then the window itself: F'-steps..F'-1. With steps =
# k-1 a full accept steps over position F. Past the frontier a shifted head reads the draft's own hidden, O(d-1,p) (S1).
TENSORRT_LLM_VANILLA = Design(
    name="tensorrt_llm_vanilla",
    first_rows="last_steps",
    rows="last_steps",
    hidden=("shifted",),
    stash="pairs",
    stash_length="steps",
    stash_validity="assumed",
    chunk_tail="sampled",
    prefix_policy="tokens",
    notes=("the stash is updated before drafting, and is then the window itself",),
    deviations=(
        FULL_ACCEPT_HOLE,
        HIDDEN_LEFT_BEHIND,
        CHUNK_TAIL_SAMPLE,
        SHORT_CHUNK_AFTER_HIT,
        DONOR_CONTINUATION,
    ),
)
