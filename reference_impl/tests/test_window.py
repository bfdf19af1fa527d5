"""The window's functions against slow positional loops, for all accept and valid lengths."""

from __future__ import annotations

import pytest
import torch
from drafting import StubModel, draft_config
from hypothesis import given
from hypothesis import strategies as st

from frontier_oracle.oracle.contract import DecodeBatch
from frontier_oracle.oracle.errors import HiddenSemanticUnsupported
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.reference_impl import frontier, tokenspeed, window
from frontier_oracle.reference_impl.pages import locations


@given(st.integers(1, 9), st.integers(1, 6), st.lists(st.integers(0, 200), min_size=1, max_size=8))
def test_locations_follow_the_page_table(page_size: int, cols: int, positions: list[int]) -> None:
    table = torch.arange(1, cols + 1, dtype=torch.int32).flip(0)[None] * 3
    request = torch.zeros(1, dtype=torch.int64)
    got = locations(table, page_size, request, torch.tensor(positions, dtype=torch.int32))
    assert got.dtype == torch.int32
    assert got.tolist() == [int(table[0, (p // page_size) % cols]) * page_size + p % page_size for p in positions]


def token_at(position: int) -> int:
    return 100 + position


def decode_once(make, spec: Spec, frontiers: list[int], accepts: list[int], valid: list[int], padded: int = 0):
    """One decode round on stashes whose every entry names its position. Returns (model, result, system)."""
    k, n = spec.k, len(frontiers)
    config = draft_config(spec, num_slots=n + 1)
    model = StubModel()
    system = make(config, model)
    first = torch.tensor(frontiers, dtype=torch.int32)
    entry = first[:, None] - k + 1 + torch.arange(k - 1, dtype=torch.int32)
    slots = torch.arange(n, 0, -1, dtype=torch.int32)
    system.load_stash(
        slots, entry + 101, entry[..., None].expand(-1, -1, 8).double(), torch.tensor(valid, dtype=torch.int32)
    )
    rows = n + padded
    seq_lens = torch.cat([first, first.new_ones(padded)])
    accept_lengths = torch.tensor(accepts + [1] * padded, dtype=torch.int32)
    j = torch.arange(k, dtype=torch.int32)
    verify = seq_lens[:, None] + 101 + j
    garbage = j >= accept_lengths[:, None]
    hidden = torch.where(garbage, -5, seq_lens[:, None] + j).double()
    tables = tuple(
        torch.cat([1 + torch.arange(n * cols, dtype=torch.int32).view(n, cols), torch.zeros(padded, cols).int()])
        for cols in config.cols
    )
    batch = DecodeBatch(
        req_pool_indices=torch.cat([slots, slots.new_zeros(padded)]),
        seq_lens=seq_lens,
        accept_lengths=accept_lengths,
        verify_ids=torch.where(garbage, -7, verify),
        hidden=hidden.flatten()[:, None].expand(-1, 8),
        page_table=tables,
    )
    result = system.decode(batch)
    assert len(model.calls) == spec.steps and rows == len(result)
    return model, result, system, tables


@st.composite
def rounds(draw):
    k = draw(st.integers(2, 8))
    steps = draw(st.integers(1, k))
    hidden = draw(st.sampled_from(["chain", "target"]))
    spec = Spec(k=k, steps=steps, hidden=hidden, groups=(CacheGroup(4), CacheGroup(3, window=5)))
    row = st.tuples(st.integers(1, 20), st.integers(1, spec.max_accept), st.integers(0, k - 1))
    return spec, draw(st.lists(row, min_size=1, max_size=4)), draw(st.integers(0, 2))


@given(rounds())
def test_frontier_round_against_a_positional_loop(case) -> None:
    spec, rows, padded = case
    rows = [(f, a, min(valid, f)) for f, a, valid in rows]
    model, result, system, tables = decode_once(frontier.make, spec, *map(list, zip(*rows, strict=True)), padded)
    k = spec.k
    drafts = torch.stack(model.tokens)
    for d, call in enumerate(model.calls):
        assert call.input_ids.dtype == torch.int32
        assert call.query_start_loc.tolist() == [r * k for r in range(len(rows) + padded + 1)]
        assert call.sample_rows.tolist() == [r * k + k - 1 for r in range(len(rows) + padded)]
        for r, (old, a, valid) in enumerate(rows):
            new = old + a
            assert call.seq_lens[r] == new
            for j in range(k):
                row, p = r * k + j, new - k + j
                locs = [int(loc[row]) for loc in call.out_cache_loc]
                if p < 0 or p < old - valid:
                    assert (call.input_ids[row], call.positions[row], *locs) == (0, 0, 0, 0)
                    assert not call.hidden[row].any()
                    continue
                t = p + d + 1
                assert call.input_ids[row] == (token_at(t) if t <= new else drafts[t - new - 1, r])
                assert call.positions[row] == p
                assert locs == [
                    int(tables[g][r, (p // grp.page_size) % tables[g].shape[1]]) * grp.page_size + p % grp.page_size
                    for g, grp in enumerate(spec.groups)
                ]
                source = model.outputs[d - 1][row, 0] if d and spec.hidden == "chain" else p
                assert (call.hidden[row] == source).all()
        for row in range(len(rows) * k, (len(rows) + padded) * k):
            assert (
                not call.input_ids[row] and not call.hidden[row].any() and not any(g[row] for g in call.out_cache_loc)
            )
    assert result.dtype == torch.int32
    assert result[: len(rows), 0].tolist() == [token_at(f + a) for f, a, _ in rows]
    assert torch.equal(result[:, 1:], drafts.T)
    view = system.stash()
    for r, (old, a, valid) in enumerate(rows):
        slot, new, held = len(rows) - r, old + a, min(k - 1, valid + a)
        assert view.valid_lens[slot] == held
        for i in range(k - 1 - held, k - 1):
            assert view.tokens[slot, i] == token_at(new - k + 2 + i)
            assert (view.hidden[slot, i] == new - k + 1 + i).all()
    assert view.valid_lens[0] == 0 and not view.tokens[0].any() and not view.hidden[0].any()


@given(rounds())
def test_tokenspeed_clamps_positions_and_masks_nothing(case) -> None:
    spec, rows, _ = case
    model, _, system, tables = decode_once(tokenspeed.make, spec, *map(list, zip(*rows, strict=True)))
    call, k, page = model.calls[0], spec.k, spec.groups[0].page_size
    for r, (old, a, _) in enumerate(rows):
        new = old + a
        for j in range(k):
            row, written = r * k + j, max(0, new - k) + j
            assert call.positions[row] == max(0, new - k + j)
            assert call.out_cache_loc[0][row] == int(tables[0][r, written // page]) * page + written % page
            assert call.input_ids[row] == token_at(new - k + j + 1)
        assert call.seq_lens[r] == new
    assert system.stash().valid_lens is None


@pytest.mark.parametrize("make", [frontier.make, tokenspeed.make])
def test_shifted_heads_are_refused(make) -> None:
    with pytest.raises(HiddenSemanticUnsupported):
        make(draft_config(Spec(k=4, hidden="shifted")), StubModel())


def test_masked_rows_are_zero_in_any_shape() -> None:
    valid = torch.tensor([[True, False]])
    assert window.mask_rows(torch.ones(1, 2, 3), valid).tolist() == [[[1, 1, 1], [0, 0, 0]]]
    assert window.mask_rows(torch.ones(1, 2).int(), valid).tolist() == [[1, 0]]
