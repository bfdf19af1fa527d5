"""The target: a decoder in Llama's shape, so that Llama-shaped weights load into it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frontier_oracle.reference_impl.model.config import ModelConfig
from frontier_oracle.reference_impl.model.layers import MLP, Attend, Attention, Rope, dense_attention, norm, rope


class Layer(nn.Module):
    """Attention and MLP, each behind a norm, each added to the stream."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = norm(config), norm(config)
        self.attention, self.mlp = Attention(config), MLP(config, config.intermediate_size)

    def forward(self, x: Tensor, angles: Rope, attend: Attend) -> Tensor:
        """[..., H] -> [..., H]."""
        x = x + self.attention(self.attention_norm(x), angles, attend)
        return x + self.mlp(self.mlp_norm(x))


class Target(nn.Module):
    """RMSNorm, rotary positions, grouped-query attention, SwiGLU, output head tied to the embedding."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = norm(config)

    def forward(self, ids: Tensor) -> Tensor:
        """ids [b, t] -> hidden [b, t, H]: the stream behind the last layer, before the final norm."""
        t = ids.shape[1]
        x = self.embedding(ids)
        angles = rope(torch.arange(t, device=ids.device), self.config, x.dtype)
        attend = dense_attention(None, t, ids.device)
        for layer in self.layers:
            x = layer(x, angles, attend)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [..., H] -> [..., vocab_size]: row p scores the token at p+1."""
        return F.linear(self.norm(hidden), self.embedding.weight)
