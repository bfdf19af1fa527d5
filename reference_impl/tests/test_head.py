"""The real head in float64: cached drafting equals a dense recompute from scratch, entry by entry, every round (S3)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from drafting import VOCAB, Engine, Request, draft_config
from torch import Tensor

from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.reference_impl import frontier, tokenspeed
from frontier_oracle.reference_impl.head import DraftHead, rms_norm, rotary
from frontier_oracle.reference_impl.pages import locations

SIZE, HEADS = 16, 2
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}


def naive(head: DraftHead, tokens: list[int], hidden: Tensor) -> tuple[list[int], list[Tensor], list[Tensor]]:
    """All depths over all positions 0..F-1, no cache. tokens x[0..F], hidden [F, H]. Drafts, keys and values."""
    n, spec = len(hidden), head.spec
    tokens, drafts, keys, values = list(tokens), [], [], []
    position = torch.arange(n)
    previous = hidden
    for d, block in enumerate(head.blocks):
        ids = torch.tensor(tokens[d + 1 : d + 1 + n])
        source = previous if spec.hidden == "chain" else hidden
        x = torch.cat([rms_norm(head.embedding[ids]), rms_norm(source)], -1) @ block["project"].T
        padded = F.pad(x, (0, 0, spec.taps, 0))
        x = x + sum(padded[spec.taps - i : spec.taps - i + n] * block["conv"][i] for i in range(spec.conv_width))
        q, k, v = (rms_norm(x) @ block["qkv"].T).view(n, 3, HEADS, -1).unbind(1)
        q, k = rotary(q, position), rotary(k, position)
        back = position[:, None] - position
        seen = (back >= 0) & (back < (spec.window_of(d) or n))
        scores = torch.einsum("nhe,mhe->hnm", q, k) * q.shape[-1] ** -0.5
        mixed = torch.einsum("hnm,mhe->nhe", scores.masked_fill(~seen, -torch.inf).softmax(-1), v)
        x = x + mixed.reshape(n, -1) @ block["attention_out"].T
        x = x + F.silu(rms_norm(x) @ block["up"].T) @ block["down"].T
        draft = int((rms_norm(x[-1]) @ head.output_head.T).argmax())
        drafts.append(draft)
        tokens.append(draft)
        keys.append(k)
        values.append(v)
        previous = x
    return drafts, keys, values


def recompute(eng: Engine, request: Request) -> tuple[list[int], list[Tensor], list[Tensor]]:
    hidden = torch.stack([eng.hidden(request.tokens, p) for p in range(request.computed)])
    return naive(eng.model, request.tokens[: request.computed + 1], hidden)


def check(eng: Engine, request: Request) -> None:
    """Drafts, and every KV entry that attention can still reach, equal the recompute."""
    drafts, keys, values = recompute(eng, request)
    assert request.drafts == drafts
    spec, n = eng.config.spec, request.computed
    for d in range(spec.steps):
        group = spec.group_of(d)
        table = request.tables[group][None]
        first = max(0, n - (spec.window_of(d) or n))
        live = torch.arange(first, n)
        loc = locations(table, spec.groups[group].page_size, torch.zeros_like(live), live)
        torch.testing.assert_close(eng.model.kv.keys[d][loc], keys[d][first:], **TOLERANCE)
        torch.testing.assert_close(eng.model.kv.values[d][loc], values[d][first:], **TOLERANCE)


def make_engine(spec: Spec, seed: int, make=frontier.make) -> Engine:
    config = draft_config(spec, max_positions=80, num_slots=4, size=SIZE)
    return Engine(config, make, DraftHead(config, VOCAB, HEADS, seed=1), seed)


def cut(rng: np.random.Generator, length: int) -> list[int]:
    chunks = []
    while length:
        chunks.append(int(rng.integers(1, min(length, 7) + 1)))
        length -= chunks[-1]
    return chunks


SPECS = [
    Spec(k=4),
    Spec(k=4, hidden="target", groups=(CacheGroup(4),)),
    Spec(k=3, steps=3, conv_width=1, groups=(CacheGroup(1),)),
    Spec(k=4, conv_width=4, groups=(CacheGroup(4), CacheGroup(3, window=6))),
    Spec(k=5, steps=2, conv_width=2, groups=(CacheGroup(2, window=4),), ring_rows=11),
    Spec(k=2, conv_width=3, groups=(CacheGroup(5),)),
]


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_drafts_and_entries_equal_recompute_from_scratch(spec: Spec, seed: int) -> None:
    eng = make_engine(spec, seed)
    rng = eng.rng
    free, live = [1, 2, 3], []
    for _ in range(8):
        while free and (not live or rng.random() < 0.5):
            request = eng.admit(int(rng.integers(1, 15)), free.pop())
            for n in cut(rng, request.prompt_len):
                eng.extend([(request, n)])
            check(eng, request)
            live.append(request)
        rng.shuffle(live)
        eng.decode([(q, int(rng.integers(1, spec.max_accept + 1))) for q in live], pad_to=int(rng.integers(0, 6)))
        for request in live:
            check(eng, request)
        if rng.random() < 0.3:
            eng.finish(live[-1])
            free.append(live.pop().slot)


def test_chunks_of_several_requests_in_one_round() -> None:
    eng = make_engine(SPECS[3], seed=5)
    a, b = eng.admit(9, 1), eng.admit(11, 3)
    for chunks in ([(a, 6)], [(b, 10), (a, 2)], [(a, 1), (b, 1)]):
        eng.extend(chunks)
    check(eng, a)
    check(eng, b)


def test_one_extend_over_everything_gives_the_same_drafts() -> None:
    """The recompute done by the system itself, with fresh caches and other pages."""
    eng = make_engine(SPECS[0], seed=3)
    request = eng.admit(7, 2)
    for n in (3, 3, 1):
        eng.extend([(request, n)])
    for a in (1, 4, 2, 1, 3):
        eng.decode([(request, a)])
        fresh = make_engine(SPECS[0], seed=99)
        again = fresh.admit(request.computed, 1)
        again.tokens = list(request.tokens)
        fresh.extend([(again, request.computed)])
        assert again.drafts == request.drafts


@pytest.mark.parametrize(("steps", "chunks"), [(3, [1, 4, 1]), (3, [2, 1]), (1, [1]), (2, [1, 1])])
def test_a_prefix_hit_in_a_reused_slot(steps: int, chunks: list[int]) -> None:
    """8 positions from the cache, with ``steps`` more prompt tokens shared, so that their entries hold (S21).

    Taps come from the checkpoint, and the last owner's stash must not reach the shared pages (S19): with fewer steps
    than k-1 the first windows reach below the hit."""
    eng = make_engine(Spec(k=4, steps=steps, groups=(CacheGroup(4),)), seed=4)
    donor = eng.admit(13, 1)
    for n in (7, 6):
        eng.extend([(donor, n)])
    eng.decode([(donor, 2)])
    owner = eng.admit(9, 2)
    eng.extend([(owner, 9)])
    eng.finish(owner)
    heir = eng.admit(8 + sum(chunks), 2)
    heir.tokens[: 8 + steps] = donor.tokens[: 8 + steps]
    heir.tables[0][:2] = donor.tables[0][:2]
    eng.system.adopt(2, heir.tables[0].tolist(), 8)
    heir.computed = 8
    for n in chunks:
        eng.extend([(heir, n)])
    check(eng, heir)
    for a in (1, 1, 2):
        eng.decode([(heir, a), (donor, a)])
        check(eng, heir)
        check(eng, donor)


def test_padding_leaves_live_rows_alone() -> None:
    results = []
    for pad_to in (0, 4):
        eng = make_engine(SPECS[0], seed=6)
        request = eng.admit(5, 2)
        eng.extend([(request, 5)])
        results.append(torch.stack([eng.decode([(request, a)], pad_to)[0] for a in (2, 1, 4)]))
    assert torch.equal(*results)


def test_the_check_sees_a_design_that_is_not_exact() -> None:
    eng = make_engine(SPECS[0], seed=0, make=tokenspeed.make)
    request = eng.admit(12, 1)
    for n in (5, 5, 2):
        eng.extend([(request, n)])
    with pytest.raises(AssertionError):
        check(eng, request)
