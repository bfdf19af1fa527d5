"""Parts that the target and the draft depths share. How attention finds its keys is the caller's: dense or paged."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frontier_oracle.reference_impl.model.config import ModelConfig

# (query [..., heads, head_size], key, value [..., kv_heads, head_size]) -> [..., heads, head_size]
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
Rope = tuple[Tensor, Tensor]


def rope(positions: Tensor, config: ModelConfig, dtype: torch.dtype) -> Rope:
    """Cosine and sine of each position's angles, [..., 1, head_size/2]; at least fp32 inside. positions [...]."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    half = config.head_size // 2
    rate = config.rope_base ** (-torch.arange(half, device=positions.device, dtype=wide) / half)
    angle = (positions.to(wide)[..., None] * rate)[..., None, :]
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x: Tensor, angles: Rope) -> Tensor:
    """Rotate channel i with channel i + head_size/2. x [..., heads, head_size]."""
    cos, sin = angles
    low, high = x.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)


def norm(config: ModelConfig) -> nn.RMSNorm:
    return nn.RMSNorm(config.hidden_size, eps=config.norm_eps)


class Attention(nn.Module):
    """Grouped-query attention with rotary positions."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.head_size = config.head_size
        self.sizes = [config.hidden_size, config.kv_heads * config.head_size, config.kv_heads * config.head_size]
        self.qkv = nn.Linear(config.hidden_size, sum(self.sizes), bias=False)
        self.out = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, angles: Rope, attend: Attend) -> Tensor:
        """[..., H] -> [..., H]."""
        q, k, v = (part.unflatten(-1, (-1, self.head_size)) for part in self.qkv(x).split(self.sizes, -1))
        return self.out(attend(rotate(q, angles), rotate(k, angles), v).flatten(-2))


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, config: ModelConfig, intermediate_size: int) -> None:
        super().__init__()
        self.up = nn.Linear(config.hidden_size, 2 * intermediate_size, bias=False)
        self.down = nn.Linear(intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., H] -> [..., H]."""
        gate, up = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


def dense_attention(window: int | None, t: int, device: torch.device) -> Attend:
    """Causal attention over [b, t, ...], within ``window`` positions where there is one."""
    mask = None
    if window is not None and window < t:
        back = torch.arange(t, device=device)[:, None] - torch.arange(t, device=device)
        mask = (back >= 0) & (back < window)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        shared = q.shape[-2] // k.shape[-2]
        k, v = (x.repeat_interleave(shared, -2).transpose(1, 2) for x in (k, v))
        return F.scaled_dot_product_attention(
            q.transpose(1, 2), k, v, attn_mask=mask, is_causal=mask is None
        ).transpose(1, 2)

    return attend


def init_weights(module: nn.Module, seed: int) -> None:
    """Draw every matrix anew, from a generator of its own: N(0, 1/fan_in), on the CPU, so devices agree."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        if parameter.ndim > 1:
            drawn = torch.randn(parameter.shape, generator=generator) * parameter.shape[-1] ** -0.5
            parameter.data.copy_(drawn)
