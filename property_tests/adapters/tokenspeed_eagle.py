"""TokenSpeed's EAGLE drafter, ``runtime/execution/drafter/eagle.py``: one layer, chained on its own hidden.

The engine's file runs as it stands (tried at revision f4d8ec6e, 2026-08-22). Its first step covers the verify window or
the prompt chunk, each further one runs a row a request behind it; a scenario for it says ``single``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DraftConfig, DraftModel
from frontier_oracle.property_tests.adapters.tokenspeed_parts import Metadata, Surroundings
from frontier_oracle.property_tests.adapters.tokenspeed_rounds import EngineRounds


class StepRunner(Surroundings):
    """The model runner: the first step's outputs are cut to the sampled rows, as the engine's logits processor does."""

    def forward(
        self,
        ctx: Any,
        input_ids: Tensor,
        positions: Tensor,
        out_cache_loc: Tensor,
        captured_hidden_states: Tensor,
        spec_step_idx: int,
    ) -> SimpleNamespace:
        """The engine's call; every argument as its drafter passes it."""
        rows = torch.arange(ctx.bs, device=self.device) if ctx.gather_ids is None else ctx.gather_ids
        outputs, tokens = self.run(0, input_ids, positions, captured_hidden_states, out_cache_loc, rows)
        return SimpleNamespace(hidden_states=outputs[rows], next_token_ids=tokens, next_token_logits=None)

    @contextmanager
    def override_num_extends(self, num_extends: int) -> Iterator[None]:
        """From here on a step has one row a request."""
        now = self.metadata
        one_row = torch.arange(len(now.slots) + 1, dtype=torch.int32, device=self.device)
        self.begin(Metadata(one_row, now.seq_lens, now.page_table, now.slots))
        yield

    def advance_draft_forward_metadata(self, seq_lens: Tensor) -> None:
        """Relative: one more position a step (S9). The drafter goes on counting in the tensor that it hands over."""
        self.metadata.seq_lens = seq_lens.clone()


class TokenspeedEagle(EngineRounds):
    """contract.System over the engine's ``Eagle``. It keeps nothing across rounds."""

    capabilities: ClassVar[frozenset[str]] = frozenset({"extend", "adopt", "padding", "device_only"})
    prefix_policy: ClassVar[str] = "bigram"
    serves: ClassVar[tuple[str, ...]] = ("single",)
    engine_class: ClassVar[tuple[str, str]] = ("eagle", "Eagle")
    runner_type: ClassVar[type[Surroundings]] = StepRunner


def make(config: DraftConfig, model: DraftModel) -> TokenspeedEagle:
    """The plug-in entry point, system ``tokenspeed_eagle``."""
    return TokenspeedEagle(config, model)
