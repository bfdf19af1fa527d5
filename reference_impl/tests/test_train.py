"""Training: text apart, batches and runs that follow from the seed, and stretches that equal an unbroken run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reference_impl.model import weights
from frontier_oracle.reference_impl.model.config import BOS, EOS, ModelConfig
from frontier_oracle.reference_impl.model.train import checkpoint, corpus, loop
from frontier_oracle.reference_impl.model.train.corpus import Batches, Corpus
from frontier_oracle.reference_impl.model.train.losses import accuracy
from frontier_oracle.reference_impl.model.train.recipe import SMOKE, Recipe

TINY = Recipe(
    ModelConfig(
        hidden_size=16, layers=1, heads=2, kv_heads=1, intermediate_size=24, draft_intermediate_size=24,
        windows=(None, 4),
    ),
    steps=12, batch=4, context=16, warmup=2, evaluate_every=5, seed=3,
)  # fmt: skip


@pytest.fixture
def text() -> Corpus:
    pattern = (b"def f(x):\n    return x + 1\n\n" * 40, b"for i in range(9):\n    print(i)\n" * 30)
    return Corpus(corpus.pack([("a.py", pattern[0]), ("b.py", pattern[1])]), corpus.pack([("c.py", pattern[1])]))


def test_the_standard_library_is_split_by_path() -> None:
    folder = corpus.standard_library()
    found = corpus.read_corpus(folder)
    assert found.train.files > 10 * found.held_out.files > 0
    assert found.train.bytes + 2 * found.train.files == len(found.train.tokens) == found.facts()["train"]["tokens"]
    assert corpus.is_held_out("abc.py") == corpus.is_held_out("abc.py")


def test_packing_keeps_every_byte(tmp_path: Path) -> None:
    part = corpus.pack([("x.py", b"\x00\xffz"), ("y.py", b"")])
    assert part.tokens.tolist() == [BOS, 0, 255, 122, EOS, BOS, EOS]
    assert (part.files, part.bytes) == (2, 3)
    others = ([("x.py", b"\x00\xff"), ("y.py", b"z")], [("y.py", b"\x00\xffz"), ("x.py", b"")])
    assert len({part.sha256, *(corpus.pack(other).sha256 for other in others)}) == 3
    (tmp_path / "only.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match="name a larger folder"):
        corpus.read_corpus(tmp_path)


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    tokens = np.arange(1000, dtype=np.uint16)
    one, again, other = (Batches(tokens, 4, 10, seed, "cpu") for seed in (1, 1, 2))
    one(0)
    assert torch.equal(one(5), again(5))
    assert not torch.equal(one(5), one(6)) and not torch.equal(one(5), other(5))
    assert torch.equal(one(5) - one(5)[:, :1], torch.arange(10).expand(4, 10))
    with pytest.raises(UsageError, match="name more text"):
        Batches(tokens, 4, 1000, 0, "cpu")


def test_a_run_in_stretches_equals_one_in_one_go(tmp_path: Path, text: Corpus) -> None:
    whole = loop.train(TINY, text, tmp_path / "whole")
    assert whole.done and [e["step"] for e in whole.evaluations] == [5, 10, 12]
    stopped = 0
    while not (run := loop.train(TINY, text, tmp_path / "parts", max_seconds=0)).done:
        stopped += 1
        assert run.steps == stopped
    assert stopped == 11 and run.curve == whole.curve
    for name, tensor in whole.model.tensors().items():
        assert torch.equal(tensor, run.model.tensors()[name]), name
    assert run.evaluations[-1] == whole.evaluations[-1]
    saved = weights.load(tmp_path / "whole", "bfloat16")
    assert torch.equal(saved.target.norm.weight, whole.model.target.norm.weight.bfloat16())
    again = loop.train(TINY, text, tmp_path / "whole")
    assert again.done and again.seconds == whole.seconds


def test_a_run_killed_between_checkpoint_and_weights_writes_them_when_called_again(
    tmp_path: Path, text: Corpus
) -> None:
    run = loop.train(TINY, text, tmp_path)
    for file in tmp_path.glob(weights.SHARDS):
        file.unlink()
    assert loop.train(TINY, text, tmp_path).done
    saved = weights.load(tmp_path, "bfloat16").tensors()
    assert all(torch.equal(t.bfloat16(), saved[name]) for name, t in run.model.tensors().items())


def test_what_is_no_file_is_no_text_and_any_name_will_do(tmp_path: Path) -> None:
    for i in range(40):
        (tmp_path / f"m{i}.py").write_text("x = 1\n")
    before = corpus.read_corpus(tmp_path)
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere")
    assert corpus.read_corpus(tmp_path).facts() == before.facts()
    (tmp_path / "n\udcff.py").write_text("x = 1\n")
    found = corpus.read_corpus(tmp_path)
    assert found.train.files + found.held_out.files == 41


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path, text: Corpus) -> None:
    loop.train(TINY, text, tmp_path)
    with pytest.raises(UsageError, match="another recipe or text"):
        loop.train(replace(TINY, seed=4), text, tmp_path)
    with pytest.raises(UsageError, match="another recipe or text"):
        loop.train(TINY, Corpus(text.held_out, text.train), tmp_path)
    file = tmp_path / checkpoint.NAME
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UsageError, match="not a readable checkpoint"):
        loop.train(TINY, text, tmp_path)


def test_training_lowers_every_loss(tmp_path: Path, text: Corpus) -> None:
    run = loop.train(replace(TINY, steps=60, learning_rate=1e-2, evaluate_every=60), text, tmp_path)
    first, last = run.curve[0][1], run.curve[-1][1]
    assert len(first) == 1 + TINY.model.depths
    assert all(b < a - 1 for a, b in zip(first, last, strict=True))


def test_accuracy_of_a_chain_that_copies_the_target(text: Corpus) -> None:
    """All scores equal: every predictor chooses token 0, so all agree, and the accept length is the longest."""
    model = weights.random_model(TINY.model)
    for module in (model.target, model.chain):
        module.norm.weight.zero_()
    found = accuracy(model, [Batches(text.train.tokens, 2, TINY.row, 0, "cpu")(0)])
    assert found["agrees"] == found["prefix"] == [1.0, 1.0]
    assert found["expected_accept_length"] == 3.0
    assert found["top1"] == [0.0, 0.0, 0.0]
    assert found["loss"] == pytest.approx([np.log(264)] * 3)


def test_the_learning_rate_rises_stands_and_falls_to_zero() -> None:
    recipe = replace(SMOKE, steps=100, warmup=10, decay=0.5, learning_rate=1.0)
    rates = [recipe.learning_rate_at(step) for step in range(100)]
    assert rates[0] == 0.1 and rates[9] == rates[50] == 1.0
    assert rates[75] == 0.5 and rates[99] == pytest.approx(0.02)
