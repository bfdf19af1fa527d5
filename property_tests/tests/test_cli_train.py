"""``train``: a smoke run, going on from its checkpoint, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from frontier_oracle.property_tests.cli.app import run
from frontier_oracle.reference_impl.model import weights
from frontier_oracle.reference_impl.model.train import recipe

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    folder = tmp_path / "text"
    folder.mkdir()
    for i in range(40):
        (folder / f"m{i}.py").write_text(f"def f{i}(x):\n    return x + {i}\n" * 20)
    return folder


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smoke recipe on fewer held-out rows and steps."""
    monkeypatch.setitem(recipe.SIZES, "smoke", replace(recipe.SMOKE, batch=4, context=32, evaluate_every=4))
    monkeypatch.setattr("frontier_oracle.reference_impl.model.train.loop.EVALUATION_ROWS", 4)


def refused(arguments: list[str], capsys: Capture, code: int = 2) -> str:
    assert run(arguments) == code
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1, err
    return err


def test_a_smoke_run_stops_goes_on_and_leaves_weights(text: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    command = ["train", "--size", "smoke", "--text", str(text), "--out", str(out), "--steps", "6"]
    assert run([*command, "--max-time", "1e-9"]) == 0
    assert "step 1 of 6, stopped; the same command goes on" in capsys.readouterr().out
    assert run(command) == 0
    printed = capsys.readouterr().out
    assert "step 6 of 6, done" in printed and "depth 2" in printed
    assert run([*command, "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((out / "record.json").read_text())
    assert record["done"] and [e["step"] for e in record["evaluations"]] == [1, 4, 6]
    assert record["corpus"]["train"]["files"] + record["corpus"]["held_out"]["files"] == 40
    assert record["recipe"]["steps"] == 6 and record["environment"]["device"] == "cpu"
    assert weights.load(out).config == recipe.SMOKE.model


def test_what_train_refuses(text: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["train", "--size", "smoke", "--text", str(text), "--out", str(tmp_path / "out")]
    assert "--device tpu: expected cpu or cuda" in refused([*command, "--device", "tpu"], capsys)
    assert "--steps -1: expected 0 or more" in refused([*command, "--steps", "-1"], capsys)
    assert "expected less than" in refused([*command, "--seed", str(2**62)], capsys)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "torch sees no CUDA device" in refused([*command, "--device", "cuda"], capsys, code=3)
    assert "no such folder" in refused([*command, "--text", str(tmp_path / "nowhere")], capsys)
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused([*command, "--out", str(tmp_path / "file")], capsys)
    assert run([*command, "--steps", "2"]) == 0
    capsys.readouterr()
    assert "another recipe or text" in refused([*command, "--steps", "3"], capsys)
