"""The real head in float64: cached drafting equals a dense recompute from scratch, entry by entry, every round (S3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from drafting import Engine, Request, draft_config, paged_head
from torch import Tensor

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.reference_impl import frontier, tokenspeed
from frontier_oracle.reference_impl.model.paged_head import PagedHead
from frontier_oracle.reference_impl.pages import locations

SIZE = 16
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}


def rms_norm(x: Tensor, scale: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * scale


def rotary(x: Tensor, positions: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    angle = positions.double()[:, None] * 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    turned = torch.view_as_complex(torch.stack([x[..., :half], x[..., half:]], -1)) * torch.polar(
        torch.ones_like(angle), angle
    ).unsqueeze(1)
    return torch.cat([turned.real, turned.imag], -1)


def short_conv(x: Tensor, weight: Tensor) -> Tensor:
    rows = [sum(weight[i] * x[p - i] for i in range(len(weight)) if p >= i) for p in range(len(x))]
    return x + torch.stack(rows)


def naive(head: PagedHead, tokens: list[int], hidden: Tensor) -> tuple[list[int], list[Tensor], list[Tensor]]:
    """All depths over all positions 0..F-1, no cache, written out. tokens x[0..F], hidden [F, H].
    Drafts, keys and values."""
    n, spec = len(hidden), head.spec
    tokens, drafts, keys, values = list(tokens), [], [], []
    position = torch.arange(n)
    embedding, previous = head.target.embedding.weight, hidden
    for d in range(spec.steps):
        w = dict(head.chain.depths[d].named_parameters())
        ids = torch.tensor(tokens[d + 1 : d + 1 + n])
        source = previous if spec.hidden == "chain" else hidden
        joined = [rms_norm(source, w["hidden_norm.weight"]), rms_norm(embedding[ids], w["embedding_norm.weight"])]
        x = short_conv(torch.cat(joined, -1) @ w["project.weight"].T, w["convs.0.weight"])
        qkv = (rms_norm(x, w["attention_norm.weight"]) @ w["attention.qkv.weight"].T).unflatten(-1, (4, -1))
        q, k, v = qkv[:, :2], qkv[:, 2:3], qkv[:, 3:]
        q, k = rotary(q, position), rotary(k, position)
        back = position[:, None] - position
        seen = (back >= 0) & (back < (spec.window_of(d) or n))
        scores = torch.einsum("nhe,me->hnm", q, k[:, 0]) * q.shape[-1] ** -0.5
        mixed = torch.einsum("hnm,me->nhe", scores.masked_fill(~seen, -torch.inf).softmax(-1), v[:, 0])
        x = short_conv(x + mixed.reshape(n, -1) @ w["attention.out.weight"].T, w["convs.1.weight"])
        gate, up = (rms_norm(x, w["mlp_norm.weight"]) @ w["mlp.up.weight"].T).chunk(2, -1)
        x = x + (F.silu(gate) * up) @ w["mlp.down.weight"].T
        draft = int((rms_norm(x[-1], head.chain.norm.weight) @ embedding.T).argmax())
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
        torch.testing.assert_close(eng.model.kv[d].keys.flatten(0, 1)[loc], keys[d][first:], **TOLERANCE)
        torch.testing.assert_close(eng.model.kv[d].values.flatten(0, 1)[loc], values[d][first:], **TOLERANCE)


def make_engine(spec: Spec, seed: int, make=frontier.make) -> Engine:
    config = draft_config(spec, max_positions=80, num_slots=4, size=SIZE)
    return Engine(config, make, paged_head(config, seed=1), seed)


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


def test_ids_of_equal_rows_give_what_ragged_ones_give() -> None:
    """``forward_into``, which graphs capture, against ``forward``."""
    results = []
    for in_place in (False, True):
        eng = make_engine(SPECS[3], seed=6)
        a, b = eng.admit(9, 1), eng.admit(5, 3)
        eng.extend([(a, 9), (b, 5)])
        if in_place:
            eng.system.model = InPlace(eng.model, eng.k)
        results.append(torch.cat([eng.decode([(a, n), (b, 5 - n)], pad_to=3)[:2] for n in (2, 1, 4)]))
        check(eng, a)
    assert torch.equal(*results)


class InPlace:
    """Calls a head as a captured drafter does."""

    def __init__(self, head: PagedHead, k: int) -> None:
        self.head, self.k = head, k

    def forward(self, inputs):
        draft = torch.empty(len(inputs.seq_lens), dtype=torch.int32)
        ids = inputs.input_ids.view(-1, self.k)
        return self.head.forward_into(replace(inputs, input_ids=ids), draft), draft


def test_a_config_for_another_model_is_refused() -> None:
    head = make_engine(SPECS[0], seed=0).model
    for spec in (Spec(k=5), Spec(k=4, conv_width=2), Spec(k=4, groups=(CacheGroup(4, window=8),))):
        with pytest.raises(UsageError):
            PagedHead(draft_config(spec, size=SIZE), head.chain, head.target)
