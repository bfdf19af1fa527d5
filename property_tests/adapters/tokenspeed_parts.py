"""What TokenSpeed's drafters need around them: the imports of their files, the round's buffers, views and metadata.

Write locations are opaque to a drafter: it asks its cache view for them and hands them to the model. Here they name a
request and a position, ``row * span + position``, and become cells of every cache group when the model runs (S17).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DraftConfig, DraftModel, ForwardInputs
from frontier_oracle.property_tests.adapters.loading import Engine

ENGINE = Engine("tokenspeed", "TOKENSPEED_PATH", "lightseekorg/tokenspeed", "revision f4d8ec6e")
EXECUTION = "tokenspeed.runtime.execution"


def seq_idx_from_cu_seqlens(cu_seqlens: Tensor, total_tokens: int) -> Tensor:
    """The sequence of each packed row. cu_seqlens [B+1] -> [total_tokens] int32."""
    rows = torch.arange(total_tokens, dtype=cu_seqlens.dtype, device=cu_seqlens.device)
    return torch.bucketize(rows, cu_seqlens[1:-1], right=True, out_int32=True)


def argmax(logits: Tensor) -> Tensor:
    """Greedy ids. [bs, V] -> [bs] int32. The probe samples itself, so nothing comes here."""
    return logits.argmax(-1).int()


def nothing(*args: Any) -> None:
    """Stands for what the files import and the rounds never call."""
    raise AssertionError("the engine called what the adapter holds for unused")


@contextmanager
def nvtx_range(name: str, color: str = "") -> Iterator[None]:
    """A profiler's mark, left out."""
    yield


SUPPLIED: dict[str, dict[str, Any]] = {
    "tokenspeed_kernel.ops.conv": {"seq_idx_from_cu_seqlens": seq_idx_from_cu_seqlens},
    "tokenspeed_kernel.ops.sampling": {"argmax": argmax},
    f"{EXECUTION}.context": {"ForwardContext": type("ForwardContext", (SimpleNamespace,), {"gather_ids": None})},
    f"{EXECUTION}.model_runner": {"ModelRunner": object},
    f"{EXECUTION}.forward_batch_info": {
        "CaptureHiddenMode": SimpleNamespace(FULL="full", LAST="last"),
        "ForwardMode": SimpleNamespace(EXTEND="extend", DECODE="decode"),
    },
    "tokenspeed.runtime.utils.nvtx": {"nvtx_range": nvtx_range},
}


@cache
def drafter_module(root: Path, file: str) -> ModuleType:
    """``drafter/<file>.py`` of the engine, and the base class's file that it imports, as they stand."""
    names = [f"{EXECUTION}.drafter.{name}" for name in ("base", file)]
    files = {name: f"{name.replace('.', '/')}.py" for name in names}
    return ENGINE.load(files, SUPPLIED, root)[names[-1]]


@dataclass
class Metadata:
    """A round as a backend's metadata init knows it. query_start_loc [bs+1]; seq_lens [bs]: what the draft hooks
    move; page_table[g] [bs, cols_g]; slots [bs]."""

    query_start_loc: Tensor
    seq_lens: Tensor
    page_table: tuple[Tensor, ...]
    slots: Tensor


class Surroundings:
    """Stands in for a draft model runner, an attention backend and a cache view, all of one round's metadata."""

    def __init__(self, config: DraftConfig, model: DraftModel) -> None:
        self.config, self.injected, self.device = config, model, torch.device(config.device)
        self.span = (2**31 - 1) // config.max_batch  # locations are int32
        self.mapping = SimpleNamespace(attn=SimpleNamespace(dp_size=config.dp_size), world_size=config.dp_size)
        self.model_config = SimpleNamespace(hidden_size=config.hidden_size, dtype=getattr(torch, config.dtype))
        self.model = SimpleNamespace(get_hot_token_id=lambda: None)  # the draft vocabulary is the target's

    def begin(self, metadata: Metadata) -> None:
        """The metadata init of a round."""
        self.metadata = metadata

    # ---- the cache view ---------------------------------------------------------------------------------------------

    def locations(self, request: Tensor, positions: Tensor) -> Tensor:
        """Where a request's positions are written. int32."""
        return (request * self.span + positions).int()

    def out_cache_loc_uniform(self, out: Tensor, cache_start: Tensor, num_tokens: int) -> Tensor:
        """Locations of ``num_tokens`` positions from cache_start [bs] on -> out [bs * num_tokens]."""
        request = torch.arange(len(cache_start), device=self.device)[:, None]
        ahead = torch.arange(num_tokens, device=self.device)
        return out.copy_(self.locations(request, cache_start[:, None] + ahead).flatten())

    def cells(self, out_cache_loc: Tensor) -> tuple[Tensor, ...]:
        """The cells that locations [n] stand for, in every cache group."""
        request, position = out_cache_loc.long() // self.span, out_cache_loc.long() % self.span
        return tuple(
            table[request, position // group.page_size % table.shape[1]] * group.page_size + position % group.page_size
            for table, group in zip(self.metadata.page_table, self.config.spec.groups, strict=True)
        )

    # ---- the attention backend --------------------------------------------------------------------------------------

    def update_draft_forward_metadata(self, frontier: Tensor) -> None:
        """Absolute: attention and conv end at the frontier (S9)."""
        self.metadata.seq_lens = frontier

    # ---- the model runner -------------------------------------------------------------------------------------------

    def run(
        self, depth: int, input_ids: Tensor, positions: Tensor, hidden: Tensor, locs: Tensor, sample: Tensor
    ) -> Any:
        """One call of the injected draft model. Returns (outputs [n, H], tokens [bs] int32)."""
        now = self.metadata
        return self.injected.forward(
            ForwardInputs(
                depth=depth,
                input_ids=input_ids,
                positions=positions,
                hidden=hidden,
                out_cache_loc=self.cells(locs),
                query_start_loc=now.query_start_loc,
                seq_lens=now.seq_lens,
                page_table=now.page_table,
                conv_slots=now.slots,
                sample_rows=sample.int(),
            )
        )
