"""The target's own choice of a token, and what of the drafts it accepts (S25).

Every position of a request has a uniform number of its own, drawn in advance. The target's token at a position is the
inverse of its distribution at that number, whether it is reached one token at a time or within a verify window. A draft
is accepted iff it is that token. For drafts that are single tokens this is rejection sampling: the draft is accepted
with probability p(draft), and a token that replaces it is drawn from the rest, renormalised. And one seed gives one
output, whatever the drafter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from frontier_oracle.oracle.errors import UsageError

# (logits [bs, w, V], the target's tokens [bs, w], candidates [bs, w]) -> the tokens that verification takes for them.
Verify = Callable[[Tensor, Tensor, Tensor], Tensor]


def exact(logits: Tensor, own: Tensor, candidates: Tensor) -> Tensor:
    """The target's own tokens: lossless."""
    return own


@dataclass(frozen=True)
class Sampling:
    """temperature 0 is greedy; top_p: the smallest set of likeliest tokens that reaches it is drawn from."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise UsageError(f"temperature {self.temperature}: expected 0 (greedy) or more")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top-p {self.top_p}: expected a share above 0, at most 1")

    def noise(self, request: int, positions: int) -> NDArray[np.float64]:
        """A request's uniform numbers by position. [positions]"""
        return np.random.default_rng([self.seed, request]).random(positions)

    def tokens(self, logits: Tensor, noise: Tensor) -> Tensor:
        """The target's tokens. logits [n, V], noise [n] float64 -> [n] int64."""
        if self.temperature == 0:
            return logits.argmax(-1)
        mass = self.distribution(logits).cumsum(-1)
        drawn = torch.searchsorted(mass, (noise * mass[:, -1])[:, None], right=True)[:, 0]
        return drawn.clamp(max=logits.shape[-1] - 1)

    def distribution(self, logits: Tensor) -> Tensor:
        """What a token is drawn from. [n, V] -> [n, V] float64, not renormalised after top-p."""
        wide = logits.double()
        # Less the largest first, so that no temperature, however low, divides to infinity.
        p = ((wide - wide.amax(-1, keepdim=True)) / self.temperature).softmax(-1)
        if self.top_p < 1:
            ranked, order = p.sort(dim=-1, descending=True, stable=True)
            before = ranked.cumsum(-1) - ranked
            p = p.masked_fill(torch.zeros_like(p, dtype=torch.bool).scatter(-1, order, before >= self.top_p), 0)
        return p


def accept_lengths(tokens: Tensor, candidates: Tensor, drafted: Tensor) -> Tensor:
    """a: how many tokens a round commits, bonus included. tokens [bs, w], candidates [bs, w] (x[F], then drafts),
    drafted [bs]: candidates that are drafts. -> [bs] int64"""
    j = torch.arange(tokens.shape[1] - 1, device=tokens.device)
    same = (candidates[:, 1:] == tokens[:, :-1]) & (j < drafted[:, None])
    return 1 + same.long().cumprod(-1).sum(-1)
