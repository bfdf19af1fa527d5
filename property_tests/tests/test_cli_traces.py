"""``report``, ``compare`` and ``bench round``: exit codes, one line for what a user can mend, what they print."""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from frontier_oracle.cuda_impl import gpu_table
from frontier_oracle.property_tests.cli.app import run

for needed in ("jinja2", "matplotlib", "pyarrow"):
    pytest.importorskip(needed, reason="report and compare need the extra 'reports'")

Capture = pytest.CaptureFixture[str]


def answers(path: Path, scale: int = 0, broken: bool = False) -> str:
    """A Spec-Bench answer file of forty requests."""
    rows = []
    for n in range(40):
        lengths = [1 + (n + i + scale) % 3 + scale for i in range(12)]
        turn = {"turns": ["x"], "accept_lengths": lengths, "new_tokens": [sum(lengths)], "wall_time": [1.0]}
        turn |= {"decoding_steps": [len(lengths)], "index": 0}
        rows.append(json.dumps({"question_id": n, "category": "writing", "model_id": "m", "choices": [turn]}))
    path.write_text("\n".join(rows) + ("\n{broken" if broken else "") + "\n")
    return str(path)


def refused(arguments: list[str], capsys: Capture, code: int = 2) -> str:
    assert run(arguments) == code
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("frontier-oracle: "), (out, err)
    return err


def test_report_writes_a_page_and_says_where(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    data = answers(tmp_path / "a.jsonl")
    assert run(["report", data, "-o", str(out), "--title", "Mine", "--draft-cost", "0.05"]) == 0
    assert f"Report: {out / 'index.html'}" in capsys.readouterr().out
    assert "<title>Mine" in (out / "index.html").read_text()
    assert {"summary.json", "summary.md", "tables", "plots", "canonical"} <= {path.name for path in out.iterdir()}


def test_report_strict_is_exit_2_on_dirty_input(tmp_path: Path, capsys: Capture) -> None:
    arguments = ["report", answers(tmp_path / "a.jsonl", broken=True), "-o", str(tmp_path / "out")]
    assert run(arguments) == 0
    capsys.readouterr()
    assert "in the input (--strict): see" in refused([*arguments, "--strict"], capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "/no/such", "-o", "OUT"], "/no/such: cannot be read"),
        (["report", "DATA", "-o", "DATA"], "cannot be made"),
        (["report", "DATA"], "Missing option '-o' / '--out'"),
        (["report", "-o", "OUT"], "Missing argument 'PATH...'"),
        (["report", "DATA", "-o", "OUT", "--input-format", "xyz"], "--input-format xyz: unknown; one of"),
        (["report", "DATA", "-o", "OUT", "--draft-cost", "-1"], "--draft-cost -1.0: expected the cost"),
        (["compare", "DATA"], "Missing argument 'B'"),
        (["compare", "DATA", "/no/such"], "/no/such: cannot be read"),
        (["compare", "DATA", "DATA", "--fail-if-drop", "lots"], "--fail-if-drop lots: expected a percentage"),
        (["compare", "DATA", "DATA", "--metric", "mean"], "--metric mean: unknown; one of"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, tmp_path: Path, capsys: Capture) -> None:
    places = {"DATA": answers(tmp_path / "a.jsonl"), "OUT": str(tmp_path / "out")}
    assert message in refused([places.get(word, word) for word in arguments], capsys)


def test_a_full_disk_is_one_line(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "index.html")

    monkeypatch.setattr(Path, "write_text", full)
    data = tmp_path / "a.jsonl"
    data.write_bytes(b'{"question_id": 1, "choices": [{"turns": ["x"], "accept_lengths": [1, 2]}]}\n')
    for verb in (["report", str(data)], ["compare", str(data), str(data)]):
        assert "index.html: No space left on device" in refused([*verb, "-o", str(tmp_path / "out")], capsys)


def test_compare_is_a_gate_for_drops(tmp_path: Path, capsys: Capture) -> None:
    high, low = answers(tmp_path / "high.jsonl", scale=1), answers(tmp_path / "low.jsonl")
    assert run(["compare", high, low]) == 0
    out = capsys.readouterr().out
    assert "By category" in out and "a drop." in out.splitlines()[-1]
    assert run(["compare", high, low, "--fail-if-drop", "2%", "--metric", "al_committed"]) == 1
    assert capsys.readouterr().out.rstrip().endswith("FAIL: dropped by more than 2 %.")
    assert run(["compare", low, high, "--fail-if-drop", "0.02", "-o", str(tmp_path / "out"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] is False
    written = sorted(p.name for p in (tmp_path / "out").iterdir() if not p.name.startswith("."))
    assert written == ["compare.json", "compare.md", "index.html"]


@pytest.mark.parametrize("module", ["matplotlib", "jinja2", "pyarrow"])
def test_without_an_extra_it_is_named(module: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for arguments in (["report", "x", "-o", "y"], ["compare", "x", "y"]):
        line = refused(arguments, capsys)
        assert f"needs {module}: pip install 'frontier-oracle[reports]'" in line


def test_bench_round_needs_a_gpu(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "bench round: torch sees no CUDA device" in refused(["bench", "round"], capsys, code=3)


def test_bench_round_prints_what_a_gpu_run_keeps(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Path(gpu_table.__file__).parents[1] / "reports" / "results"
    kept = json.loads(sorted(results.glob("*-h200.json"))[0].read_text())
    books = SimpleNamespace(bench_window=lambda: kept["bench"], METHOD="20 bodies in one graph")
    head = SimpleNamespace(bench_head=lambda: kept["round"], METHOD="as in bench")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "a GPU")
    for name, module in (("bench_window", books), ("bench_head", head), ("triton", SimpleNamespace(__spec__=True))):
        full = name if name == "triton" else f"frontier_oracle.cuda_impl.{name}"
        monkeypatch.setitem(sys.modules, full, module)
        if name != "triton":
            monkeypatch.setattr(f"frontier_oracle.cuda_impl.{name}", module, raising=False)
    assert run(["bench", "round"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("a GPU, CUDA ") and "| ours µs |" in out and "20 bodies in one graph" in out
    assert "The round with real heads" in out
    assert run(["bench", "round", "--part", "books", "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["bench"] == kept["bench"] and "round" not in data and data["environment"]["gpu"] == "a GPU"
