"""EXTEND rounds against a positional loop, for all chunkings of short prompts; slots and adoption."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from drafting import Engine, Request, StubModel, draft_config

from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.reference_impl import frontier, tokenspeed


def chunkings(length: int) -> list[list[int]]:
    cuts = [c for n in range(length) for c in combinations(range(1, length), n)]
    return [[b - a for a, b in zip((0, *c), (*c, length), strict=True)] for c in cuts]


def engine(make, spec: Spec, seed: int = 0) -> tuple[Engine, StubModel]:
    model = StubModel()
    config = draft_config(spec, max_positions=24, num_slots=6)
    return Engine(config, make, model, seed, low=100, high=10**6), model


def check_chunk(eng: Engine, model: StubModel, request: Request, start: int, held: int, r: int, loose: bool) -> None:
    """One request's rows of the last ``steps`` calls. ``held``: valid stash entries before; loose: tokenspeed."""
    end, steps, k = request.computed, eng.steps, eng.k
    final = end == request.prompt_len
    last = request.prompt_len if final else request.prompt_len - 1
    again = 0 if loose or not final else min(max(steps - (end - start), 0), start)
    for d, call in enumerate(model.calls[-steps:]):
        lo, hi = call.query_start_loc[r].item(), call.query_start_loc[r + 1].item()
        assert hi - lo == end - start + again
        assert call.seq_lens[r] == end and call.sample_rows[r] == hi - 1
        for row in range(lo, hi):
            p = end - (hi - row)
            if p < start - held:
                assert call.out_cache_loc[0][row] == 0 and call.input_ids[row] == 0 and not call.hidden[row].any()
                continue
            t = p + d + 1
            known = t <= (end if loose else last)
            drafted = model.tokens[t - end - 1 - steps][r] if t > end else None
            assert call.input_ids[row] == (request.tokens[t] if known else drafted), (d, p)
            assert call.positions[row] == p
            page = eng.config.spec.groups[0].page_size
            assert call.out_cache_loc[0][row] == int(request.tables[0][p // page]) * page + p % page
            want = eng.hidden(request.tokens, p) if d == 0 else model.outputs[d - 1 - steps][row]
            assert torch.equal(call.hidden[row], want)
    view = eng.system.stash()
    now = min(k - 1, held + end - start)
    assert loose or view.valid_lens[request.slot] == now
    for i in range(k - 1 - now, k - 1):
        p = end - k + 1 + i
        assert view.tokens[request.slot, i] == request.tokens[p + 1]
        assert torch.equal(view.hidden[request.slot, i], eng.hidden(request.tokens, p))


@pytest.mark.parametrize("make", [frontier.make, tokenspeed.make])
@pytest.mark.parametrize(("k", "steps"), [(2, 1), (3, 3), (4, 3), (4, 2), (5, 5)])
@pytest.mark.parametrize("length", range(1, 9))
def test_every_chunking(make, k: int, steps: int, length: int) -> None:
    loose = make is tokenspeed.make
    for chunks in chunkings(length):
        eng, model = engine(make, Spec(k=k, steps=steps, groups=(CacheGroup(3),)))
        request = eng.admit(length, slot=2)
        for n in chunks:
            start = request.computed
            result = eng.extend([(request, n)])
            assert result.dtype == torch.int32
            assert result[0, 1:].tolist() == [int(t[0]) for t in model.tokens[-steps:]]
            check_chunk(eng, model, request, start, min(k - 1, start), 0, loose)
        assert result[0, 0] == request.tokens[length]


def test_ragged_batch_of_chunks_at_different_stages() -> None:
    eng, model = engine(frontier.make, Spec(k=5, groups=(CacheGroup(4),)))
    a, b, c = eng.admit(9, slot=3), eng.admit(2, slot=1), eng.admit(7, slot=5)
    plan = [[(a, 5)], [(c, 3), (a, 3)], [(b, 1), (a, 1), (c, 3)], [(c, 1), (b, 1)]]
    for chunks in plan:
        before = {q.slot: q.computed for q, _ in chunks}
        eng.extend(chunks)
        for r, (request, _) in enumerate(chunks):
            start = before[request.slot]
            check_chunk(eng, model, request, start, min(4, start), r, loose=False)


def test_a_new_request_sees_nothing_of_its_slots_last_owner() -> None:
    eng, model = engine(frontier.make, Spec(k=4, groups=(CacheGroup(4),)))
    old = eng.admit(9, slot=2)
    eng.extend([(old, 9)])
    eng.decode([(old, 3)])
    eng.finish(old)
    new = eng.admit(2, slot=2)
    for n in (1, 1):
        start = new.computed
        eng.extend([(new, n)])
        check_chunk(eng, model, new, start, start, 0, loose=False)


def test_adoption_voids_the_stash_and_loads_the_conv_state() -> None:
    eng, model = engine(frontier.make, Spec(k=4, groups=(CacheGroup(4),)))
    old = eng.admit(9, slot=2)
    eng.extend([(old, 9)])
    new = eng.admit(10, slot=2)
    eng.system.adopt(2, [11, 12], 8)
    assert model.loaded == [(2, 12, 8)]
    new.computed = 8
    eng.extend([(new, 1)])
    check_chunk(eng, model, new, 8, 0, 0, loose=False)
    eng.extend([(new, 1)])
    check_chunk(eng, model, new, 9, 1, 0, loose=False)


def test_tokenspeed_leaves_drafts_at_the_tail_of_inner_chunks() -> None:
    """Chunks 5,5,2 at k=4: the entries that SEMANTICS §9 names, and no other."""
    eng, model = engine(tokenspeed.make, Spec(k=4, groups=(CacheGroup(4),)))
    request = eng.admit(12, slot=1)
    wrong = set()
    for n in (5, 5, 2):
        start = request.computed
        eng.extend([(request, n)])
        for d, call in enumerate(model.calls[-3:]):
            rows = enumerate(call.input_ids.tolist(), start)
            known = ((p, token) for p, token in rows if p + d + 1 <= 12)
            wrong |= {(d, p) for p, token in known if token != request.tokens[p + d + 1]}
    assert wrong == {(1, 4), (1, 9), (2, 3), (2, 4), (2, 8), (2, 9)}


def test_tokenspeed_borrows_from_the_slots_last_owner() -> None:
    eng, _ = engine(tokenspeed.make, Spec(k=4, groups=(CacheGroup(4),)))
    old = eng.admit(9, slot=2)
    eng.extend([(old, 9)])
    new = eng.admit(1, slot=2)
    eng.extend([(new, 1)])
    view = eng.system.stash()
    assert view.tokens[2].tolist() == [*old.tokens[8:10], new.tokens[1]]
