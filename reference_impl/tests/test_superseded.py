"""The superseded primitives give what the frontier's window gives, for all accept lengths and widths (S11)."""

from __future__ import annotations

import pytest
import torch

from frontier_oracle.reference_impl import superseded, window

WIDTHS = [(k, steps) for k in range(2, 9) for steps in range(1, k + 1)]


@pytest.mark.parametrize(("k", "steps"), WIDTHS)
def test_equal_for_all_accepts(k: int, steps: int) -> None:
    accepts = torch.arange(1, k + 1, dtype=torch.int32)
    generator = torch.Generator().manual_seed(k)
    stash, verify, drafts = (
        torch.randint(10**6, (k, n), generator=generator, dtype=torch.int32) for n in (k - 1, k, steps)
    )
    hidden_stash, hidden = torch.rand(k, k - 1, 5, generator=generator), torch.rand(k, k, 5, generator=generator)
    source = window.source_rows(accepts, k)
    ids = window.gather_history(stash, verify, source)
    hiddens = window.gather_history(hidden_stash, hidden, source)
    assert torch.equal(superseded.regather_stash(stash, verify, accepts), ids[:, 1:])
    assert torch.equal(superseded.regather_stash(hidden_stash, hidden, accepts), hiddens[:, 1:])

    buffer = window.id_buffer(ids, steps)
    rolled = ids
    for d in range(steps):
        expected = buffer[:, d : d + k]
        assert torch.equal(superseded.splice_ids(stash, verify, drafts, accepts, d), expected)
        assert torch.equal(superseded.strided_ids(buffer.flatten(), k, k, steps, d), expected)
        assert torch.equal(rolled, expected)
        buffer[:, k + d] = drafts[:, d]
        rolled = superseded.roll_ids(rolled, drafts[:, d])
