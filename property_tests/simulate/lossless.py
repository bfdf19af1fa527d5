"""Speculation must not change the output (S25, FO501): token for token, and in distribution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from frontier_oracle.oracle.rules import Finding
from frontier_oracle.property_tests.simulate.requests import Request

PERMUTATIONS = 1999


def compare_outputs(own: Sequence[Request], run: Sequence[Request]) -> list[Finding]:
    """FO501 for each request whose output is not the target's own; position: the first token that differs. The noise of
    a position is the request's (sampling.py), so sampled outputs must agree too."""
    findings = []
    for want, got in zip(own, run, strict=True):
        if want.output == got.output:
            continue
        pairs = zip(want.output, got.output, strict=False)
        at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(want.output), len(got.output)))
        position = len(want.prompt.tokens) + at
        round_ = next((n for n, r in enumerate(got.rounds) if r.frontier + r.accept >= position), len(got.rounds) - 1)
        detail = {
            "expected": want.output[at] if at < len(want.output) else "the output's end",
            "got": got.output[at] if at < len(got.output) else "the output's end",
            "because": f"output token {at} of request {want.prompt.name} is not the one that the target chooses itself",
        }
        findings.append(Finding("FO501", round_, want.prompt.name, -1, position, detail))
    return findings


def relaxed(logits: Tensor, own: Tensor, candidates: Tensor) -> Tensor:
    """A planted fault: verification takes a draft that is one of the target's two likeliest tokens for its own."""
    out = own.clone()
    near = logits.topk(2, dim=-1).indices
    close = (near[:, :-1] == candidates[:, 1:, None]).any(-1)
    out[:, :-1] = candidates[:, 1:].where(close, own[:, :-1])
    return out


def same_distribution(a: Sequence[tuple[int, ...]], b: Sequence[tuple[int, ...]], seed: int = 0) -> float:
    """p-value of "both samples of outputs come from one distribution": a permutation test on the chi-square statistic
    over whole outputs, exact whatever the counts."""
    names = {name: i for i, name in enumerate(dict.fromkeys([*a, *b]))}
    counts = np.stack([np.bincount([names[x] for x in side], minlength=len(names)) for side in (a, b)])
    pooled = counts.sum(axis=0)
    drawn = np.random.default_rng(seed).multivariate_hypergeometric(
        pooled, len(a), size=PERMUTATIONS, method="marginals"
    )
    seen = _statistic(counts[:1], pooled, len(a))[0]
    return float((1 + (_statistic(drawn, pooled, len(a)) >= seen * (1 - 1e-12)).sum()) / (PERMUTATIONS + 1))


def _statistic(first: NDArray[np.int64], pooled: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Chi-square of the first sample's counts [n, categories] against its share of the pooled ones. [n]"""
    share = size / pooled.sum()
    return (((first - pooled * share) ** 2) / (pooled * share * (1 - share))).sum(axis=1)
