"""Speculation does not change the output: token for token, draw for draw, and in distribution (S25)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.simulate.drafters import resolve
from frontier_oracle.property_tests.simulate.lossless import relaxed, same_distribution
from frontier_oracle.property_tests.simulate.prompts import Prompt
from frontier_oracle.property_tests.simulate.run import simulate
from frontier_oracle.property_tests.simulate.sampling import Sampling, accept_lengths
from frontier_oracle.property_tests.tests.small_model import OPTIONS, SMALL, prompts, run, small_model

TINY = replace(SMALL, vocab_size=4, windows=(None, None))


def test_a_verification_that_takes_the_second_best_is_named() -> None:
    done = run(["target", "frontier"], prompts(6, 13), relaxed)
    found = done.findings["frontier"]
    assert found and {f.code for f in found} == {"FO501"}
    own, got = (
        next(r for r in done.run(n).requests if r.prompt.name == found[0].request) for n in ("target", "frontier")
    )
    at = found[0].position - 13
    assert own.output[:at] == got.output[:at] and own.output[at] != got.output[at]
    v = got.rounds[found[0].round]
    assert v.frontier < found[0].position <= v.frontier + v.accept


@pytest.mark.parametrize("sampling", [Sampling(1.0, seed=3), Sampling(0.7, 0.8, seed=4)])
def test_one_seed_gives_one_output_whatever_the_drafter(sampling: Sampling) -> None:
    names = ["target", "frontier", "unrepaired", "recompute"]
    done = run(names, prompts(4, 13), sampling=sampling)
    assert not any(done.findings.values())
    assert done.run("frontier").equal_rounds == done.run("frontier").verify_rounds
    assert done.run("target").output_sha256 != run(["target"], prompts(4, 13)).runs[0].output_sha256


def outputs(name: str, draws: int, seed: int, **kind: object) -> list[tuple[int, ...]]:
    """Outputs of three tokens to one prompt, each with noise of its own."""
    options = replace(
        OPTIONS,
        k=3,
        batch=64,
        max_tokens=3,
        context=16,
        dtype="float32",
        recompute=False,
        sampling=Sampling(1.0, seed=seed),
    )
    served = [Prompt(str(i), 0, "", (1, 2, 3, 0)) for i in range(draws)]
    model = small_model(5, TINY, "float32")
    return [tuple(r.output) for r in simulate(model, [resolve(name)], served, options, **kind).runs[0].requests]


def test_sampled_output_has_the_targets_distribution_and_a_lossy_one_has_not() -> None:
    own = outputs("target", 700, 1)
    assert same_distribution(own, outputs("frontier", 700, 2)) > 0.01
    assert same_distribution(own, outputs("frontier", 700, 3, verify=relaxed)) < 0.001


def test_drafts_are_accepted_with_their_probability_and_else_replaced_from_the_rest() -> None:
    logits = torch.tensor([0.3, -1.0, 1.2, 0.0]).expand(200_000, 4)
    noise = torch.from_numpy(np.random.default_rng(0).random(200_000))
    sampling = Sampling(0.8)
    p = sampling.distribution(logits[:1])[0]
    tokens = sampling.tokens(logits, noise)
    for draft in range(4):
        accepted = tokens == draft
        assert accepted.double().mean().item() == pytest.approx(p[draft].item(), abs=0.005)
        rest = torch.bincount(tokens[~accepted], minlength=4).double() / (~accepted).sum()
        residual = p.clone()
        residual[draft] = 0
        assert rest.tolist() == pytest.approx((residual / residual.sum()).tolist(), abs=0.006)


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert (Sampling(1.0, 0.8).distribution(logits) > 0).tolist() == [[True, True, False, False]]
    assert (Sampling(1.0, 0.81).distribution(logits) > 0).tolist() == [[True, True, True, False]]
    assert (Sampling(1.0, 0.01).distribution(logits) > 0).tolist() == [[True, False, False, False]]
    greedy = torch.tensor([[0.1, 0.9]])
    assert Sampling().tokens(greedy, torch.zeros(1, dtype=torch.float64)).tolist() == [1]


def test_a_temperature_next_to_zero_is_greedy() -> None:
    logits = torch.tensor([[-800.0, 900.0, 899.0]])
    assert Sampling(1e-310).distribution(logits).tolist() == [[0.0, 1.0, 0.0]]


def test_accept_lengths_stop_at_the_first_miss_and_at_what_was_drafted() -> None:
    candidates = torch.tensor([[9, 1, 2, 3], [9, 1, 2, 3], [9, 5, 2, 3], [9, 0, 0, 0]])
    tokens = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4], [0, 0, 0, 0]])
    assert accept_lengths(tokens, candidates, torch.tensor([3, 2, 3, 0])).tolist() == [4, 3, 1, 1]


@pytest.mark.parametrize("temperature, top_p", [(-1.0, 1.0), (float("nan"), 1.0), (1.0, 0.0), (1.0, 1.5)])
def test_a_distribution_that_cannot_be_is_refused(temperature: float, top_p: float) -> None:
    with pytest.raises(UsageError):
        Sampling(temperature, top_p)
