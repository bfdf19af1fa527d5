"""The comparison of captured rounds with eager ones, on a CPU: the tape in the graph's place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from frontier_oracle.property_tests.simulate import gpu, led
from frontier_oracle.property_tests.tests.small_model import OPTIONS, SMALL, forced, prompts, small_model
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


def test_the_tape_is_held_against_the_reference_in_float64() -> None:
    """Twins of captured systems are captured too, and see each replay's logits."""
    options = replace(OPTIONS, dtype="bfloat16", recompute=False)
    model = small_model(dtype="bfloat16")
    names = ("cuda_tape", "cuda_eager", "frontier", "recompute")
    done = led.compare(model, led.led(model, names), prompts(9, 21), options, forced())
    for tally in done.tallies:
        data = tally.as_data()
        assert data["faults"] == 0 and data["request_rounds"] >= 40
        assert 0 < data["median_error"] < data["largest_error"], "a round's own logits, not those of the capture"
    assert not done.tallies[0].found


def test_a_difference_turns_the_result() -> None:
    good = {"drafts": {"cuda_eager": {"differing": 0, "faults": 0}, "frontier": {"differing": 2, "faults": 0}}}
    assert gpu.clean(good)
    faulty = ({"differing": 1, "faults": 0}, {"differing": 0, "faults": 1})
    for name, counts in (("cuda_eager", faulty[0]), ("cuda_eager", faulty[1]), ("frontier", faulty[1])):
        assert not gpu.clean({"drafts": good["drafts"] | {name: counts}})


def test_wrong_usage_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "none.py"
    assert gpu.main([str(missing), "--out", str(tmp_path / "out.json"), "--device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"gpu: {missing}: cannot be read") and said.count("\n") == 1
