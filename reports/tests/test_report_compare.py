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
