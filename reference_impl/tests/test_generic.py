"""The generic drafter: the same calls as the drafter that was written for its declaration, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from drafting import Engine, StubModel, draft_config

from frontier_oracle.oracle.designs import DESIGNS, FRONTIER, LIGHTLLM_VANILLA, MINIMAL, TOKENSPEED_FRONTIER, Design
from frontier_oracle.oracle.errors import HiddenSemanticUnsupported, UsageError
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.reference_impl import frontier, tokenspeed
from frontier_oracle.reference_impl.generic import DesignSystem, maker

SPEC = Spec(4, groups=(CacheGroup(4), CacheGroup(2, 5)))


def drive(make: object, spec: Spec, seed: int) -> StubModel:
    """A few requests: chunks, short prompts, padded batches, a reused slot."""
    model = StubModel()
    engine = Engine(draft_config(spec), make, model, seed)  # type: ignore[arg-type]
    source = np.random.default_rng(seed)
    a, b = engine.admit(7, 1), engine.admit(1 + seed % 3, 2)
    for chunk in ([(a, 4)], [(b, b.prompt_len)], [(a, 3)]):
        engine.extend(chunk)
    for _ in range(4):
        accepts = source.integers(1, spec.max_accept + 1, 2).tolist()
        engine.decode([(a, accepts[0]), (b, accepts[1])][:: 1 if seed % 2 else -1], pad_to=3)
    engine.finish(a)
    c = engine.admit(2, 1)
    engine.extend([(c, 1)])
    engine.extend([(c, 1)])
    engine.decode([(c, 1)])
    return model


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("design,make", [(FRONTIER, frontier.make), (TOKENSPEED_FRONTIER, tokenspeed.make)])
def test_same_calls_as_the_drafter_of_its_own(design: Design, make: object, seed: int) -> None:
    """Every row that stores something has the same id, position, hidden, locations and extent."""
    ours, theirs = drive(maker(design), SPEC, seed), drive(make, SPEC, seed)
    assert len(ours.calls) == len(theirs.calls)
    for got, want in zip(ours.calls, theirs.calls, strict=True):
        live = torch.stack([loc != 0 for loc in want.out_cache_loc]).any(0)
        real = want.conv_slots > 0
        assert got.depth == want.depth
        assert torch.equal(got.sample_rows, want.sample_rows) and torch.equal(got.query_start_loc, want.query_start_loc)
        assert torch.equal(got.seq_lens[real].long(), want.seq_lens[real].long())
        for mine, yours in zip(got.out_cache_loc, want.out_cache_loc, strict=True):
            assert torch.equal(mine.long(), yours.long())
        for name in ("input_ids", "positions", "hidden"):
            assert torch.equal(getattr(got, name)[live].double(), getattr(want, name)[live].double()), name


def test_minimal_runs_max_steps_accept_rows() -> None:
    model = StubModel()
    engine = Engine(draft_config(SPEC), maker(MINIMAL), model)
    a, b = engine.admit(9, 1), engine.admit(6, 2)
    engine.extend([(a, 9), (b, 6)])
    engine.decode([(a, 1), (b, 4)])
    assert [call.query_start_loc.tolist() for call in model.calls[3:]] == [[0, 3, 7]] * 3


def test_the_chain_drafter_advances_by_one_a_step() -> None:
    """One layer; seq_lens + 1 a step; the first draft gathered at r*k + a-1."""
    model = StubModel()
    engine = Engine(draft_config(Spec(4, hidden="single")), maker(DESIGNS["eagle_chain"]), model)
    a, b = engine.admit(9, 1), engine.admit(6, 2)
    engine.extend([(a, 9), (b, 6)])
    engine.decode([(a, 2), (b, 4)])
    calls = model.calls[3:]
    assert [call.depth for call in calls] == [0, 0, 0]
    assert [call.seq_lens.tolist() for call in calls] == [[13, 10], [12, 11], [13, 12]]
    assert [call.sample_rows.tolist() for call in calls] == [[1, 7], [0, 1], [0, 1]]
    assert [call.positions.tolist() for call in calls[1:]] == [[11, 10], [12, 11]]


def test_refusals() -> None:
    with pytest.raises(UsageError, match="every row's argmax"):
        DesignSystem(LIGHTLLM_VANILLA, draft_config(SPEC), StubModel())
    with pytest.raises(HiddenSemanticUnsupported, match="serves chain or target heads"):
        DesignSystem(FRONTIER, draft_config(Spec(4, hidden="shifted")), StubModel())
