"""The stash: per slot, the last k-1 committed tokens and the target hiddens one position behind them (S8, S14)."""

from __future__ import annotations

import torch
from torch import Tensor


class Stash:
    """tokens [slots, k-1] int32, hidden [slots, k-1, H], valid_lens [slots] int32: how many of the last entries hold.

    Entry i of a slot with frontier C belongs to position C-k+1+i: hidden h(C-k+1+i), token x[C-k+2+i].
    Slot 0 (padding) stays zero with valid length 0 (S20).
    """

    def __init__(self, num_slots: int, k: int, hidden_size: int, dtype: torch.dtype, device: str) -> None:
        self.tokens = torch.zeros(num_slots, k - 1, dtype=torch.int32, device=device)
        self.hidden = torch.zeros(num_slots, k - 1, hidden_size, dtype=dtype, device=device)
        self.valid_lens = torch.zeros(num_slots, dtype=torch.int32, device=device)

    def write(self, slots: Tensor, tokens: Tensor, hidden: Tensor, valid_lens: Tensor) -> None:
        """Replace the rows of ``slots`` [b]: tokens [b, k-1], hidden [b, k-1, H], valid_lens [b].

        A slot may occur twice only if its rows are the same (padded rows: all zero)."""
        self.tokens[slots] = tokens.to(self.tokens.dtype)
        self.hidden[slots] = hidden.to(self.hidden.dtype)
        self.valid_lens[slots] = valid_lens.to(self.valid_lens.dtype)
