"""What a drafter design is made of: one field an axis (the design atlas). Data only, no logic: whoever runs a design,
index by index or on tensors, reads it from here and shares nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from frontier_oracle.oracle.spec import HiddenSemantic

# Which positions a depth re-runs in a decode round. F is the frontier before the round, F' = F + a the one after it,
# D = steps - 1, W the conv width.
Rows = Literal[
    "verify",  # F..F+k-1
    "lookback",  # F-D..F+k-1
    "front",  # F-D-(W-1)..F+k-1, of which the first W-1 only warm the conv up: their KV goes to a sacrificial cell
    "frontier",  # F'-k..F'-1
    "last_steps",  # F'-steps..F'-1
    "minimal",  # F'-max(steps, a)..F'-1
    "minimal_in_k",  # the same rows behind padding, k rows in all
    "advancing",  # one row, F'-1+d
    "rebuild",  # the k verify rows F..F'-1 (rejected ones removed), then d+1 rows F'..F'+d
]
Tokens = Literal[
    "shift",  # x[p+d+1], this round's draft beyond F'; what a rejected row is given counts for nothing
    "own_argmax",  # depth 0 x[p+1]; depth d what depth d-1 would draft at this very row
    "unshifted",  # x[p], with the hidden one before
]
Stash = Literal[
    "none",
    "pairs",  # (token x[p+1], target hidden h(p)) of the last positions before F
    "depth0_outputs",  # tokens, and O(0,p) for depth 1 to chain on
]
StashLength = Literal["0", "1", "steps-1", "steps", "k-1", "front"]
ChunkTail = Literal[
    "drafts",  # depth 0 gets the next prompt token, deeper ones read placeholders: this round's drafts
    "sampled",  # every chunk ends on the round's sampled token, as if the prompt ended there
    "lookahead",  # the chunk is given the next ``steps`` prompt tokens
    "none",  # unshifted rows need no token from behind the chunk
]
PrefixPolicy = Literal["tokens", "bigram", "drop_last", "finalized", "successor", "recompute"]


@dataclass(frozen=True)
class Deviation:
    """A declared deviation: an id, and what it does in one line."""

    id: str
    text: str


MID_CHUNK_TAIL = Deviation(
    "mid_chunk_tail", "the last d rows of a non-final prompt chunk read this round's drafts instead of the next tokens"
)
SHORT_PROMPT = Deviation(
    "short_prompt", "while the frontier is below k, positions clamp to 0 but write locations count on from 0"
)
SHORT_CHUNK_AFTER_HIT = Deviation(
    "short_chunk_after_hit", "the stash reaches below the hit boundary with values of the slot's previous owner"
)
DONOR_CONTINUATION = Deviation(
    "donor_continuation", "a prefix hit brings entries that consumed the donor's next tokens, which no key covers"
)
REJECTED_DRAFTS = Deviation(
    "rejected_drafts", "rows before the verify window keep the drafts that a later round rejected: stale for ever"
)
CHUNK_TAIL_SAMPLE = Deviation(
    "chunk_tail_sample", "the last row of a mid-prompt chunk reads the round's sample instead of the next prompt token"
)
FULL_ACCEPT_HOLE = Deviation("full_accept_hole", "position F is never written at any depth when a = k")
HIDDEN_LEFT_BEHIND = Deviation(
    "hidden_left_behind", "rows leave the window while their shifted hidden is still the draft's own"
)
PROMPT_UNSEEN = Deviation("prompt_unseen", "depths >= 1 write one row a round, and on their own draft: holes elsewhere")
HIDDEN_BEFORE_HIT = Deviation(
    "hidden_before_hit", "after a prefix hit of L the first row lacks the hidden h(L-1), which no page holds"
)
OWN_ARGMAX = Deviation("own_argmax", "depths >= 1 read their own row's argmax where committed tokens are known")


@dataclass(frozen=True)
class Design:
    """One drafter design: a point on the axes.

    first_rows, rows: the positions that depth 0 and the deeper ones re-run in a decode round. tokens: what a row
    consumes. hidden: the head semantics it serves, the usual one first (S1). seq_lens: the extent ends with the window,
    or starts at F' and advances by one a step. sample: the row a draft is taken from, the window's last or, gathered
    by the accept length, r*k + a-1. stash, stash_length, stash_validity: what is kept across rounds, for how many
    positions, and who says how many hold: a valid length per slot, the design assuming all do, or the scheduler (a
    prompt's last chunk is never shorter than ``steps``). before_zero: rows at positions below 0 are masked or clamped.
    cells_before_zero: where clamped rows write, on cells that count on from position 0, or all on position 0's.
    chunk_tail: what the last rows of a mid-prompt chunk consume. rerun: a final chunk re-runs rows P-steps..s-1 from
    the stash (S13). prefix_policy: what a prefix-cache page is keyed by (S21). padding: how a padded batch row is
    told (S20). one_layer: every step runs the one draft layer. notes: how the engine does it, where another way would
    give the same entries.
    """

    name: str
    first_rows: Rows
    rows: Rows
    tokens: Tokens = "shift"
    hidden: tuple[HiddenSemantic, ...] = ("chain",)
    seq_lens: Literal["window", "advance"] = "window"
    sample: Literal["last_row", "accept_row"] = "last_row"
    stash: Stash = "none"
    stash_length: StashLength = "0"
    stash_validity: Literal["valid_lens", "assumed", "scheduler"] = "assumed"
    before_zero: Literal["mask", "clamp"] = "mask"
    cells_before_zero: Literal["count_on", "share"] = "count_on"
    chunk_tail: ChunkTail = "drafts"
    rerun: bool = False
    prefix_policy: PrefixPolicy = "tokens"
    padding: Literal["null_page", "pad_slot", "negative_accept"] = "null_page"
    one_layer: bool = False
    notes: tuple[str, ...] = ()
    deviations: tuple[Deviation, ...] = ()
