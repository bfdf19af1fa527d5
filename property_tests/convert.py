"""Numpy batches to torch batches and back: digests become channels on the way in, channels digests on the way out."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, ExtendBatch
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests import torch_digest

Batch = TypeVar("Batch", ExtendBatch, DecodeBatch)
HOST_FIELDS = ("prefix_lens", "extend_lens", "is_final")


def torch_dtype(config: DraftConfig) -> torch.dtype:
    """The activations' dtype of a configuration ("bfloat16", "float16", "float32": bytes are exact in all three)."""
    dtype = getattr(torch, config.dtype, None)
    if not isinstance(dtype, torch.dtype) or dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise UsageError(f"dtype {config.dtype!r}: digests travel in bfloat16, float16 or float32")
    return dtype


def to_tensor(array: Any, config: DraftConfig) -> Tensor:
    """A copy of an integer array on the configuration's device, its dtype kept."""
    return torch.tensor(np.asarray(array), device=config.device)


def channels_of(digests: Any, config: DraftConfig) -> Tensor:
    """[N] int64 digests -> [N, hidden_size] channels in the configuration's dtype, on its device."""
    low = torch.tensor(np.asarray(digests, dtype=np.int64), device=config.device)
    return torch_digest.encode(low, config.hidden_size, torch_dtype(config))


def digests_of(tensor: Tensor) -> NDArray[np.int64]:
    """[..., H] channels -> [...] int64 digests on the host; torn rows come out as poison, zero rows as 0."""
    flat = torch_digest.decode(tensor.reshape(-1, tensor.shape[-1]).contiguous())
    digests: NDArray[np.int64] = flat.cpu().numpy().reshape(tensor.shape[:-1])
    return digests


def to_torch(batch: Batch, config: DraftConfig) -> Batch:
    """A numpy batch whose ``hidden`` is int64 digests ([N] or [bs * k]) -> what a system receives.

    Every array becomes a fresh tensor on the configuration's device with its dtype kept, hidden becomes channels
    [N, H]; the host tuples (prefix_lens, extend_lens, is_final) stay as they are.
    """
    tensors: dict[str, Any] = {
        f.name: to_tensor(getattr(batch, f.name), config)
        for f in fields(batch)
        if f.name not in HOST_FIELDS and f.name not in ("hidden", "page_table")
    }
    tensors["hidden"] = channels_of(batch.hidden, config)
    tensors["page_table"] = tuple(to_tensor(table, config) for table in batch.page_table)
    return replace(batch, **tensors)
