"""Two systems on the same rounds: whether rounding alone tells their drafts apart, or their books do.

Each has a twin in float64: the same system, batches and weights, whose drafts are forced to those of its original. What
a drafter computes is a function of the committed tokens and the round's own drafts (S3), so that where its books are
right every twin has the same logits, up to the first depth at which the originals drafted differently. How far an
original's logits are from its twin's is its rounding error, measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Protocol

import torch
from torch import Tensor

from frontier_oracle.property_tests.simulate.watch import Watch

# Twins' logits agree to this, relative to the largest: float64 rounds at 1e-16, several layers at some 1e-14.
BOOKS = 1e-9
# An error this many times the largest that the other system shows in the whole run is no rounding.
BEYOND = 2.0
KEPT = 50


class Watched(Protocol):
    """One system's last round: its own, and its float64 twin's."""

    @property
    def watch(self) -> Watch: ...

    @property
    def twin(self) -> Watch: ...


@dataclass(frozen=True)
class Difference:
    """A request's round in which the drafts differ. depth: the first that does; tokens: the leader's draft there and
    the other's; margin: by how much float64 tells the two apart; error: what rounding did to them, summed over both
    systems' logits of both; top_two: float64 ranks no other token above either; books: distance of the twins' logits
    up to there, relative to the largest; beyond: an error of this round is no rounding."""

    round: int
    slot: int
    depth: int
    tokens: tuple[int, int]
    margin: float
    error: float
    top_two: bool
    books: float
    beyond: bool = False

    @property
    def tie(self) -> bool:
        """Books agree, and the rounding that was measured spans what lies between the two tokens."""
        return self.books <= BOOKS and self.margin <= self.error and not self.beyond


@dataclass
class Tally:
    """One system against the leader. A value a request-round: books: distance of the twins; errors, leading: the
    largest rounding error of the round, relative to the largest logit, of the system and of the leader."""

    name: str
    rounds: int = 0
    books: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    leading: list[float] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    found: list[Difference] = field(default_factory=list)

    def add(
        self, leader: Watched, own: Watched, drafts: tuple[list[list[int]], list[list[int]]], slots: Sequence[int]
    ) -> None:
        """One decode round. drafts: the leader's and the system's, steps a request; slots: of the requests."""
        bs = len(slots)
        apart = _apart(leader, own, bs).tolist()
        self.errors += _errors(own, bs).tolist()
        self.leading += _errors(leader, bs).tolist()
        for row, (theirs, mine) in enumerate(zip(*drafts, strict=True)):
            if theirs != mine:
                depth = next(d for d, (a, b) in enumerate(zip(theirs, mine, strict=True)) if a != b)
                self.at.append(len(self.books) + row)
                pair = (theirs[depth], mine[depth])
                self.found.append(_weigh(leader, own, row, depth, pair, self.rounds, slots[row], apart[row]))
        self.books += apart
        self.rounds += 1

    @property
    def beyond(self) -> list[bool]:
        """Request-rounds in which one of the two shows an error far above any of the other's."""
        most = (BEYOND * max(self.leading, default=0.0), BEYOND * max(self.errors, default=0.0))
        return [not (e <= most[0] and o <= most[1]) for e, o in zip(self.errors, self.leading, strict=True)]

    @property
    def differences(self) -> list[Difference]:
        """Every request-round in which the drafts differ."""
        beyond = self.beyond
        return [Difference(**{**vars(d), "beyond": beyond[at]}) for d, at in zip(self.found, self.at, strict=True)]

    def as_data(self) -> dict[str, Any]:
        """What a result file keeps. faults: request-rounds whose twins disagree, whose error is no rounding, or whose
        drafts differ by more than a tie."""
        differences, beyond, apart = self.differences, self.beyond, [not b <= BOOKS for b in self.books]
        untied = {at for d, at in zip(differences, self.at, strict=True) if not d.tie}
        return {
            "name": self.name,
            "request_rounds": len(self.books),
            "differing": len(differences),
            "ties": sum(d.tie for d in differences),
            "top_two": sum(d.top_two for d in differences),
            "faults": len(untied | {i for i, (a, b) in enumerate(zip(apart, beyond, strict=True)) if a or b}),
            "books_apart": sum(apart),
            "beyond_rounding": sum(beyond),
            "largest_books_distance": max(self.books, default=None),
            "largest_margin": max((d.margin for d in differences), default=None),
            "largest_margin_of_error": max((d.margin / d.error for d in differences if d.error), default=None),
            "median_error": median(self.errors) if self.errors else None,
            "largest_error": max(self.errors, default=None),
            "differences": [asdict(d) | {"tie": d.tie} for d in differences[:KEPT]],
        }


def _apart(leader: Watched, own: Watched, bs: int) -> Tensor:
    """Distance of the twins' logits, relative to the largest, over the depths that were given the same drafts. [bs]"""
    same = (leader.watch.tokens[:, :bs] == own.watch.tokens[:, :bs]).cumprod(0)
    given = torch.cat([torch.ones_like(same[:1]), same[:-1]]).bool()
    theirs, mine = leader.twin.logits[:, :bs], own.twin.logits[:, :bs]
    distance = (theirs - mine).abs().amax(-1) / theirs.abs().amax(-1)
    return torch.where(given, distance, 0).amax(0)


def _errors(of: Watched, bs: int) -> Tensor:
    """Largest rounding error of a round, relative to the largest logit. [bs]"""
    exact = of.twin.logits[:, :bs]
    return ((of.watch.logits[:, :bs].double() - exact).abs().amax(-1) / exact.abs().amax(-1)).amax(0)


def _weigh(
    leader: Watched, own: Watched, row: int, depth: int, tokens: tuple[int, int], number: int, slot: int, apart: float
) -> Difference:
    both = list(tokens)
    exact = leader.twin.logits[depth, row]
    error = sum(
        float((each.watch.logits[depth, row, both].double() - each.twin.logits[depth, row, both]).abs().sum())
        for each in (leader, own)
    )
    margin = float((exact[both[0]] - exact[both[1]]).abs())
    above = int((exact > exact[both].min()).sum())
    return Difference(number, slot, depth, tokens, margin, error, above <= 1, apart)
