"""Spec-Bench answer files: sound, odd and broken; the bundled traces; real ones where they are at hand."""

from __future__ import annotations

import json
import platform
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.traces import (
    UNCUT,
    bundled_path,
    clip,
    read_accept_lengths,
    read_directory,
)

REAL = Path(__file__).parents[3] / "shared" / "traces" / "real"
MAKER = bundled_path().parent / "make_traces.py"
needs_maker = pytest.mark.skipif(not MAKER.is_file(), reason="make_traces.py does not ship in the wheel")


def line(lengths: Any, steps: Any = None, question: int = 81, **more: Any) -> str:
    choice = {"accept_lengths": lengths, "decoding_steps": [len(lengths)] if steps is None else steps, **more}
    return json.dumps({"question_id": question, "choices": [choice]}) + "\n"


def written(folder: Path, text: str | bytes, name: str = "answers.jsonl") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_turns_are_cut_by_decoding_steps(tmp_path: Path) -> None:
    path = written(tmp_path, line([4, 1, 3, 2, 2], [3, 2]) + "\n" + line([1], question=82))
    found = [(s.request_id, s.turn, s.lengths) for s in read_accept_lengths(path)]
    assert found == [("81", 0, (4, 1, 3)), ("81", 1, (2, 2)), ("82", 0, (1,))]
    assert {s.source for s in read_accept_lengths(str(path))} == {str(path)}


@pytest.mark.parametrize("steps", [[2, 2], [], 9, "three", [1.5, 1.5], [4, -1], None])
def test_turns_that_do_not_add_up_stay_in_one(tmp_path: Path, steps: Any) -> None:
    text = json.dumps({"question_id": 1, "choices": [{"accept_lengths": [4, 1, 3], "decoding_steps": steps}]})
    written(tmp_path, text + "\n")
    scan = read_directory(tmp_path)
    assert [(s.turn, s.lengths) for s in scan.sequences] == [(UNCUT, (4, 1, 3))]
    assert (scan.uncut, scan.skipped) == (1, [])


def test_a_scalar_step_count_and_empty_turns(tmp_path: Path) -> None:
    path = written(tmp_path, line([2, 3], 2) + line([2, 3], [1, 0, 1], question=82))
    found = [(s.request_id, s.turn, s.lengths) for s in read_accept_lengths(path)]
    assert found == [("81", 0, (2, 3)), ("82", 0, (2,)), ("82", 2, (3,))]


def test_several_choices_are_told_apart(tmp_path: Path) -> None:
    choices = [{"accept_lengths": [1], "decoding_steps": [1]}, {"accept_lengths": [2], "decoding_steps": [1]}]
    path = written(tmp_path, json.dumps({"question_id": 5, "choices": choices}) + "\n")
    assert [(s.request_id, s.lengths) for s in read_accept_lengths(path)] == [("5/0", (1,)), ("5/1", (2,))]


BROKEN: list[tuple[str | bytes, str]] = [
    ('{"question_id": 1, "choi', "truncated last line"),
    ("{broken}\n", "broken JSON"),
    ("[" * 100_000 + "\n", "broken JSON"),
    (b"\xff\xfe\n", "broken JSON"),
    (line([1, 0, 2]), r"accept_lengths\[1\]: expected an integer >= 1 \(bonus included\), got 0"),
    (line([1, -138]), r"accept_lengths\[1\]: .* got -138"),
    (line([2.0]), r"accept_lengths\[0\]: .* got 2\.0"),
    (line([True]), r"accept_lengths\[0\]: .* got true"),
    (line(["3"]), r'accept_lengths\[0\]: .* got "3"'),
    (line([None]), r"accept_lengths\[0\]: .* got null"),
    (line([1], accept_lengths=None), "accept_lengths: expected a list"),
    ("[1, 2]\n", "expected a JSON object"),
    ('{"choices": []}\n', r"no choices\[\]"),
    ('{"choices": [3]}\n', r"no choices\[\]"),
    ('{"choices": [{"idxs": [3]}]}\n', r"no choices\[\]\.accept_lengths"),
]


@pytest.mark.parametrize(("bad", "why"), BROKEN)
def test_broken_lines(tmp_path: Path, bad: str | bytes, why: str) -> None:
    good = line([3, 1]).encode()
    path = written(tmp_path, good + (bad if isinstance(bad, bytes) else bad.encode()))
    with pytest.raises(UsageError, match=rf"answers\.jsonl:2: {why}") as caught:
        read_accept_lengths(path)
    assert "\n" not in str(caught.value)
    scan = read_directory(tmp_path)
    assert [s.lengths for s in scan.sequences] == [(3, 1)]
    assert [(s.file, s.line) for s in scan.skipped] == [(str(path), 2)]


def test_no_sequence_leaves_a_line_that_turns_out_broken(tmp_path: Path) -> None:
    choices = [{"accept_lengths": [1], "decoding_steps": [1]}, {"accept_lengths": [0], "decoding_steps": [1]}]
    written(tmp_path, json.dumps({"question_id": 5, "choices": choices}) + "\n")
    assert read_directory(tmp_path).sequences == []


def test_rounds_that_were_never_counted(tmp_path: Path) -> None:
    path = written(tmp_path, line([]) + line([2], question=82))
    assert [s.request_id for s in read_accept_lengths(path)] == ["82"]
    assert [(s.line, s.why) for s in read_directory(tmp_path).skipped] == [
        (1, "accept_lengths is empty: no round was counted")
    ]
    for nothing in (line([]), "", "\n\n"):
        with pytest.raises(UsageError, match="no accept lengths in it"):
            read_accept_lengths(written(tmp_path, nothing))


def test_files_of_another_format_are_listed_once(tmp_path: Path) -> None:
    written(tmp_path, '{"prompt": 1}\n' * 50, "deep/other.jsonl")
    written(tmp_path, line([2]), "deep/er/good.jsonl")
    written(tmp_path, "no matter", "notes.txt")
    scan = read_directory(tmp_path)
    assert [s.lengths for s in scan.sequences] == [(2,)]
    assert [(Path(s.file).name, s.line) for s in scan.skipped] == [("other.jsonl", 1)]


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_accept_lengths(tmp_path / "missing.jsonl")
    with pytest.raises(UsageError, match="is a directory"):
        read_accept_lengths(tmp_path)
    with pytest.raises(UsageError, match="not a directory"):
        read_directory(tmp_path / "missing")


@pytest.mark.parametrize(
    ("lengths", "k", "want"),
    [((1, 5, 9), 4, ((1, 4, 4), 2)), ((1, 4), 4, ((1, 4), 0)), ((), 4, ((), 0)), ([7], 2, ((2,), 1))],
)
def test_clip(lengths: Sequence[int], k: int, want: tuple[tuple[int, ...], int]) -> None:
    assert clip(lengths, k) == want


def test_bundled_traces() -> None:
    assert bundled_path().stat().st_size < 200_000
    sequences = read_accept_lengths(bundled_path())
    assert len(sequences) == 64 * 3
    short = [s for s in sequences if sum(s.lengths) != 400]  # a module that ends before its third turn does
    assert all(s.turn == 2 and sum(s.lengths) < 400 for s in short)
    assert {s.turn for s in sequences} == {0, 1, 2}
    assert {a for s in sequences for a in s.lengths} == set(range(1, 9))


@needs_maker
def test_bundled_traces_are_what_their_script_makes() -> None:
    made_with = json.loads(bundled_path().read_text().splitlines()[0])["model_id"].split()[-2]
    if made_with != platform.python_version():
        pytest.skip(f"made from the sources of CPython {made_with}, this is {platform.python_version()}")
    done = subprocess.run([sys.executable, str(MAKER), "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


@needs_maker
def test_prompt_lookup_by_hand() -> None:
    accept_lengths = runpy.run_path(str(MAKER))["accept_lengths"]
    # "a b c a" proposes what followed the first a, wrong only at x; the last round is cut by the turn's end.
    assert accept_lengths(list("abca"), [list("bcaxy"), list("bc")]) == [[4, 1], [1, 1]]
    # The latest earlier "aaa" ends one token before the end, so only one token can be proposed.
    assert accept_lengths(list("aaaa"), [list("aaaaaa")]) == [[2, 2, 2]]


@pytest.mark.skipif(not REAL.is_dir(), reason="shared/traces/real is not beside this checkout")
def test_real_traces() -> None:
    scan = read_directory(REAL)
    assert len(scan.sequences) == 1520
    assert sum(len(s.lengths) for s in scan.sequences) == 93282
    assert scan.uncut == 641
    assert len(scan.skipped) == 7
    per_file: dict[str, int] = {}
    for s in scan.sequences:
        per_file[Path(s.source).name] = per_file.get(Path(s.source).name, 0) + len(s.lengths)
    assert per_file["vicuna-7b-v1.3-sps-68m-float16-temp-0.0.jsonl"] == 18347 + 1492
    assert per_file["Meta-Llama-3-8B-j-9-6.jsonl"] == 9127
