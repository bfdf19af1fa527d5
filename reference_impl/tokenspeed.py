"""The published frontier design, with the deviations of SEMANTICS §9: what it leaves out is what ``Frontier`` adds.

Its stash has no valid length, so a short chunk borrows from the slot's previous owner; its window has no row mask, so
a request shorter than the window clamps its positions; its chunks have no lookahead beyond the next token and re-run
nothing, so a chunk's last rows read drafts where the prompt goes on.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DraftConfig, DraftModel, ExtendBatch, StashView
from frontier_oracle.reference_impl.extend import ChunkLayout
from frontier_oracle.reference_impl.frontier import Frontier


class TokenspeedFrontier(Frontier):
    """The k-row window as published. Prefix pages are keyed by their own tokens."""

    capabilities: ClassVar[frozenset[str]] = Frontier.capabilities - {"media"}
    prefix_policy: ClassVar[str] = "tokens"
    declares: ClassVar[str] = "tokenspeed_frontier"

    def window_positions(self, frontier: Tensor) -> Tensor:
        """max(0, F'-k+j): clamped row by row. [bs, k] int32."""
        return super().window_positions(frontier).clamp(min=0)

    def window_write_positions(self, frontier: Tensor) -> Tensor:
        """max(0, F'-k) + j: consecutive from the clamped first row, so rows may land past the frontier. [bs, k]."""
        j = torch.arange(self.k, device=frontier.device, dtype=frontier.dtype)
        return (frontier - self.k).clamp(min=0)[:, None] + j

    def window_valid(self, slots: Tensor, source: Tensor, positions: Tensor) -> Tensor:
        """Every row of a live slot runs. [bs, k] bool."""
        return (slots > 0)[:, None].expand_as(source)

    def extend_rerun_lens(self, batch: ExtendBatch) -> list[int]:
        """No row is run again."""
        return [0] * len(batch.prefix_lens)

    def extend_valid(self, slots: Tensor, layout: ChunkLayout) -> Tensor:
        """Every row runs. [N] bool."""
        return torch.ones_like(layout.request, dtype=torch.bool)

    def extend_next(self, batch: ExtendBatch, i: int, own: Tensor) -> Tensor:
        """Depth 0 is given the next prompt token; deeper ids are rolled left and end with the round's draft. [bs]."""
        return super().extend_next(batch, i, own) if i == 0 else own

    def reset_slot(self, slot: int | Tensor) -> None:
        """Nothing: the stash is never reset."""

    def stash(self) -> StashView:
        """All k-1 entries are assumed to hold."""
        return StashView(self._stash.tokens, self._stash.hidden, None)


def make(config: DraftConfig, model: DraftModel) -> TokenspeedFrontier:
    """The plug-in entry point."""
    return TokenspeedFrontier(config, model)
