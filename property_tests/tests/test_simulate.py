"""Serving with speculative decoding: exact drafters draft as a recomputation does, and outputs are the target's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, ExtendBatch
from frontier_oracle.oracle.errors import HiddenSemanticUnsupported, UsageError
from frontier_oracle.property_tests.shield import AdapterError
from frontier_oracle.property_tests.simulate.drafters import chain_designs, resolve
from frontier_oracle.property_tests.simulate.memory import Memory
from frontier_oracle.property_tests.simulate.requests import CONTEXT, EOS, LENGTH, chunk_lengths
from frontier_oracle.property_tests.simulate.run import serve, simulate
from frontier_oracle.property_tests.tests.small_model import OPTIONS, SMALL, accepts, forced, prompts, run, small_model
from frontier_oracle.reference_impl.frontier import Frontier

EXACT = ("frontier", "minimal", "vllm_multi_module", "recompute")


def dense_output(tokens: list[int], length: int) -> list[int]:
    """Greedy decoding by a dense pass over everything, again for each token."""
    model, known = small_model(), list(tokens)
    with torch.no_grad():
        for _ in range(length):
            known.append(int(model.target.logits(model.target(torch.tensor([known])))[0, -1].argmax()))
    return known[len(tokens) :]


def test_the_target_alone_decodes_as_a_dense_model_does() -> None:
    served = prompts(6, 11)
    done = run(["target"], served, chunk=4).run("target")
    for request in done.requests:
        assert request.output == dense_output(list(request.prompt.tokens), 20)
        assert request.finish == LENGTH and len(request.rounds) == 19


@pytest.mark.parametrize("chunk, turns", [(0, 1), (5, 1), (3, 3)])
def test_exact_drafters_draft_what_a_recomputation_drafts(chunk: int, turns: int) -> None:
    done = run(EXACT, prompts(4, 21, turns), forced(), chunk=chunk, batch=3)
    for name in EXACT:
        assert done.run(name).equal_rounds == done.run(name).verify_rounds
        assert accepts(done.run(name)) == accepts(done.run("recompute"))
    assert set(accepts(done.run("recompute"))) == {1, 2, 3, 4}


def test_lookback_is_exact_where_prompts_are_whole() -> None:
    done = run(["tokenspeed_lookback", "frontier"], prompts(7, 21), forced())
    assert done.run("tokenspeed_lookback").equal_rounds == done.run("tokenspeed_lookback").verify_rounds
    assert accepts(done.run("tokenspeed_lookback")) == accepts(done.run("frontier"))


@pytest.mark.parametrize("name", ["unrepaired", "sglang_default", "vllm_step3p5"])
def test_designs_with_holes_draft_otherwise(name: str) -> None:
    done = run([name], prompts(7, 21), forced()).runs[0]
    assert done.equal_rounds is not None and done.equal_rounds < done.verify_rounds


def test_every_chain_design_keeps_the_output() -> None:
    names = ["target", *chain_designs(), "cuda_eager", "cuda_tape"]
    done = run(names, prompts(2, 17, 2), chunk=9, max_tokens=9, dtype="float32", recompute=False)
    assert set(done.findings) == set(names[1:]) and not any(done.findings.values())
    assert len({r.output_sha256 for r in done.runs}) == 1


def test_later_turns_meet_the_pages_of_earlier_ones() -> None:
    done = run(["frontier"], prompts(4, 32, 2), forced(), batch=2).runs[0]
    hits = {r.prompt.turn: r.holding.hit for r in done.requests}
    assert hits == {0: 0, 1: 12}  # 16 shared tokens, less 3 successors, in pages of 4
    assert done.equal_rounds == done.verify_rounds


def test_a_drafter_that_keeps_a_stale_stash_is_seen() -> None:
    class Stale(Frontier):
        def next_stash(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
            return ids[:, :-1], hidden[:, :-1]

    planted = replace(resolve("frontier"), factory=Stale)
    model, served = small_model(), prompts(4, 21)
    from frontier_oracle.property_tests.simulate.ideal import Ideal

    done = serve(model, planted, served, OPTIONS, Ideal(model.target, model.chain, 3), forced())
    assert done.equal_rounds is not None and done.equal_rounds < done.verify_rounds


def test_a_drafter_that_damages_what_it_is_given_does_not_reach_the_ideal() -> None:
    class Damages(Frontier):
        def extend(self, batch: ExtendBatch) -> Tensor:
            batch.hidden.mul_(-0.5)
            return super().extend(batch)

    planted = replace(resolve("frontier"), name="damages", factory=Damages)
    done = simulate(small_model(), [planted, resolve("frontier")], prompts(4, 21), OPTIONS, forced())
    equal = {run.name: run.equal_rounds == run.verify_rounds for run in done.runs}
    assert equal == {"damages": False, "frontier": True}


@pytest.mark.parametrize(
    "returned, says",
    [
        (lambda rows: rows[:, :2], "expected integers"),
        (lambda rows: rows[:1], "expected integers"),
        (lambda rows: rows.double(), "torch.float64"),
        (lambda rows: None, "returned NoneType"),
        (lambda rows: rows + 1000, "outside 0..11"),
        (lambda rows: rows * 0 - 1, "outside 0..11"),
    ],
)
def test_drafts_that_are_none_are_the_adapters_fault(returned: Callable[[Tensor], object], says: str) -> None:
    class Wrong(Frontier):
        def decode(self, batch: DecodeBatch) -> object:
            return returned(super().decode(batch))

    with pytest.raises(AdapterError, match=says):
        serve(small_model(), replace(resolve("frontier"), factory=Wrong), prompts(4, 21), OPTIONS)


def test_an_output_ends_at_eos_at_its_limit_or_with_the_context() -> None:
    plain = run(["target"], prompts(6, 11)).runs[0]
    eos = plain.requests[0].output[5]
    done = run(["target", "frontier"], prompts(6, 11), eos=eos, context=28)
    assert not done.findings["frontier"]
    for request in done.run("frontier").requests:
        assert request.finish == (EOS if eos in request.output else CONTEXT)
        assert request.output.count(eos) == (request.finish == EOS)
        assert len(request.tokens) <= 28
        assert sum(v.committed for v in request.rounds) + 1 == len(request.output)
    assert {r.finish for r in done.run("frontier").requests} == {EOS, CONTEXT}


def test_rows_are_counted_as_the_atlas_counts_them() -> None:
    done = run(["frontier", "minimal", "recompute"], prompts(3, 13), recompute=False)
    going = {name: [v for r in done.run(name).requests for v in r.rounds[:-1]] for name in ("frontier", "minimal")}
    assert done.run("frontier").rows == 4 * 3 * len(going["frontier"])
    assert done.run("minimal").rows == sum(3 * max(3, v.accept) for v in going["minimal"])
    assert done.run("recompute").rows == sum(3 * (v.frontier + v.accept) for v in going["frontier"])


def test_chunks_join_where_a_scheduler_vouches_for_the_last_one() -> None:
    assert chunk_lengths(0, 12, 5, 0) == [5, 5, 2]
    assert chunk_lengths(4, 12, 5, 4) == [8]
    assert chunk_lengths(0, 12, 0, 3) == [12]


def test_pages_return_when_the_prefix_cache_lets_go() -> None:
    memory = Memory(SMALL.spec(4, 4), 4, slots=2, positions=40, chunk=10, kept=1)
    free = [len(pool.free) for pool in memory.pools]
    for start in range(3):
        holding = memory.admit(list(range(start, start + 10)))
        memory.ensure(holding, 30)
        holding.computed = 10
        memory.leave(holding)
    assert len(memory.gone) == 1
    used = [before - len(pool.free) for before, pool in zip(free, memory.pools, strict=True)]
    assert used == [sum(p > 0 for p in table.pages) for table in memory.gone[0].tables]


@pytest.mark.parametrize(
    "name, says",
    [
        ("frontie", "did you mean 'frontier'"),
        ("tensorrt_llm_vanilla", "serves shifted heads"),
        ("lightllm_vanilla", "reads every row's argmax"),
        ("generic:nothing", "unknown design"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(name: str, says: str) -> None:
    with pytest.raises((UsageError, HiddenSemanticUnsupported), match=says):
        resolve(name)


def test_options_refuse_what_cannot_be() -> None:
    for changes in ({"dtype": "float16"}, {"batch": 0}, {"chunk": -1}):
        with pytest.raises(UsageError):
            replace(OPTIONS, **changes)
