"""Two systems on the same rounds: whether they draft the same, and where not, by how little the logits decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, ExtendBatch, ForwardInputs
from frontier_oracle.property_tests.shield import Factory
from frontier_oracle.property_tests.simulate.drafters import Named, Rows
from frontier_oracle.reference_impl.model.paged_head import PagedHead

TIE_ULPS = 8.0


@dataclass(frozen=True)
class Difference:
    """A request's round in which the drafts differ. depth: the first that does; margin: how much more the second
    system's logits give to its own draft than to the first's; ulps: that in units in the last place of the logit, in
    the run's dtype; second_best: whether the first's draft is the runner-up there."""

    round: int
    slot: int
    depth: int
    margin: float
    ulps: float
    second_best: bool

    @property
    def tie(self) -> bool:
        """Two tokens that rounding alone tells apart."""
        return self.second_best and self.ulps <= TIE_ULPS


@dataclass
class Pair:
    """simulate.drafters.Drafter: the first system's drafts are used, the second's compared. Each has a model and
    caches of its own, and is given the same batches. The second must call its model anew in every round."""

    first: Any
    second: Any
    watched: Watched
    dtype: torch.dtype
    plain: bool = False
    recomputes: bool = False
    last_chunk_at_least: int = 0
    rounds: int = 0
    request_rounds: int = 0
    differences: list[Difference] = field(default_factory=list)

    def extend(self, batch: ExtendBatch) -> Rows:
        self.second.extend(batch)
        returned: Rows = self.first.extend(batch).tolist()
        return returned

    def decode(self, batch: DecodeBatch) -> Rows:
        self.watched.logits.clear()
        theirs = self.second.decode(batch).tolist()
        mine: Rows = self.first.decode(batch).tolist()
        for row, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            if a != b:
                depth = next(d for d, (x, y) in enumerate(zip(a[1:], b[1:], strict=True)) if x != y)
                slot = int(batch.req_pool_indices[row])
                self.differences.append(self._weigh(slot, depth, a[1 + depth], self.watched.logits[depth][row]))
        self.rounds += 1
        self.request_rounds += len(mine)
        return mine

    def _weigh(self, slot: int, depth: int, draft: int, logits: Tensor) -> Difference:
        best = logits.topk(2)
        top = float(best.values[0])
        margin = top - float(logits[draft])
        ulp = torch.finfo(self.dtype).eps * 2.0 ** math.floor(math.log2(max(abs(top), 1e-30)))
        return Difference(self.rounds, slot, depth, margin, margin / ulp, draft == int(best.indices[1]))

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        self.first.adopt(slot, pages, length)
        self.second.adopt(slot, pages, length)

    def release(self, slot: int) -> None:
        self.first.release(slot)
        self.second.release(slot)

    def as_data(self) -> dict[str, Any]:
        """What a result file keeps."""
        return {
            "rounds": self.rounds,
            "request_rounds": self.request_rounds,
            "differing": len(self.differences),
            "ties": sum(d.tie for d in self.differences),
            "tie_ulps": TIE_ULPS,
            "differences": [asdict(d) for d in self.differences],
        }


class Watched:
    """A PagedHead that keeps each call's logits of the sampled rows, [bs, V] a depth."""

    def __init__(self, head: PagedHead) -> None:
        self._head = head
        self.logits: list[Tensor] = []
        self.load_conv_state = head.load_conv_state

    def forward(self, inputs: ForwardInputs) -> tuple[Tensor, Tensor]:
        output, tokens = self._head.forward(inputs)
        self._keep(inputs, output)
        return output, tokens

    def forward_into(self, inputs: ForwardInputs, draft: Tensor) -> Tensor:
        output = self._head.forward_into(inputs, draft)
        self._keep(inputs, output)
        return output

    def _keep(self, inputs: ForwardInputs, output: Tensor) -> None:
        self.logits.append(self._head.logits(output.index_select(0, inputs.sample_rows.long())).float())


@dataclass(frozen=True)
class PairOf(Named):
    """Makes a Pair: ``factory`` of the first system, ``against`` of the second."""

    against: Factory | None = None

    def make(self, config: DraftConfig, model: Any) -> Pair:
        assert self.factory is not None and self.against is not None
        watched = Watched(PagedHead(config, model.chain, model.target))
        first, second = self.factory(config, model), self.against(config, watched)
        return Pair(first, second, watched, getattr(torch, config.dtype))
