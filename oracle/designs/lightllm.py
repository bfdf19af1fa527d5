"""LightLLM's MTP ("vanilla"): the verify window, each row of a deeper depth on its own argmax."""

from __future__ import annotations

from frontier_oracle.oracle.designs.declaration import (
    CHUNK_TAIL_SAMPLE,
    DONOR_CONTINUATION,
    OWN_ARGMAX,
    REJECTED_DRAFTS,
    Design,
)

# Right at the accept row, where the argmax is the draft; elsewhere, the prompt included, it need not be what was
# committed. The tail of a chunk is taken as in SGLang, of which the sources say nothing.
LIGHTLLM_VANILLA = Design(
    name="lightllm_vanilla",
    first_rows="verify",
    rows="verify",
    tokens="own_argmax",
    sample="accept_row",
    chunk_tail="sampled",
    prefix_policy="tokens",
    deviations=(OWN_ARGMAX, REJECTED_DRAFTS, CHUNK_TAIL_SAMPLE, DONOR_CONTINUATION),
)
