"""A model of a few thousand weights, and prompts for it: what serving is tested on where no trained one is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from frontier_oracle.property_tests.simulate.drafters import resolve
from frontier_oracle.property_tests.simulate.prompts import Prompt
from frontier_oracle.property_tests.simulate.requests import Options
from frontier_oracle.property_tests.simulate.run import DesignRun, Simulation, simulate
from frontier_oracle.reference_impl.model.config import ModelConfig
from frontier_oracle.reference_impl.model.weights import Model, random_model

VOCABULARY = 12
SMALL = ModelConfig(
    vocab_size=VOCABULARY,
    hidden_size=32,
    layers=1,
    heads=2,
    kv_heads=1,
    intermediate_size=48,
    draft_intermediate_size=48,
    windows=(None, 12, None),
)
OPTIONS = Options(k=4, batch=4, max_tokens=20, context=64, chunk=0, page_size=4, eos=-1)


def small_model(seed: int = 0, config: ModelConfig = SMALL, dtype: str = "float64") -> Model:
    """Untrained: its drafts are hardly ever right."""
    return random_model(config, seed, dtype)


def prompts(count: int, length: int, turns: int = 1, seed: int = 0) -> list[Prompt]:
    """Random prompts; the turns of one piece grow."""
    drawn = np.random.default_rng(seed).integers(0, VOCABULARY, (count, length)).tolist()
    ends = [length * (turn + 1) // turns for turn in range(turns)]
    return [Prompt(f"p{i}", t, "drawn", tuple(row[:end])) for i, row in enumerate(drawn) for t, end in enumerate(ends)]


def forced(period: int = 5) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """A verification that lets drafts through by a rule of their ids, so that accept lengths of every size occur. Not
    lossless: it is for what drafters do, not for what they are worth."""

    def verify(logits: Tensor, own: Tensor, candidates: Tensor) -> Tensor:
        out = own.clone()
        lucky = (candidates[:, 1:] + candidates[:, :1] + torch.arange(own.shape[1] - 1)) % period != 0
        out[:, :-1] = torch.where(lucky, candidates[:, 1:], own[:, :-1])
        return out

    return verify


def run(names: Sequence[str], served: Sequence[Prompt], verify: Any = None, **changes: Any) -> Simulation:
    """Serve on the small model."""
    options = replace(OPTIONS, **changes)
    kind = {} if verify is None else {"verify": verify}
    return simulate(small_model(dtype=options.dtype), [resolve(n) for n in names], served, options, **kind)


def accepts(done: DesignRun) -> list[int]:
    """Every accept length of a run."""
    return [v.accept for r in done.requests for v in r.rounds]
