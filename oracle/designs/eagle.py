"""The chain drafter that EAGLE and DFLASH share, one layer: for contrast."""

from __future__ import annotations

from frontier_oracle.oracle.designs.declaration import CHUNK_TAIL_SAMPLE, Design

# The verify window on target hiddens, then one row a step on the output before it. Seq_lens advance by one a step, the
# first draft is gathered at r*k + a-1. The next verify window overwrites the rows that the steps wrote.
EAGLE_CHAIN = Design(
    name="eagle_chain",
    first_rows="verify",
    rows="advancing",
    hidden=("single",),
    seq_lens="advance",
    sample="accept_row",
    chunk_tail="sampled",
    prefix_policy="bigram",
    padding="pad_slot",
    one_layer=True,
    deviations=(CHUNK_TAIL_SAMPLE,),
)
