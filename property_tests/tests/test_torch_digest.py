"""The torch mixes equal the numpy ones, bit for bit; channels carry digests exactly and show every torn block."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from frontier_oracle.oracle import digest
from frontier_oracle.property_tests import torch_digest as mixes

EXTREMES = [0, 1, -1, 2**63 - 1, -(2**63), 2**62, -(2**62) - 1, 0x0101010101010101, 255, -256]
int64s = st.one_of(st.sampled_from(EXTREMES), st.integers(-(2**63), 2**63 - 1))
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def values(seed: int, n: int = 200) -> np.ndarray:
    random = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, n, dtype=np.int64, endpoint=True)
    return np.concatenate([np.array(EXTREMES, dtype=np.int64), random])


@given(st.sampled_from([getattr(digest, t) for t in dir(digest) if t.startswith("TAG_")]), st.lists(int64s, min_size=5))
def test_mix_equals_numpy(tag: int, numbers: list[int]) -> None:
    for count in range(1, 6):
        args = [np.roll(np.array(numbers, dtype=np.int64), i) for i in range(count)]
        got = mixes.mix(tag, *[torch.from_numpy(a.copy()) for a in args])
        assert got.tolist() == digest.mix(tag, *args).tolist()


@given(int64s, int64s)
def test_ints_fold_into_the_constant(depth: int, other: int) -> None:
    tensor = torch.from_numpy(values(1))
    got = mixes.mix(digest.TAG_ENTRY, depth, tensor, other)
    assert got.tolist() == digest.mix(digest.TAG_ENTRY, np.array([depth]), values(1), np.array([other])).tolist()


def test_keyed_and_token_equal_numpy() -> None:
    positions, cells = values(2), values(3)
    terms = mixes.key_terms_of(torch.from_numpy(positions.copy()))
    got = mixes.keyed_(torch.from_numpy(cells.copy()), terms, torch.empty(len(cells), dtype=torch.int64))
    assert got.tolist() == digest.keyed(positions, cells).tolist()
    tokens = mixes.draft_token(torch.from_numpy(cells.copy()))
    assert tokens.dtype == torch.int32
    assert tokens.tolist() == digest.draft_token(cells).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [8, 24, 1536])
def test_channels_round_trip(dtype: torch.dtype, width: int) -> None:
    digests = values(4)
    channels = mixes.encode(torch.from_numpy(digests.copy()), width, dtype)
    assert channels.dtype == dtype
    assert np.array_equal(channels.to(torch.uint8).numpy(), digest.to_channels(digests, width))
    assert mixes.decode(channels).tolist() == digests.tolist()


@pytest.mark.parametrize("width", [16, 64])
def test_a_fault_in_any_single_channel_is_seen(width: int) -> None:
    digests = torch.from_numpy(values(5, 5))
    whole = mixes.encode(digests, width, torch.bfloat16)
    seen = set(digests.tolist())
    for channel in range(width):
        torn = whole.clone()
        torn[:, channel] = (torn[:, channel] + 1) % 256
        assert not seen & set(mixes.decode(torn).tolist())


@pytest.mark.parametrize("foreign", [float("nan"), float("inf"), -1.0, 256.0, 3.5])
def test_values_that_are_no_bytes_give_poison(foreign: float) -> None:
    channels = mixes.encode(torch.tensor([0, 5]), 8, torch.float32)
    channels[:, 3] = foreign
    first = mixes.decode(channels)
    assert not set(first.tolist()) & {0, 5}
    assert first.tolist() == mixes.decode(channels).tolist()


@pytest.mark.parametrize("width", [8, 32])
def test_a_row_of_zeros_is_digest_zero(width: int) -> None:
    assert mixes.decode(torch.zeros(2, width)).tolist() == [0, 0]
