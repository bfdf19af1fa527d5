"""llama.cpp's MTP: rows are not shifted, so nothing they consume can be rejected later."""

from __future__ import annotations

from frontier_oracle.oracle.designs.declaration import HIDDEN_BEFORE_HIT, Design

# Prompt and verify rows run through every head on x[p] and h(p-1), for which one hidden is stashed; rejected rows are
# removed from the cache. Head i then rebuilds i+1 rows: F' on x[F'], the next ones each on a draft and on the output
# that it was sampled from. Draft d+1 comes from row F'+d. What the first row after a prefix hit takes for its hidden
# the sources do not say: zero here.
LLAMA_CPP = Design(
    name="llama_cpp",
    first_rows="rebuild",
    rows="rebuild",
    tokens="unshifted",
    hidden=("previous",),
    stash="pairs",
    stash_length="1",
    stash_validity="valid_lens",
    chunk_tail="none",
    prefix_policy="tokens",
    padding="pad_slot",
    deviations=(HIDDEN_BEFORE_HIT,),
)
