"""Random calls of the draft model, most of them of a kind that no correct system makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from frontier_oracle.oracle.contract import DraftConfig, ForwardInputs
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.convert import channels_of

MAX_POSITIONS, SLOTS, BATCH = 24, 5, 4


def configured(spec: Spec, hidden_size: int = 8) -> DraftConfig:
    """A few slots, each with pages of its own in every group, and the null page."""
    cols = tuple(g.cols(MAX_POSITIONS, spec.k) for g in spec.groups)
    pages = tuple(1 + SLOTS * c for c in cols)
    return DraftConfig(spec, SLOTS, BATCH, pages, cols, hidden_size=hidden_size, dtype="float32")


def random_call(config: DraftConfig, rng: np.random.Generator, depth: int) -> dict[str, Any]:
    """Ragged, with negative extents, wrapped rings, shared pages and slots, cells named twice, masked rows."""
    spec, bs = config.spec, int(rng.integers(1, BATCH + 1))
    lens = rng.integers(0, 9, bs)
    starts = np.concatenate([[0], np.cumsum(lens)])
    n = max(int(starts[-1]), 1)
    starts[-1] = n
    sizes = [g.page_size for g in spec.groups]
    masked = rng.random(n) < 0.25
    locs = [rng.integers(0, pages * size, n) for pages, size in zip(config.num_pages, sizes, strict=True)]
    locs = [np.where(masked, rng.integers(0, size, n), loc) for loc, size in zip(locs, sizes, strict=True)]
    return {
        "depth": depth,
        "input_ids": rng.integers(-1, 2**31 - 1, n).tolist(),
        "positions": rng.integers(0, MAX_POSITIONS, n).tolist(),
        "hidden": rng.integers(-(2**63), 2**63 - 1, n).tolist(),
        "out_cache_loc": [loc.tolist() for loc in locs],
        "query_start_loc": starts.tolist(),
        "seq_lens": rng.integers(-1, MAX_POSITIONS + 6, bs).tolist(),
        "page_table": [
            rng.integers(0, pages, (bs, cols)).tolist()
            for pages, cols in zip(config.num_pages, config.cols, strict=True)
        ],
        "conv_slots": rng.integers(0, SLOTS, bs).tolist(),
        "sample_rows": rng.integers(0, n, bs).tolist(),
    }


def inputs_of(call: dict[str, Any], config: DraftConfig) -> ForwardInputs:
    """The call as tensors on the configuration's device."""

    def ints(value: Any) -> torch.Tensor:
        return torch.tensor(value, dtype=torch.int32, device=config.device)

    return ForwardInputs(
        depth=call["depth"],
        hidden=channels_of(call["hidden"], config),
        out_cache_loc=tuple(ints(loc) for loc in call["out_cache_loc"]),
        page_table=tuple(ints(table) for table in call["page_table"]),
        **{
            name: ints(call[name])
            for name in ("input_ids", "positions", "query_start_loc", "seq_lens", "conv_slots", "sample_rows")
        },
    )
