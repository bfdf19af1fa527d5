"""Batches cross from numpy to torch and back without losing a bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, ExtendBatch
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.convert import channels_of, digests_of, to_torch

CONFIG = DraftConfig(Spec(k=2), num_slots=3, max_batch=2, num_pages=(5,), cols=(2,), hidden_size=16)
I32 = np.int32


def digests(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(-(2**63), 2**63 - 1, n, dtype=np.int64)


def test_decode_batch() -> None:
    hidden = digests(4)
    batch = DecodeBatch(
        req_pool_indices=np.array([2, 0], I32),
        seq_lens=np.array([7, 1], I32),
        accept_lengths=np.array([2, 1], I32),
        verify_ids=np.arange(4, dtype=I32).reshape(2, 2),
        hidden=hidden,
        page_table=(np.array([[1, 2], [0, 0]], I32),),
    )
    got = to_torch(batch, CONFIG)
    assert got.hidden.shape == (4, 16)
    assert got.hidden.dtype == torch.bfloat16
    assert digests_of(got.hidden).tolist() == hidden.tolist()
    assert digests_of(got.hidden.view(2, 2, 16)).tolist() == hidden.reshape(2, 2).tolist()
    for name in ("req_pool_indices", "seq_lens", "accept_lengths", "verify_ids"):
        assert getattr(got, name).dtype == torch.int32
        assert getattr(got, name).tolist() == getattr(batch, name).tolist()
    assert got.page_table[0].tolist() == [[1, 2], [0, 0]]
    got.seq_lens.add_(1)
    assert batch.seq_lens.tolist() == [7, 1]


def test_extend_batch_keeps_its_host_values() -> None:
    hidden = digests(3)
    batch = ExtendBatch(
        req_pool_indices=np.array([1], I32),
        prefix_lens=(4,),
        extend_lens=(3,),
        is_final=(True,),
        input_ids=np.array([5, 6, 7], I32),
        next_ids=np.array([[-1]], I32),
        sampled_ids=np.array([9], I32),
        hidden=hidden,
        seq_lens=np.array([7], I32),
        page_table=(np.array([[1, 2]], I32),),
    )
    got = to_torch(batch, CONFIG)
    assert (got.prefix_lens, got.extend_lens, got.is_final) == ((4,), (3,), (True,))
    assert got.next_ids.tolist() == [[-1]]
    assert digests_of(got.hidden).tolist() == hidden.tolist()


def test_only_dtypes_that_hold_bytes_are_taken() -> None:
    for dtype in ("float8_e4m3fn", "int32", "half-precision"):
        with pytest.raises(UsageError, match="bfloat16, float16 or float32"):
            channels_of(digests(2), replace(CONFIG, dtype=dtype))
