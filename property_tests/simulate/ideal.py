"""The ideal drafter on a real model (S3): every draft from scratch, all depths over all positions, nothing cached."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from frontier_oracle.reference_impl.model.layers import dense_attention, rope
from frontier_oracle.reference_impl.model.mtp import MTPChain, dense_taps
from frontier_oracle.reference_impl.model.target import Target

Drafts = tuple[int, ...]


class Ideal:
    """Drafts of a chain for known tokens x[0..F] and target hiddens h(0..F-1), by a dense pass of each depth.

    What was asked before is remembered: drafts are a function of the tokens. choose: a depth's logits [bs, V] -> its
    drafts [bs].
    """

    def __init__(
        self, target: Target, chain: MTPChain, steps: int, choose: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        self.target, self.chain, self.steps = target, chain, steps
        self.choose = choose or (lambda logits: logits.argmax(-1))
        self.known: dict[bytes, Drafts] = {}

    def drafts(self, tokens: Sequence[Sequence[int]], hidden: Sequence[Sequence[Tensor]]) -> list[Drafts]:
        """Drafts 1..steps of each request. tokens[r]: F+1 of them; hidden[r]: parts of [F, H] in order."""
        keys = [hashlib.blake2b(np.array(known, dtype=np.int64).tobytes(), digest_size=16).digest() for known in tokens]
        new = [r for r, key in enumerate(keys) if key not in self.known]
        if new:
            rows = self.recompute([tokens[r] for r in new], [torch.cat(tuple(hidden[r])) for r in new])
            for r, drafted in zip(new, rows, strict=True):
                self.known[keys[r]] = tuple(drafted)
        return [self.known[key] for key in keys]

    @torch.no_grad()
    def recompute(self, tokens: list[Sequence[int]], hidden: list[Tensor]) -> list[list[int]]:
        """Drafts 1..steps of each request, anew. hidden[r] [F, H].

        Requests stand at the left of a rectangle; what is behind a request's end no row of it can see."""
        bs, lengths = len(tokens), torch.tensor([len(h) for h in hidden], device=hidden[0].device)
        longest = int(lengths.max())
        ids = torch.zeros(bs, longest + 1 + self.steps, dtype=torch.int64, device=lengths.device)
        for r, known in enumerate(tokens):
            ids[r, : len(known)] = torch.tensor(known, device=lengths.device)
        x = torch.nn.utils.rnn.pad_sequence(hidden, batch_first=True)
        each, shared, config = torch.arange(bs, device=lengths.device), self.target.embedding.weight, self.chain.config
        angles = rope(torch.arange(longest, device=lengths.device), config, x.dtype)
        taps, drafts = dense_taps(config.conv_width), []
        for depth in range(self.steps):
            embedding = F.embedding(ids[:, depth + 1 : depth + 1 + longest], shared)
            attend = dense_attention(config.windows[depth], longest, lengths.device)
            x = self.chain.depths[depth](x, embedding, angles, taps, attend)
            drafted = self.choose(self.chain.logits(x[each, lengths - 1], shared)).long()
            ids[each, lengths + 1 + depth] = drafted
            drafts.append(drafted)
        return torch.stack(drafts, dim=1).tolist()
