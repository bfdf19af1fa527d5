"""The MTP chain: one transformer block a depth, each on the depth before it (S1, chain heads)."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frontier_oracle.reference_impl.model.config import ModelConfig
from frontier_oracle.reference_impl.model.layers import MLP, Attend, Attention, Rope, dense_attention, norm, rope

# (stream index, x [..., H]) -> [..., W, H]: x at p, p-1, ..., p-W+1; zero before position 0 (S18).
Taps = Callable[[int, Tensor], Tensor]
STREAMS = 2


class ShortConv(nn.Module):
    """Depthwise causal convolution over the last W rows; weight[i] is on the row i positions back."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(config.conv_width, config.hidden_size))

    def forward(self, taps: Tensor) -> Tensor:
        """[..., W, H] -> [..., H]."""
        return (taps * self.weight).sum(-2)


class DraftBlock(nn.Module):
    """Project [norm(hidden) ‖ norm(embedding)], then attention and MLP; a short convolution with residual stands on
    the stream in front of each."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.hidden_norm, self.embedding_norm = norm(config), norm(config)
        self.project = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.convs = nn.ModuleList(ShortConv(config) for _ in range(STREAMS))
        self.attention_norm, self.mlp_norm = norm(config), norm(config)
        self.attention, self.mlp = Attention(config), MLP(config, config.draft_intermediate_size)

    def forward(self, hidden: Tensor, embedding: Tensor, angles: Rope, taps: Taps, attend: Attend) -> Tensor:
        """hidden, embedding [..., H] -> O [..., H]."""
        x = self.project(torch.cat([self.hidden_norm(hidden), self.embedding_norm(embedding)], -1))
        x = x + self.convs[0](taps(0, x))
        x = x + self.attention(self.attention_norm(x), angles, attend)
        x = x + self.convs[1](taps(1, x))
        return x + self.mlp(self.mlp_norm(x))


class MTPChain(nn.Module):
    """One block a depth; one norm for all depths; embedding and output head are the target's, passed as ``shared``
    [vocab_size, H]."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.depths = nn.ModuleList(DraftBlock(config) for _ in range(config.depths))
        self.norm = norm(config)

    def forward(self, hidden: Tensor, ids: Tensor, shared: Tensor) -> list[Tensor]:
        """Teacher-forced, all depths over all positions (S1, S3).

        hidden [b, t, H]: h(p) of positions 0..t-1; ids [b, t+depths]: x[0..]; depth d at p consumes x[p+1+d] and
        depth d-1's output at p. Returns O(d, p), one [b, t, H] a depth; ``logits`` of it scores x[p+2+d]."""
        t = hidden.shape[1]
        embedding = F.embedding(ids, shared)
        angles = rope(torch.arange(t, device=ids.device), self.config, hidden.dtype)
        taps = dense_taps(self.config.conv_width)
        attends = {w: dense_attention(w, t, ids.device) for w in set(self.config.windows)}
        outputs = []
        for d, (block, window) in enumerate(zip(self.depths, self.config.windows, strict=True)):
            hidden = block(hidden, embedding[:, d + 1 : d + 1 + t], angles, taps, attends[window])
            outputs.append(hidden)
        return outputs

    def logits(self, output: Tensor, shared: Tensor) -> Tensor:
        """O [..., H] -> [..., vocab_size]."""
        return F.linear(self.norm(output), shared)


def dense_taps(width: int) -> Taps:
    """Taps of [b, t, H] rows that start at position 0."""

    def taps(stream: int, x: Tensor) -> Tensor:
        t = x.shape[1]
        padded = F.pad(x, (0, 0, width - 1, 0))
        return torch.stack([padded[:, width - 1 - i : width - 1 - i + t] for i in range(width)], dim=-2)

    return taps
