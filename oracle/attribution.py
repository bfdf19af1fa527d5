"""Which of the known deviations a finding is, told from where it happened and from what a design's axes make possible.

What a design declares is not looked at, so one that leaves a deviation out is found by that deviation's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frontier_oracle.oracle.contract import ExtendBatch
from frontier_oracle.oracle.designs import DONOR_CONTINUATION, SHORT_CHUNK_AFTER_HIT, SHORT_PROMPT, Design
from frontier_oracle.oracle.designs.declaration import (
    CHUNK_TAIL_SAMPLE,
    FULL_ACCEPT_HOLE,
    HIDDEN_BEFORE_HIT,
    HIDDEN_LEFT_BEHIND,
    MID_CHUNK_TAIL,
    OWN_ARGMAX,
    PROMPT_UNSEEN,
    REJECTED_DRAFTS,
    Deviation,
)
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.timeline import Round, View

_HOLES = {"last_steps": FULL_ACCEPT_HOLE, "advancing": PROMPT_UNSEEN}
_TAILS = {"drafts": MID_CHUNK_TAIL, "sampled": CHUNK_TAIL_SAMPLE}


def attribute(rounds: Sequence[Round], finding: Finding, design: Design, k: int) -> str:
    """The id of the deviation that a finding of the last of ``rounds`` (all so far) is; its code where none fits."""
    view = next((v for v in rounds[-1].views if v.request.name == finding.request), None)
    found = _deviation(_Case(rounds, finding, design, view, k)) if view is not None else None
    return found.id if found is not None else finding.code


@dataclass(frozen=True)
class _Case:
    rounds: Sequence[Round]
    finding: Finding
    design: Design
    view: View
    k: int

    @property
    def mode(self) -> str:
        return self.rounds[-1].mode

    @property
    def below_hit(self) -> bool:
        return 0 <= self.finding.position < self.view.request.hit

    @property
    def clamped(self) -> bool:
        """Rows at positions below 0 ran at 0."""
        return self.design.before_zero == "clamp" and self.mode == "decode" and self.view.computed < self.k

    @property
    def borrowed(self) -> bool:
        """The stash was taken for valid where it holds what a former owner left."""
        return self.design.stash != "none" and self.design.stash_validity == "assumed" and self.below_hit


def _deviation(case: _Case) -> Deviation | None:
    code, design = case.finding.code, case.design
    if code == "FO202":
        return _HOLES.get(design.rows)
    if code == "FO105":
        return PROMPT_UNSEEN if design.rows == "advancing" else None
    if code == "FO201":
        return _stale(case)
    if code == "FO209":  # the sharer's stash, or a donor rewriting what it published too early
        return SHORT_CHUNK_AFTER_HIT if case.borrowed else DONOR_CONTINUATION
    if code == "FO102" and "got" not in case.finding.detail:  # an entry's, not a row's
        return HIDDEN_LEFT_BEHIND if design.hidden[0] == "shifted" else None
    if case.borrowed and code in ("FO101", "FO102", "FO206", "FO207", "FO208"):
        return SHORT_CHUNK_AFTER_HIT
    if case.clamped and code in ("FO101", "FO102", "FO103", "FO104", "FO107", "FO206"):
        return SHORT_PROMPT
    if code == "FO102":
        return HIDDEN_BEFORE_HIT if design.tokens == "unshifted" else None
    return _wrong_token(case) if code == "FO101" else None


def _wrong_token(case: _Case) -> Deviation | None:
    """A row that consumed another token than it must."""
    if case.design.tokens == "own_argmax" and case.finding.depth > 0:
        return OWN_ARGMAX
    return _TAILS.get(case.design.chunk_tail) if case.mode == "extend" else None


def _stale(case: _Case) -> Deviation | None:
    """An entry whose row was right when it ran: its tokens were drafts, another request's, or a lower depth's."""
    design, detail, request = case.design, case.finding.detail, case.view.request
    known = case.view.tokens
    wrong = [q for q, token in detail["chain"] if 0 <= q < len(known) and int(known[q]) != token]
    written = case.rounds[detail["written"]]
    last = max(q for q, _ in detail["chain"])
    if last < case.finding.position:  # a hole, where a ring of pages has an older row
        return _HOLES.get(design.rows)
    if design.rows == "advancing" and case.finding.depth > 0:
        return PROMPT_UNSEEN
    if case.below_hit and (not wrong or max(wrong) >= request.hit):
        return DONOR_CONTINUATION
    writer = next((v for v in written.views if v.request.name == detail["by"]), None)
    if design.tokens == "own_argmax" and case.finding.depth > 0 and written.index == case.rounds[-1].index:
        return OWN_ARGMAX
    if isinstance(written.batch, ExtendBatch) and writer is not None and not writer.sampled:
        return _TAILS.get(design.chunk_tail)
    if design.rows == "verify":
        return REJECTED_DRAFTS
    return DONOR_CONTINUATION if case.below_hit else None  # what a donor had from a hit of its own
