"""vLLM's two drafters with several layers. Negative slot indices are skipped, which is their padding.

The sources do not say how each keys its prefix pages; the readings here are the next tokens' hash for the first and
dropping the matched block for the second.
"""

from __future__ import annotations

from frontier_oracle.oracle.designs.declaration import PROMPT_UNSEEN, Design

# The max(0, steps-a) rows before F and the a accepted ones, inside a query that is k rows wide. Chunks know the next
# ``steps`` prompt tokens, and the scheduler keeps a prompt's last chunk at least that long.
VLLM_MULTI_MODULE = Design(
    name="vllm_multi_module",
    first_rows="minimal_in_k",
    rows="minimal_in_k",
    stash="pairs",
    stash_length="steps-1",
    stash_validity="scheduler",
    chunk_tail="lookahead",
    prefix_policy="successor",
    padding="pad_slot",
)

# Depth 0 runs the verify window; each deeper layer runs one row at F'-1+d, on the draft and output before it. That is
# not what a layer of its own is trained on, and its cache sees one position a round: the prompt never.
VLLM_STEP3P5 = Design(
    name="vllm_step3p5",
    first_rows="verify",
    rows="advancing",
    seq_lens="advance",
    sample="accept_row",
    chunk_tail="drafts",
    prefix_policy="drop_last",
    padding="pad_slot",
    deviations=(PROMPT_UNSEEN,),
)
