"""What the adapters of kernels share: the draft model's calls, cells of positions, slots."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, ClassVar

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, ExtendBatch, ForwardInputs
from frontier_oracle.oracle.errors import HiddenSemanticUnsupported
from frontier_oracle.property_tests.adapters.interpreted import Interpreted


class KernelDrafter:
    """Base of a contract.System whose window is an engine's kernels, ``self.ops``. On a CPU they are interpreted.

    Raises HiddenSemanticUnsupported for heads that are not chained."""

    capabilities: ClassVar[frozenset[str]] = frozenset({"extend", "adopt", "padding"})

    def __init__(self, config: DraftConfig, model: DraftModel, module: ModuleType, engine: str) -> None:
        if config.spec.hidden != "chain":
            raise HiddenSemanticUnsupported(f"hidden={config.spec.hidden}: this drafter serves chain heads")
        self.config, self.model, self.k, self.steps = config, model, config.spec.k, config.spec.steps
        self.ops: Any = module if config.device.startswith("cuda") else Interpreted(module, engine)
        self.dtype = getattr(torch, config.dtype)

    def call(
        self,
        batch: DecodeBatch | ExtendBatch,
        depth: int,
        ids: Tensor,
        positions: Tensor,
        hidden: Tensor,
        cells: tuple[Tensor, ...],
        starts: Tensor,
        seq_lens: Tensor,
        sample: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """One depth over rows starts[r]..starts[r+1]-1 of each request. Returns (outputs [n, H], tokens [bs] int32)."""
        return self.model.forward(
            ForwardInputs(
                depth=depth,
                input_ids=ids.clone(),  # the engines shift their ids in place
                positions=positions,
                hidden=hidden,
                out_cache_loc=cells,
                query_start_loc=starts,
                seq_lens=seq_lens,
                page_table=batch.page_table,
                conv_slots=batch.req_pool_indices,
                sample_rows=sample.int(),
            )
        )

    def cells(self, batch: DecodeBatch | ExtendBatch, starts: Tensor, positions: Tensor) -> list[Tensor]:
        """Where positions [n] of the packed rows stand in every cache group (S17)."""
        request = torch.arange(len(starts) - 1, device=starts.device)
        request = request.repeat_interleave(starts[1:] - starts[:-1], output_size=len(positions))
        groups = zip(batch.page_table, self.config.spec.groups, strict=True)
        return [
            table[request, positions // group.page_size % table.shape[1]] * group.page_size
            + positions % group.page_size
            for table, group in groups
        ]

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        """A prefix hit: conv taps are restored; what the drafter keeps for the slot stays as it is."""
        self.model.load_conv_state(slot, pages[(length - 1) // self.config.spec.groups[0].page_size], length)

    def release(self, slot: int) -> None:
        """The engines tell their drafters nothing."""


def chunk_rows(batch: ExtendBatch) -> tuple[Tensor, Tensor, Tensor]:
    """(lengths [bs] int32, starts [bs+1] int32, positions [N] int64) of a batch of prompt chunks."""
    device = batch.input_ids.device
    lengths = torch.tensor(batch.extend_lens, dtype=torch.int32, device=device)
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int()
    before = torch.tensor(batch.prefix_lens, device=device) - starts[:-1]
    positions = torch.arange(len(batch.input_ids), device=device) + before.repeat_interleave(lengths)
    return lengths, starts, positions
