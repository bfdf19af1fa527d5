"""What keeps the books of a drafter: the window, the stash, and the rows of EXTEND rounds, behind one interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from frontier_oracle.cuda_impl.buffers import Buffers
from frontier_oracle.cuda_impl.extend_plan import ExtendPlan
from frontier_oracle.oracle.contract import ExtendBatch, StashView


@dataclass(frozen=True)
class ExtendRows:
    """The rows of an EXTEND round at depth 0: hidden [rows, H], positions [rows] int32, locs[g] [rows] int32."""

    hidden: Tensor
    positions: Tensor
    locs: tuple[Tensor, ...]


class Books(Protocol):
    """Two implementations: Triton kernels on a stash ring, and a plain sequence of tensor operations."""

    def before_decode(self, buffers: Buffers, bs: int) -> None:
        """What a decode round needs done outside the captured region: nothing, but after ``load_stash``."""
        ...

    def decode(self, buffers: Buffers, bs: int) -> None:
        """Fill ``buffers.window(bs)`` from the inputs and move the stash on by the accept lengths (S5, S6, S8, S9).
        No host value, no synchronization: may be captured."""
        ...

    def extend_rows(self, batch: ExtendBatch, plan: ExtendPlan) -> ExtendRows:
        """Positions, write locations and depth-0 hiddens of an EXTEND round."""
        ...

    def extend_ids(self, batch: ExtendBatch, plan: ExtendPlan, depth: int, drafts: Tensor) -> Tensor:
        """[rows] int32: what ``depth`` consumes, from the prompt or from ``drafts`` [bs, steps] int32 (S12)."""
        ...

    def extend_stash(self, batch: ExtendBatch, plan: ExtendPlan) -> None:
        """Append the chunks to the stash (S14)."""
        ...

    def reset(self, slot: int) -> None:
        """Forget what ``slot``'s stash holds (S19, S21)."""
        ...

    def stash(self) -> StashView:
        """The stash of every slot, for checking."""
        ...

    def load_stash(self, slots: Tensor, tokens: Tensor, hidden: Tensor, valid_lens: Tensor) -> None:
        """Set the stash of some slots, whose next round is a decode. A row before position 0 cannot be valid:
        valid_lens <= frontier."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """State that a captured round reads or writes, by name: it must not move (S24)."""
        ...
