"""Drafter designs as data: what each does, rule by rule, and where it is known to deviate (PEERS: one point each)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
    "donor_continuation", "pages keyed by their own tokens bring entries that consumed the donor's next tokens"
)


@dataclass(frozen=True)
class Design:
    """One drafter design.

    rows: which positions a depth re-runs in a decode round; before_zero: rows at positions below 0 are masked or
    clamped; stash_validity: a valid length per slot, or all k-1 entries assumed; chunk_tail: what the last rows of a
    mid-prompt chunk consume (the next prompt tokens, or the round's drafts); rerun: the final chunk re-runs rows
    P-steps..s-1 from the stash (S13); prefix_policy: what a prefix-cache page is keyed by (S21).
    """

    name: str
    rows: Literal["frontier"]
    before_zero: Literal["mask", "clamp"]
    stash_validity: Literal["valid_lens", "assumed"]
    chunk_tail: Literal["lookahead", "drafts"]
    rerun: bool
    prefix_policy: Literal["successor", "tokens"]
    deviations: tuple[Deviation, ...] = ()


FRONTIER = Design(
    name="frontier",
    rows="frontier",
    before_zero="mask",
    stash_validity="valid_lens",
    chunk_tail="lookahead",
    rerun=True,
    prefix_policy="successor",
)

TOKENSPEED_FRONTIER = Design(
    name="tokenspeed_frontier",
    rows="frontier",
    before_zero="clamp",
    stash_validity="assumed",
    chunk_tail="drafts",
    rerun=False,
    prefix_policy="tokens",
    deviations=(MID_CHUNK_TAIL, SHORT_PROMPT, SHORT_CHUNK_AFTER_HIT, DONOR_CONTINUATION),
)

DESIGNS = {design.name: design for design in (FRONTIER, TOKENSPEED_FRONTIER)}
