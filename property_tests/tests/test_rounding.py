"""Designs beside each other in lower precision: right ones differ by rounding ties alone, a fault is never a tie."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, ExtendBatch
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.simulate import led, results, rounding
from frontier_oracle.property_tests.simulate.drafters import Named, resolve
from frontier_oracle.property_tests.simulate.run import prepare
from frontier_oracle.property_tests.simulate.tally import KEPT, Tally
from frontier_oracle.property_tests.simulate.watch import Watch, widened
from frontier_oracle.property_tests.tests.small_model import OPTIONS, SMALL, forced, prompts, small_model
from frontier_oracle.reference_impl.frontier import Frontier
from frontier_oracle.reference_impl.model.weights import Model, random_model, save

EXACT = ("frontier", "minimal", "lookback", "vllm_multi_module", "recompute")
LOW = ("bfloat16", "float32")
Factory = Callable[[DraftConfig, DraftModel], Any]


def against_frontier(factory: Factory, dtype: str, model: Model | None = None) -> Tally:
    members = [resolve("frontier"), Named("faulty", factory)]
    model = model or small_model(dtype=dtype)
    options = replace(OPTIONS, dtype=dtype, recompute=False)
    done = led.compare(model, led.led_by(model, members), prompts(9, 21), options, forced())
    assert done.request_rounds >= 40
    return done.tallies[0]


@pytest.mark.parametrize("dtype", LOW)
@pytest.mark.parametrize("chunk", [0, 8])
def test_exact_designs_differ_by_ties_alone(dtype: str, chunk: int) -> None:
    names = [name for name in EXACT if not chunk or name != "lookback"]  # its chunks' tails read drafts, as declared
    model = small_model(dtype=dtype)
    options = replace(OPTIONS, dtype=dtype, chunk=chunk, recompute=False)
    turns = prompts(16, 24, turns=3)
    done = led.compare(model, led.led(model, names), turns, options, forced())
    assert [tally.name for tally in done.tallies] == [resolve(name).name for name in names[1:]]
    for tally in done.tallies:
        data = tally.as_data()
        assert data["faults"] == 0 and data["ties"] == data["differing"], data
        assert data["request_rounds"] == done.request_rounds >= 200
        assert 0 < data["median_error"] <= data["largest_error"] < (0.1 if dtype == "bfloat16" else 1e-5)
    assert max(max(tally.books) for tally in done.tallies) < 1e-13
    if dtype == "bfloat16":
        assert sum(len(tally.found) for tally in done.tallies) > 0, "a run without a difference shows nothing"


class Stale(Frontier):
    """Its stash is one entry behind."""

    def next_stash(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return ids[:, :-1], hidden[:, :-1]


class Nudged(Frontier):
    """The oldest row of its window gets a hidden of which each channel is off by a hundred-thousandth of another."""

    def window_hidden(self, slots: Tensor, verify_hidden: Tensor, source: Tensor) -> Tensor:
        hidden = super().window_hidden(slots, verify_hidden, source).clone()
        hidden[:, 0] += 1e-5 * hidden[:, 0].roll(1, -1)
        return hidden


class OnlyLow(Frontier):
    """Right in float64, and wrong in what is served."""

    def depth_ids(self, buffer: Tensor, depth: int) -> Tensor:
        wrong = depth == 2 and self.config.dtype != "float64"
        return buffer[:, depth - wrong : depth - wrong + self.k]


class Garbled(Frontier):
    """Drafts right, and returns its last two drafts in each other's place."""

    def decode(self, batch: DecodeBatch) -> Tensor:
        returned = super().decode(batch)
        return torch.cat([returned[:, :-2], returned[:, -2:].flip(1)], dim=1)


@pytest.mark.parametrize("dtype", LOW)
@pytest.mark.parametrize("factory", [Stale, Nudged, OnlyLow, Garbled])
def test_a_fault_is_never_a_tie(factory: Factory, dtype: str) -> None:
    data = (tally := against_frontier(factory, dtype)).as_data()
    assert data["faults"] > 0
    if factory in (Stale, Nudged):
        assert data["books_apart"] > 0
        assert all(d.books <= 1e-9 for d in tally.differences if d.tie)
    if factory is Nudged and dtype == "bfloat16":
        assert data["beyond_rounding"] == 0, "too little to be seen but by the twins"
    if factory is OnlyLow:
        assert data["books_apart"] == 0 and data["beyond_rounding"] > 0
    if factory is Garbled:
        assert data["books_apart"] == data["beyond_rounding"] == data["ties"] == 0 < data["differing"]


def test_two_tokens_that_nothing_tells_apart_are_a_tie() -> None:
    model = small_model(dtype="float32")
    weight = model.target.embedding.weight
    twin_of = {token: token ^ 1 for token in range(len(weight))}
    weight[1::2] = weight[::2]

    class Other(Frontier):
        """Returns the first draft's double in its place."""

        def decode(self, batch: DecodeBatch) -> Tensor:
            returned = super().decode(batch)
            returned[:, 1] = returned[:, 1].bitwise_xor(1)
            return returned

    tally = against_frontier(Other, "float32", model)
    data = tally.as_data()
    assert data["differing"] == data["ties"] == data["request_rounds"] and data["faults"] == 0
    assert data["largest_margin"] == 0 and data["top_two"] == data["ties"]
    assert len(data["differences"]) == KEPT < data["ties"]
    assert all(d.depth == 0 and twin_of[d.tokens[0]] == d.tokens[1] for d in tally.differences)


def test_the_leaders_fault_shows_too() -> None:
    members = [Named("leader", OnlyLow), resolve("frontier")]
    model = small_model(dtype="bfloat16")
    options = replace(OPTIONS, dtype="bfloat16", recompute=False)
    done = led.compare(model, led.led_by(model, members), prompts(5, 21), options, forced())
    assert done.tallies[0].as_data()["beyond_rounding"] > 0


def test_logits_that_are_no_numbers_are_a_fault() -> None:
    class Broken(Frontier):
        def window_hidden(self, slots: Tensor, verify_hidden: Tensor, source: Tensor) -> Tensor:
            return super().window_hidden(slots, verify_hidden, source) * math.nan

    data = against_frontier(Broken, "float32").as_data()
    assert data["faults"] == data["books_apart"] == data["request_rounds"]


def test_weights_and_hiddens_are_widened_exactly() -> None:
    model = small_model(dtype="bfloat16")
    wide = widened(model)
    for name, tensor in model.tensors().items():
        assert wide.tensors()[name].dtype == torch.float64 and torch.equal(wide.tensors()[name].bfloat16(), tensor)
    assert model.target.embedding.weight.dtype == torch.bfloat16


def test_a_twin_drafts_what_it_is_told() -> None:
    config = DraftConfig(SMALL.spec(4, 4), 3, 2, (4, 4), (2, 2), 32, "float32")
    first = Watch(config, 5)
    second = Watch(config, 5, told=first)
    for depth in range(3):
        assert first.choose(torch.eye(5)[[depth, 4]]).tolist() == [depth, 4]
    assert [second.choose(torch.eye(5)[[4, 0]]).tolist() for _ in range(3)] == [[0, 4], [1, 4], [2, 4]]
    assert second.logits[1, 0].tolist() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("name", ["minimal", "lookback", "vllm_multi_module", "recompute"])
def test_drafters_make_their_tensors_where_they_are_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made without a device goes to another than the inputs' own, and does not mix with them."""
    plain = led.Contestant.decode, led.Contestant.extend

    def elsewhere(call: Any) -> Any:
        def wrapped(self: led.Contestant, batch: DecodeBatch | ExtendBatch, wide: Any) -> Any:
            if self.name == "frontier":
                return call(self, batch, wide)
            with torch.device("meta"):
                return call(self, batch, wide)

        return wrapped

    monkeypatch.setattr(led.Contestant, "decode", elsewhere(plain[0]))
    monkeypatch.setattr(led.Contestant, "extend", elsewhere(plain[1]))
    model = small_model(dtype="float32")
    designs = led.led(model, ["frontier", name])
    engine = prepare(model, designs, replace(OPTIONS, dtype="float32", recompute=False), 21, verify=forced())
    assert len(engine.run(prompts(5, 21))) == 5


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path) -> Sequence[str]:
    text = tmp_path / "text.py"
    text.write_text("for i in range(3):\n    print(i)\n" * 30)
    save(random_model(replace(SMALL, vocab_size=264, windows=(None, 12) * 3 + (None,))), tmp_path / "weights")
    sizes = ["--prompts", "8", "--max-tokens", "6", "--batch", "4", "--weights", str(tmp_path / "weights")]
    return [str(text), "--out", str(tmp_path / "out.json"), "--device", "cpu", *sizes]


def test_the_command_keeps_what_it_found(served: Sequence[str], tmp_path: Path, capsys: Any) -> None:
    assert rounding.main([*served, "--commit", "abc"]) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    assert [r["dtype"] for r in result["runs"]] == ["bfloat16", "float32"]
    for run in result["runs"]:
        assert [d["name"] for d in run["designs"]] == [resolve(name).name for name in EXACT[1:]]
        assert run["complete"] and run["leader"] == "frontier" and run["request_rounds"] >= 32
    assert result["environment"]["commit"] == "abc" and len(result["weights_sha256"]) == 64
    assert str(tmp_path) not in json.dumps(result) and "--batch 4" in result["command"]
    assert "float32: minimal against frontier: 0 of" in capsys.readouterr().out


def test_a_stale_design_is_exit_1(served: Sequence[str], tmp_path: Path) -> None:
    assert rounding.main([*served, "--dtypes", "float32", "--designs", "frontier,unrepaired"]) == 1
    (design,) = json.loads((tmp_path / "out.json").read_text())["runs"][0]["designs"]
    assert design["faults"] >= design["books_apart"] > 0


def test_a_time_limit_keeps_the_rounds_until_then(served: Sequence[str], tmp_path: Path) -> None:
    assert rounding.main([*served, "--dtypes", "float32", "--seconds", "0"]) == 0
    (run,) = json.loads((tmp_path / "out.json").read_text())["runs"]
    assert not run["complete"] and run["request_rounds"] == 4


def test_what_is_no_number_is_null_in_the_file(tmp_path: Path) -> None:
    results.keep(tmp_path / "out.json", {"runs": [{"a": math.nan, "b": (math.inf, 1.5), "c": "x", "d": None}]})
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "runs": [{"a": None, "b": [None, 1.5], "c": "x", "d": None}]
    }
    with pytest.raises(UsageError, match="cannot be written"):
        results.keep(tmp_path, {})


def test_nothing_compared_is_not_clean() -> None:
    good = {"request_rounds": 3, "faults": 0}
    assert rounding.clean({"runs": [{"designs": [good]}]})
    for runs in ([], [{"designs": [good | {"faults": 1}]}], [{"designs": [good | {"request_rounds": 0}]}]):
        assert not rounding.clean({"runs": runs})


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--designs", "frontier"], "expected two or more that draft"),
        (["--designs", "frontier,target"], "expected two or more that draft"),
        (["--designs", "frontier,minimall"], "did you mean 'minimal'"),
        (["--dtypes", "int8"], "dtype 'int8'"),
        (["--out", "."], "--out .: is a folder"),
    ],
)
def test_wrong_usage_is_one_line(more: Sequence[str], says: str, served: Sequence[str], capsys: Any) -> None:
    assert rounding.main([*served, *more]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1 and said.startswith("rounding: ")


def test_a_gpu_that_is_not_there_is_exit_3(served: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert rounding.main([*served, "--device", "cuda"]) == 3


def test_a_list_twice_or_of_one_is_refused() -> None:
    with pytest.raises(UsageError, match="none twice"):
        led.led(small_model(), ["frontier", "frontier"])
