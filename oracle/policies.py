"""Prefix-cache policies as data (S21): which of a request's pages another one may take over.

Entry (d,p) depends on tokens up to p+d+1. Of n shared tokens a page is exact for the sharer where the last entry on it,
at depth steps-1, consumed only those: the page ends at most at n - steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from frontier_oracle.oracle.spec import Spec


@dataclass(frozen=True)
class PrefixPolicy:
    """successors: how many tokens behind a page its key covers too, None for ``steps`` of them; dropped: matched pages
    (of all groups at once) that are run again all the same; unpublished: trailing positions of a donor whose pages are
    not given out yet, None for ``steps`` - 1, which is how far its next window can still change an entry; tail: rows
    below the hit that are run again, None for ``steps``. Rows are always run again from a page boundary, on pages of
    the sharer's own, since conv taps stand in checkpoints there.
    """

    name: str
    says: str
    successors: int | None = 0
    dropped: int = 0
    unpublished: int | None = 0
    tail: int | None = 0

    def exact(self, spec: Spec) -> bool:
        """Whether every entry that it gives equals what the sharer would have computed."""
        behind = _or_steps(self.successors, spec) + self.dropped * page_unit(spec) + _or_steps(self.tail, spec)
        return behind >= spec.steps

    def hit(self, spec: Spec, shared: int, computed: int, prompt: int) -> int:
        """Positions given to a prompt of ``prompt`` tokens of which ``shared`` are a donor's that has ``computed``."""
        unit = page_unit(spec)
        held_back = spec.steps - 1 if self.unpublished is None else self.unpublished
        limit = min(shared - _or_steps(self.successors, spec), computed - held_back, prompt - 1)
        pages = max(0, limit) // unit - self.dropped
        return max(0, pages * unit - _or_steps(self.tail, spec)) // unit * unit


def page_unit(spec: Spec) -> int:
    """The positions that pages of every cache group end at together."""
    return math.lcm(*(group.page_size for group in spec.groups))


def _or_steps(number: int | None, spec: Spec) -> int:
    return spec.steps if number is None else number


POLICIES: dict[str, PrefixPolicy] = {
    policy.name: policy
    for policy in (
        PrefixPolicy("successor", "a page's key covers the next steps tokens too", successors=None),
        PrefixPolicy("tokens", "a page is keyed by its own tokens and those before, and kept"),
        PrefixPolicy("drop_last", "token keys, and the last matched page is run again", dropped=1),
        PrefixPolicy("bigram", "a page's key covers the next token too, as for one-layer drafters", successors=1),
        PrefixPolicy(
            "finalized", "token keys; a donor's last steps-1 positions are not given out yet", unpublished=None
        ),
        PrefixPolicy("recompute", "token keys, and the last steps rows below the hit are run again", tail=None),
    )
}
