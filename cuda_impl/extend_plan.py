"""The rows of an EXTEND round, laid out on the host: its lengths are host values (S12, S13)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from frontier_oracle.cuda_impl.errors import BatchError
from frontier_oracle.oracle.contract import DraftConfig, ExtendBatch


@dataclass(frozen=True)
class ExtendPlan:
    """Row i of ``rows`` belongs to request row_request[i] and stands at position prefix_lens + row_offset[i].

    A final chunk shorter than ``steps`` re-runs rows in front of it (offset < 0): they needed a token nobody had.
    chunk_starts[r]: the request's first row in input_ids. All int32, [rows], [bs] or [bs+1]; ``reruns`` is their count.
    """

    rows: int
    reruns: int
    row_request: Tensor
    row_offset: Tensor
    prefix_lens: Tensor
    extend_lens: Tensor
    chunk_starts: Tensor
    is_final: Tensor
    query_start_loc: Tensor
    sample_rows: Tensor


def plan_extend(batch: ExtendBatch, config: DraftConfig) -> ExtendPlan:
    """Checks an EXTEND batch and lays its rows out. Raises BatchError; MIXED batches cannot be expressed (S15)."""
    prefix = np.asarray(batch.prefix_lens, dtype=np.int64)
    lens = np.asarray(batch.extend_lens, dtype=np.int64)
    final = np.asarray(batch.is_final, dtype=bool)
    bs = len(lens)
    if not 1 <= bs <= config.max_batch or not len(prefix) == len(final) == bs == batch.req_pool_indices.shape[0]:
        raise BatchError(f"extend batch of {bs} requests: expected 1..{config.max_batch}, and as many lengths as slots")
    if (lens < 1).any() or (prefix < 0).any():
        raise BatchError("extend batch: every request needs extend_lens >= 1 and prefix_lens >= 0")
    if batch.input_ids.shape[0] != lens.sum() or batch.hidden.shape[0] != lens.sum():
        raise BatchError(f"extend batch: expected {lens.sum()} input_ids and hiddens, got {batch.input_ids.shape[0]}")
    front = np.where(final, np.minimum(np.maximum(config.spec.steps - lens, 0), prefix), 0)
    counts = front + lens
    starts = np.concatenate([[0], np.cumsum(counts)])
    request = np.repeat(np.arange(bs), counts)
    offset = np.arange(starts[-1]) - starts[request] - front[request]

    def upload(values: np.ndarray) -> Tensor:  # type: ignore[type-arg]
        return torch.from_numpy(values.astype(np.int32)).to(config.device)

    return ExtendPlan(
        rows=int(starts[-1]),
        reruns=int(front.sum()),
        row_request=upload(request),
        row_offset=upload(offset),
        prefix_lens=upload(prefix),
        extend_lens=upload(lens),
        chunk_starts=upload(np.cumsum(lens) - lens),
        is_final=upload(final),
        query_start_loc=upload(starts),
        sample_rows=upload(starts[1:] - 1),
    )
