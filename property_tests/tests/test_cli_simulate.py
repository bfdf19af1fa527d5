"""The verb ``simulate``: what it prints, writes and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.cli.app import run
from frontier_oracle.property_tests.simulate.prompts import cut
from frontier_oracle.property_tests.tests.small_model import SMALL
from frontier_oracle.reference_impl.model.weights import random_model, save
from frontier_oracle.reports.analysis.means import estimate
from frontier_oracle.reports.load import load

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``simulate`` on a text of 200 bytes and an untrained model, and returns code, stdout and stderr."""
    save(random_model(replace(SMALL, vocab_size=264)), tmp_path / "weights")
    (tmp_path / "text.py").write_text("def f(x):\n    return x + 1\n" * 8)

    def call(*options: str) -> tuple[int, str, str]:
        fixed = ("--weights", str(tmp_path / "weights"), "--k", "4", "--max-tokens", "8", "--prompt-tokens", "24")
        code = run(["simulate", str(tmp_path / "text.py"), *fixed, "-q", *options])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def test_json_has_a_row_for_each_design(verb: Run) -> None:
    code, out, _ = verb("--designs", "target,frontier,unrepaired", "--prompts", "4", "--format", "json")
    data = json.loads(out)
    assert code == 0 and data["prompts"] == 4 and data["tokens"] == 32
    assert [d["name"] for d in data["designs"]] == ["target", "frontier", "tokenspeed_unrepaired"]
    keys = {"name", "verify_rounds", "accept_length", "output_sha256", "drafts_equal_recompute", "rows", "seconds"}
    assert all(keys <= set(d) for d in data["designs"])
    assert len({d["output_sha256"] for d in data["designs"]}) == 1
    frontier = data["designs"][1]
    assert frontier["drafts_equal_recompute"] == frontier["verify_rounds"]
    assert data["output_differs"] == {"frontier": 0, "tokenspeed_unrepaired": 0}


def test_the_table_has_a_line_for_each_design(verb: Run) -> None:
    code, out, err = verb("--prompts", "3", "--temperature", "0.8", "--top-p", "0.9", "--chunk", "7", "--turns", "2")
    assert code == 0 and not err
    assert "3 prompts, temperature 0.8, k=4, float64 on cpu" in out
    assert out.count("the target's") == 3 and "tokenspeed_lookback" in out


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_traces_are_read_by_report_without_a_defect(verb: Run, tmp_path: Path, ending: str) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    trace = tmp_path / f"out.{ending}"
    code, out, _ = verb("--designs", "target,frontier", "--trace", str(trace), "--format", "json")
    loaded = load([tmp_path / f"out.frontier.{ending}"])
    (read,) = loaded.traces
    told = json.loads(out)["designs"][1]
    assert code == 0 and not loaded.defects() and read.n_units == json.loads(out)["prompts"]
    assert read.n_rounds == told["verify_rounds"] and read.header.k_verify_width == 4
    assert estimate(read, "al_raw").value == pytest.approx(told["accept_length"])


@pytest.mark.parametrize(
    "options, says",
    [
        (("--designs", "frontie"), "did you mean 'frontier'"),
        (("--k", "9"), "the model has 3 draft depths"),
        (("--dtype", "float16"), "dtype 'float16'"),
        (("--device", "tpu"), "expected cpu or cuda"),
        (("--weights", "nowhere"), ".safetensors there"),
        (("--context", "24"), "leave no room"),
        (("--trace", "x.csv"), "ends in .jsonl or .parquet"),
        (("--trace", "no/such/x.jsonl"), "no directory"),
        (("--top-p", "0"), "top-p"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(verb: Run, options: tuple[str, ...], says: str) -> None:
    code, out, err = verb(*options)
    assert code == 2 and not out and err.count("\n") == 1 and says in err


def test_a_file_is_cut_into_pieces_that_follow_each_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(1, 11)))
    (tmp_path / "b").write_bytes(bytes(range(11, 16)))
    found = cut([tmp_path / "a", tmp_path / "b"], list, 4, turns=2)
    assert [(p.name, p.turn, p.tokens) for p in found] == [
        ("a:0", 0, (1, 2)),
        ("a:0", 1, (1, 2, 3, 4)),
        ("a:1", 0, (5, 6)),
        ("a:1", 1, (5, 6, 7, 8)),
        ("b:0", 0, (11, 12)),
        ("b:0", 1, (11, 12, 13, 14)),
    ]


def test_files_of_one_name_are_told_apart_and_one_named_twice_counts_once(tmp_path: Path) -> None:
    paths = [tmp_path / "x" / "a", tmp_path / "y" / "a"]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(b"abcdef")
    found = cut([*paths, paths[0]], list, 3)
    assert [p.name for p in found] == [f"{path.as_posix()}:{i}" for path in paths for i in range(2)]


def test_of_many_pieces_evenly_spaced_ones_are_taken(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(1, 41)))
    assert [p.name for p in cut([tmp_path / "a"], list, 4, limit=4)] == ["a:0", "a:2", "a:5", "a:7"]
    turns = cut([tmp_path / "a"], list, 4, turns=2, limit=3)
    assert [(p.name, p.turn) for p in turns] == [("a:0", 0), ("a:0", 1), ("a:5", 0)]


@pytest.mark.parametrize(
    "content, says",
    [(None, "cannot be read"), (b"", "no file has 4 tokens"), (b"abc", "no file has 4 tokens"), (b"a\0b", "zero byte")],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "text"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=says):
        cut([path], list, 4)
