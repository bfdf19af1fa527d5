"""The comparison of captured rounds with eager ones, on a CPU: the tape in the graph's place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from frontier_oracle.property_tests.registry import load_system
from frontier_oracle.property_tests.simulate import gpu
from frontier_oracle.property_tests.simulate.pairs import Pair, PairOf
from frontier_oracle.property_tests.simulate.run import prepare
from frontier_oracle.property_tests.tests.small_model import OPTIONS, SMALL, forced, prompts, small_model
from frontier_oracle.reference_impl.frontier import Frontier
from frontier_oracle.reference_impl.model.weights import random_model, save


def test_the_tape_drafts_as_eager_rounds_do(tmp_path: Path) -> None:
    text = tmp_path / "text.py"
    text.write_text("for i in range(3):\n    print(i)\n" * 30)
    wide = replace(SMALL, vocab_size=264, windows=(None, 12) * 3 + (None,))
    save(random_model(wide), tmp_path / "weights")
    out = tmp_path / "out.json"
    fixed = ["--device", "cpu", "--dtypes", "float32", "--prompts", "8", "--max-tokens", "6", "--batch", "4"]
    assert gpu.main([str(text), "--out", str(out), "--weights", str(tmp_path / "weights"), *fixed]) == 0
    (done,) = json.loads(out.read_text())["runs"]
    assert done["drafts"]["cuda_eager"]["differing"] == 0 and done["drafts"]["cuda_eager"]["request_rounds"] >= 32
    assert [t["name"] for t in done["times"]] == ["target", "frontier", "cuda_eager", "cuda_tape"]
    assert all(t["tokens"] == 24 and t["tokens_per_second"] > 0 for t in done["times"])


def pair_with(factory: object) -> Pair:
    options = replace(OPTIONS, dtype="float32", recompute=False)
    pair = PairOf("cuda_tape", load_system("cuda_tape"), against=factory)  # type: ignore[arg-type]
    engine = prepare(small_model(dtype="float32"), pair, options, 21, verify=forced())
    engine.run(prompts(5, 21))
    assert isinstance(engine.drafter, Pair)
    return engine.drafter


def test_a_book_keeping_fault_is_no_tie() -> None:
    class Stale(Frontier):
        def next_stash(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
            return ids[:, :-1], hidden[:, :-1]

    found = pair_with(Stale).as_data()
    assert 0 < found["differing"] <= found["request_rounds"] and found["ties"] < found["differing"]
    assert not pair_with(Frontier).differences


def test_a_tie_is_told_from_a_fault_by_its_margin() -> None:
    pair = pair_with(Frontier)
    near = pair._weigh(1, 2, 3, torch.tensor([0.0, 4.0, 1.0, 4.0 - 4e-7]))
    assert near.tie and near.ulps < 2 and (near.slot, near.depth) == (1, 2)
    assert not pair._weigh(1, 2, 3, torch.tensor([0.0, 4.0, 1.0, 3.9])).tie
    assert not pair._weigh(1, 2, 2, torch.tensor([0.0, 4.0, 4.0 - 1e-6, 4.0])).tie, "not even the runner-up"


def test_a_difference_turns_the_result() -> None:
    good = {"drafts": {"cuda_eager": {"differing": 0}, "frontier": {"differing": 2, "ties": 2}}}
    assert gpu.clean(good)
    for name, counts in (("cuda_eager", {"differing": 1}), ("frontier", {"differing": 2, "ties": 1})):
        assert not gpu.clean({"drafts": good["drafts"] | {name: counts}})
