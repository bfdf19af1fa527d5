"""A draft model that shows the logits behind its drafts, and its twin in float64, which drafts what it is told."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, ExtendBatch
from frontier_oracle.reference_impl.model.paged_head import PagedHead
from frontier_oracle.reference_impl.model.weights import Model


class Watch:
    """The last round of one system: logits [steps, max_batch, V] in the system's dtype, tokens [steps, max_batch].

    A round samples ``steps`` times, depth by depth, so a count tells the depths apart. The tensors stay where they are:
    a captured round fills them at each replay. told: whose tokens are drafted in place of the own ones.
    """

    def __init__(self, config: DraftConfig, vocabulary: int, told: Watch | None = None) -> None:
        self.steps, self.told, self.calls = config.spec.steps, told, 0
        shape, device = (self.steps, config.max_batch), config.device
        self.logits = torch.zeros(*shape, vocabulary, dtype=getattr(torch, config.dtype), device=device)
        self.tokens = torch.zeros(shape, dtype=torch.int32, device=device)

    def choose(self, logits: Tensor) -> Tensor:
        """Drafts of one depth. logits [bs, V] -> [bs] int32."""
        depth, bs = self.calls % self.steps, len(logits)
        self.calls += 1
        self.logits[depth, :bs].copy_(logits)
        drafts = logits.argmax(-1).int() if self.told is None else self.told.tokens[depth, :bs].clone()
        self.tokens[depth, :bs].copy_(drafts)
        return drafts


class WatchedHead(PagedHead):
    """A PagedHead whose drafts come out of a Watch."""

    def __init__(self, config: DraftConfig, model: Model, told: Watch | None = None) -> None:
        super().__init__(config, model.chain, model.target)
        self.watch = Watch(config, len(model.target.embedding.weight), told)

    def sample(self, output: Tensor, sample_rows: Tensor) -> Tensor:
        """The Watch's drafts for the sampled rows. [bs] int32."""
        return self.watch.choose(self.logits(output.index_select(0, sample_rows)))


def widened(model: Model) -> Model:
    """The same weights in float64, each value exactly."""
    return Model(model.config, copy.deepcopy(model.target).double(), copy.deepcopy(model.chain).double())


def widened_batch(batch: Any) -> Any:
    """An ExtendBatch or DecodeBatch with its hiddens in float64, each value exactly."""
    assert isinstance(batch, ExtendBatch | DecodeBatch)
    return replace(batch, hidden=batch.hidden.double())
