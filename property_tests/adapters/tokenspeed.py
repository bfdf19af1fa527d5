"""TokenSpeed's multi-depth MTP drafter, ``runtime/execution/drafter/mtp.py``, as a system under test.

The engine's file runs as it stands (tried at revision f4d8ec6e, 2026-08-22); what is ours stands in for its model
runner, input buffers, attention backend and cache view. Deeper heads on target hiddens are the model's business: the
runner hands them depth 0's. Set TOKENSPEED_PATH to a checkout.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

from torch import Tensor

from frontier_oracle.oracle.contract import DraftConfig, DraftModel, StashView
from frontier_oracle.property_tests.adapters.tokenspeed_parts import Surroundings
from frontier_oracle.property_tests.adapters.tokenspeed_rounds import EngineRounds


class Runner(Surroundings):
    """The model runner of one depth a call: all rows' hiddens come back, one sampled id a request."""

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
        hidden = captured_hidden_states
        if self.config.spec.hidden == "target":
            if spec_step_idx == 0:
                self.first_hidden = hidden
            hidden = self.first_hidden
        outputs, tokens = self.run(spec_step_idx, input_ids, positions, hidden, out_cache_loc, ctx.gather_ids)
        return SimpleNamespace(hidden_states=outputs, next_token_ids=tokens, next_token_logits=None)


class TokenspeedMtp(EngineRounds):
    """contract.StashSystem over the engine's ``Mtp``. Its deviations are those of the published frontier design."""

    capabilities: ClassVar[frozenset[str]] = frozenset(
        {"extend", "adopt", "padding", "stash", "load_stash", "device_only"}
    )
    prefix_policy: ClassVar[str] = "tokens"
    declares: ClassVar[str] = "tokenspeed_frontier"
    serves: ClassVar[tuple[str, ...]] = ("chain", "target")
    engine_class: ClassVar[tuple[str, str]] = ("mtp", "Mtp")
    runner_type: ClassVar[type[Surroundings]] = Runner

    def stash(self) -> StashView:
        """The engine's stash: all k-1 entries are assumed to hold."""
        return StashView(self.drafter._stash_tokens_buf, self.drafter._stash_hidden_buf, None)

    def load_stash(self, slots: Tensor, tokens: Tensor, hidden: Tensor, valid_lens: Tensor) -> None:
        """Set the engine's stash of ``slots`` [b]; it keeps no valid lengths."""
        self.drafter._stash_tokens_buf[slots.long()] = tokens.int()
        self.drafter._stash_hidden_buf[slots.long()] = hidden


def make(config: DraftConfig, model: DraftModel) -> TokenspeedMtp:
    """The plug-in entry point, system ``tokenspeed``."""
    return TokenspeedMtp(config, model)
