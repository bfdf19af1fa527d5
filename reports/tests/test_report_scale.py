"""Ten million rounds are reported in under a minute and 2 GB, and time grows linearly with the rounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from frontier_oracle.reports.scale import DRAFTS, SIZES, Measured, P, growth, measure, sweep, synthetic

RESULTS = sorted((Path(__file__).parents[1] / "results").glob("*-report-scale.json"))


def test_a_hundred_thousand_rounds_in_any_order_give_the_closed_form_mean(tmp_path: Path) -> None:
    synthetic(tmp_path / "a.parquet", 500, 200, shuffled=True)
    result = measure(tmp_path / "a.parquet", tmp_path / "out")
    assert result.rounds == 100_000
    assert result.mean == pytest.approx((1 - P ** (DRAFTS + 1)) / (1 - P), abs=0.02)


def test_growth_is_one_for_linear_and_four_for_quadratic_time() -> None:
    linear = [Measured(n, 2.0, "", 0.0, n / 100, 1.0) for n in (100, 200, 400)]
    quadratic = [Measured(n, 2.0, "", 0.0, n * n, 1.0) for n in (100, 200, 400)]
    assert growth(linear) == pytest.approx(1) and growth(quadratic) == pytest.approx(4)


@pytest.mark.skipif(not RESULTS, reason="no recorded result (reports/results does not ship)")
def test_the_recorded_run_keeps_the_limits() -> None:
    recorded = json.loads(RESULTS[-1].read_text())
    assert {"date", "commit", "command", "seed", "machine"} <= recorded.keys()
    measured = [Measured(**one) for one in recorded["sizes"]]
    assert tuple(one.rounds for one in measured) == SIZES
    assert all(one.cpu_seconds < 60 and one.mb < 2048 for one in measured)
    assert recorded["time_per_round_largest_over_smallest"] == growth(measured) < 1.25


@pytest.mark.slow
def test_ten_million_rounds(tmp_path: Path) -> None:
    """The growth from 2.5 to 10 million is bounded by that of a linear cost."""
    measured = sweep(tmp_path)
    assert measured[-1].seconds < 60 and measured[-1].mb < 2048 and growth(measured) < 1.25


@pytest.mark.slow
@pytest.mark.parametrize("shuffled", [False, True])
def test_ten_million_rounds_of_a_million_short_requests(tmp_path: Path, shuffled: bool) -> None:
    synthetic(tmp_path / "a.parquet", 1_000_000, 10, shuffled=shuffled)
    result = measure(tmp_path / "a.parquet", tmp_path / "out")
    assert result.seconds < 60 and result.mb < 2048
