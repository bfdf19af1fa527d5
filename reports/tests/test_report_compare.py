"""compare: pairing, intervals, the verdict and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.compare import compare, parse_share

FIXTURES = Path(__file__).parent / "fixtures"


def write(path: Path, lengths: np.ndarray, prefix: str = "r", category: bool = False) -> Path:
    """One canonical row per round; lengths [requests, rounds]."""
    with path.open("w") as stream:
        for r, row in enumerate(lengths.tolist()):
            for n, length in enumerate(row):
                record = {"request_id": f"{prefix}{r}", "round": n, "al_raw": length}
                if category:
                    record["category"] = "even" if r % 2 == 0 else "odd"
                stream.write(json.dumps(record) + "\n")
    return path


@pytest.fixture(scope="module")
def base() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.clip(rng.poisson(rng.uniform(1, 4, 60)[:, None], (60, 40)), 0, 7) + 1


def test_a_planted_drop_fails_the_gate(base: np.ndarray, tmp_path: Path) -> None:
    worse = base - (np.arange(base.size).reshape(base.shape) % 10 == 0) * (base > 1)
    a, b = write(tmp_path / "a.jsonl", base), write(tmp_path / "b.jsonl", worse)
    result = compare([a], [b], fail_if_drop="2%")
    assert result.exit_code == 1 and result.paired and "FAIL: dropped by more than 2 %" in result.verdict
    assert result.change == pytest.approx(worse.sum() / base.sum() - 1)
    assert result.low is not None and result.high is not None and result.low < result.change < result.high < 0
    assert compare([a], [b], fail_if_drop="20%").exit_code == 0
    assert compare([b], [a], fail_if_drop="2%").exit_code == 0
    assert compare([a], [b]).exit_code == 0


def test_the_same_file_does_not_differ(base: np.ndarray, tmp_path: Path) -> None:
    a = write(tmp_path / "a.jsonl", base)
    result = compare([a], [a], fail_if_drop=0.0)
    assert (result.exit_code, result.change, result.low, result.high) == (0, 0.0, 0.0, 0.0)


def test_pairing_takes_out_the_difference_between_requests(base: np.ndarray, tmp_path: Path) -> None:
    """The same data under other names cannot be paired, and its interval is several times wider."""
    changed = np.maximum(base - (np.arange(40) % 8 == 0), 1)
    a, b = write(tmp_path / "a.jsonl", base), write(tmp_path / "b.jsonl", changed)
    other = write(tmp_path / "c.jsonl", changed, prefix="s")
    paired, unpaired = compare([a], [b]), compare([a], [other])
    assert paired.paired and not unpaired.paired and paired.change == unpaired.change
    assert paired.low is not None and paired.high is not None and unpaired.low is not None and unpaired.high is not None
    assert (unpaired.high - unpaired.low) > 3 * (paired.high - paired.low)


def test_noise_beyond_the_limit_is_undecided_and_passes(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    a = write(tmp_path / "a.jsonl", rng.integers(1, 9, (6, 3)), prefix="a")
    b = write(tmp_path / "b.jsonl", rng.integers(1, 9, (6, 3)), prefix="b")
    left, right = compare([a], [b], fail_if_drop=0.0), compare([b], [a], fail_if_drop=0.0)
    undecided = left if left.change < 0 else right
    assert undecided.exit_code == 0 and "undecided" in undecided.verdict


def test_without_an_interval_the_drop_alone_decides(tmp_path: Path) -> None:
    a = write(tmp_path / "a.jsonl", np.array([[4, 4]]))
    b = write(tmp_path / "b.jsonl", np.array([[2, 2]]))
    result = compare([a], [b], fail_if_drop="2%")
    assert result.exit_code == 1 and result.low is None and "no interval" in result.verdict


def test_unmatched_requests_are_left_out_and_counted(base: np.ndarray, tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.jsonl", base), write(tmp_path / "b.jsonl", base[:55])
    result = compare([a], [b])
    assert result.paired and result.change == 0
    assert [row[:3] for row in result.tables[0].rows[:2]] == [["A", 55, 5], ["B", 55, 0]]


def test_categories_and_requests(base: np.ndarray, tmp_path: Path) -> None:
    changed = base.copy()
    changed[::2] = np.maximum(changed[::2] - 1, 1)
    changed[3] = 8
    a = write(tmp_path / "a.jsonl", base, category=True)
    b = write(tmp_path / "b.jsonl", changed, category=True)
    result = compare([a], [b])
    by_category = {row[0]: row[4] for row in result.tables[1].rows}
    assert by_category["even"] < 0 < by_category["odd"]
    assert result.tables[2].rows[0][0] == "r3"


def test_different_definitions_are_never_compared() -> None:
    with pytest.raises(UsageError, match="A tells al_raw.*B tells predicted_over_nondraft|no mean that both"):
        compare([FIXTURES / "vllm_server.log"], [FIXTURES / "llamacpp_response.jsonl"])
    result = compare([FIXTURES / "sglang_generate_response.jsonl"], [FIXTURES / "tokenspeed_meta_info.jsonl"])
    assert result.metric == "al_committed" and result.change == pytest.approx(0)


def test_files_are_written(base: np.ndarray, tmp_path: Path) -> None:
    a = write(tmp_path / "a.jsonl", base)
    result = compare([a], [a], out_dir=tmp_path / "out")
    assert json.loads((tmp_path / "out" / "compare.json").read_text())["verdict"] == result.verdict
    assert result.verdict.split(":")[0] in (tmp_path / "out" / "compare.md").read_text()
    assert result.verdict in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.parametrize(
    ("text", "share"), [("2%", 0.02), ("0.02", 0.02), (0.02, 0.02), ("0", 0.0), (" 2.5 % ", 0.025)]
)
def test_shares(text: str | float, share: float) -> None:
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["2", "-1%", "x", "", "100%", "nan", "1e-2"])
def test_bad_shares_are_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="expected a percentage"):
        parse_share(text)


def test_unknown_metric_is_one_line() -> None:
    with pytest.raises(UsageError, match="--metric x: unknown"):
        compare([FIXTURES / "vllm_server.log"], [FIXTURES / "vllm_server.log"], metric="x")


def test_defects_and_unknown_files_are_counted_listed_and_strict_refuses(base: np.ndarray, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    a = write(folder / "a.jsonl", base)
    with a.open("a") as stream:
        stream.write('{"request_id": "r0", "round": 40, "al_raw": NaN}\nbroken\n')
    (folder / "notes.txt").write_text("nothing\n")
    done = compare([folder], [folder])
    assert done.exit_code == 0 and done.summary["problems"]["counts"] == {"unreadable value": 2, "broken line": 2}
    assert done.summary["unrecognised"] == [str(folder / "notes.txt")] * 2
    assert [[row[0] for row in table.rows] for table in done.input_tables] == [
        ["unreadable value", "broken line"], [str(folder / "notes.txt")] * 2,
    ]  # fmt: skip
    strict = compare([folder], [folder], strict=True, out_dir=tmp_path / "out")
    assert strict.exit_code == 2 and strict.message.startswith("6 defects in the input (--strict): see")
    assert "notes.txt" in (tmp_path / "out" / "compare.md").read_text()
    assert ":2402: " in compare([folder], [folder], strict=True).message
    clean = write(tmp_path / "clean.jsonl", base)
    assert compare([clean], [clean], strict=True).exit_code == 0


@pytest.mark.parametrize(("kept", "paired", "text"), [
    (48, True, "paired over 48 requests or turns (12 of A and 0 of B have no partner)"),
    (47, False, "unpaired, 60 against 47 requests (ids of only 78 % match, pairing needs 80%)"),
])  # fmt: skip
def test_the_share_that_pairs_is_said(base: np.ndarray, kept: int, paired: bool, text: str, tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.jsonl", base), write(tmp_path / "b.jsonl", base[:kept])
    done = compare([a], [b])
    assert done.paired is paired and text in done.verdict
    assert done.summary["paired_share"] == pytest.approx(kept / 60)
    assert "no id in common" in compare([a], [write(tmp_path / "c.jsonl", base, prefix="c")]).verdict


def test_a_directory_pairs_fully_with_itself_and_with_another_of_the_same_layout(
    base: np.ndarray, tmp_path: Path
) -> None:
    """The same ids in several files: requests are then known by their file too."""
    for side in ("before", "after"):
        for n, name in enumerate(("x/one.jsonl", "y/one.jsonl", "two.jsonl")):
            path = tmp_path / side / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, base[n:] if side == "before" else np.maximum(base[n:] - 1, 1))
    before, after = tmp_path / "before", tmp_path / "after"
    same, other = compare([before], [before]), compare([before], [after])
    for done in (same, other):
        assert done.paired and "paired over 177 requests" in done.verdict and done.summary["paired_share"] == 1
    assert (same.low, same.high) == (0, 0) and other.change < 0
    assert str(other.tables[2].rows[0][0]).split(" / ")[0] in {
        f"{name} canonical-jsonl" for name in ("x/one.jsonl", "y/one.jsonl", "two.jsonl")
    }
    fixtures = compare([FIXTURES], [FIXTURES])
    assert fixtures.paired and fixtures.change == 0 and fixtures.summary["paired_share"] == 1
    assert fixtures.tables[0].rows[0][3] > 0, "inputs that do not tell the mean are counted"


def test_five_requests_decide_with_an_interval_and_fewer_by_the_drop_alone(tmp_path: Path) -> None:
    for n, exit_code in ((4, 1), (5, 0)):
        a = write(tmp_path / "a.jsonl", np.array([[2, 4]] * (n - 1) + [[8, 8]]))
        b = write(tmp_path / "b.jsonl", np.array([[2, 4]] * (n - 1) + [[1, 1]]))
        done = compare([a], [b], fail_if_drop="2%")
        assert done.exit_code == exit_code
        text = "the drop alone decides" if n < 5 else "undecided"
        assert text in done.verdict and done.verdict.count("FAIL") + done.verdict.count("PASS") == 1


def test_input_that_tells_nothing_for_its_defects_says_so(tmp_path: Path) -> None:
    a = tmp_path / "a.csv"
    a.write_text("request_id,round,al_raw\na,0,nan\n")
    with pytest.raises(UsageError, match="A tells none.*2 defects in the input, first: .*a.csv:2: al_raw") as caught:
        compare([a], [a])
    assert "\n" not in str(caught.value)


def test_a_mean_of_zero_is_one_line(tmp_path: Path) -> None:
    a = write(tmp_path / "a.jsonl", np.zeros((6, 3), int))
    b = write(tmp_path / "b.jsonl", np.ones((6, 3), int))
    with pytest.raises(UsageError, match="A's mean is 0"):
        compare([a], [b])
    assert compare([b], [a]).change == -1
