"""The analyses against independent numbers: hand-computed tables, closed forms, and published definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from frontier_oracle.reports.analysis.basis import basis_of
from frontier_oracle.reports.analysis.bootstrap import MAX_GROUPS, Resampler, interval
from frontier_oracle.reports.analysis.breakdown import by_column_table, category_table, ends_table
from frontier_oracle.reports.analysis.dependence import autocorrelation
from frontier_oracle.reports.analysis.distribution import distribution_table, fit_geometric, geometric_table
from frontier_oracle.reports.analysis.effects import truncation_table, warmup_table
from frontier_oracle.reports.analysis.means import estimate
from frontier_oracle.reports.analysis.outliers import outliers_table
from frontier_oracle.reports.analysis.positions import positions_table, survival
from frontier_oracle.reports.analysis.run import analyse
from frontier_oracle.reports.analysis.speedup import speedup_tables, tokens_per_round
from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.canonical import Header, Trace
from frontier_oracle.reports.table import Table


def trace_of(*requests: list[int], drafted: list[list[int]] | None = None, **unit: Any) -> Trace:
    """A trace of raw accept lengths, one list per request."""
    builder = TraceBuilder(Header("test", order_known="rounds", truncation="raw", source_file="f"))
    for n, lengths in enumerate(requests):
        rounds: dict[str, Any] = {"al_raw": lengths}
        if drafted is not None:
            rounds["drafted"] = drafted[n]
        builder.add(Unit(f"r{n}", n + 1, rounds=rounds, **{key: value[n] for key, value in unit.items()}))
    return builder.finish()


def column(table: Table, name: str) -> list[Any]:
    index = [c.name for c in table.columns].index(name)
    return [row[index] for row in table.rows]


def positions(trace: Trace) -> Table:
    resampler = Resampler(trace)
    return positions_table(trace, basis_of(trace, resampler), resampler)


def test_positions_by_hand() -> None:
    """Ten rounds with 0 0 0 1 1 2 2 3 3 3 accepted: reached 7, 5, 3 of 10; conditional 7/10, 5/7, 3/5."""
    table = positions(trace_of([1, 1, 1, 2, 2], [3, 3, 4, 4, 4]))
    assert column(table, "accepted") == [7, 5, 3]
    assert column(table, "of all rounds") == pytest.approx([0.7, 0.5, 0.3])
    assert column(table, "conditional") == pytest.approx([7 / 10, 5 / 7, 3 / 5])
    assert column(table, "joint") == pytest.approx([0.7, 0.5, 0.3])


def test_positions_of_the_published_run() -> None:
    """The example's expected unconditional and conditional rates; the former are vLLM's per-position rates."""
    table = positions(trace_of([4, 1, 3, 2], [2, 4, 4]))
    assert column(table, "of all rounds") == pytest.approx([6 / 7, 4 / 7, 3 / 7])
    assert column(table, "conditional") == pytest.approx([6 / 7, 2 / 3, 3 / 4])


def test_positions_over_proposing_rounds() -> None:
    """Two of four rounds proposed a second draft; one of these accepted it, having accepted the first."""
    table = positions(trace_of([2, 2, 3, 1], drafted=[[1, 1, 2, 2]]))
    assert column(table, "proposed") == [4, 2]
    assert column(table, "of all rounds") == pytest.approx([3 / 4, 1 / 4])
    assert column(table, "of proposing rounds") == pytest.approx([3 / 4, 1 / 2])
    assert column(table, "conditional") == pytest.approx([3 / 4, 1 / 3])
    assert column(table, "conditional, proposing") == pytest.approx([3 / 4, 1 / 1])


def test_joint_rate_is_nvidias_product_of_conditionals_on_random_histograms() -> None:
    rng = np.random.default_rng(0)
    lengths = (np.minimum(rng.geometric(0.35, 4000), 6)).tolist()
    table = positions(trace_of(lengths))
    assert column(table, "joint") == pytest.approx(column(table, "of all rounds"))
    assert column(table, "joint") == pytest.approx(np.cumprod(column(table, "conditional")).tolist())


def test_bootstrap_agrees_with_scipy() -> None:
    rng = np.random.default_rng(3)
    requests = [rng.integers(1, 6, size=rng.integers(3, 40)).tolist() for _ in range(60)]
    trace = trace_of(*requests)
    mine = estimate(trace, "al_raw", "pooled", Resampler(trace))
    sums, counts = np.array([sum(r) for r in requests]), np.array([len(r) for r in requests])
    theirs = stats.bootstrap(
        (sums, counts), lambda s, c, axis=-1: s.sum(axis=axis) / c.sum(axis=axis), paired=True, vectorized=True,
        n_resamples=20_000, method="percentile", rng=np.random.default_rng(5),
    )  # fmt: skip
    width = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert mine.low == pytest.approx(theirs.confidence_interval.low, abs=0.05 * width)
    assert mine.high == pytest.approx(theirs.confidence_interval.high, abs=0.05 * width)
    mean = estimate(trace, "al_raw", "requests", Resampler(trace))
    ratio = stats.bootstrap(
        (sums / counts,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(6)
    )
    width = ratio.confidence_interval.high - ratio.confidence_interval.low
    assert mean.low == pytest.approx(ratio.confidence_interval.low, abs=0.05 * width)
    assert mean.high == pytest.approx(ratio.confidence_interval.high, abs=0.05 * width)


def test_dealing_many_clusters_into_groups_keeps_the_interval() -> None:
    """12,000 requests, dealt into groups, against the interval by the central limit theorem."""
    rng = np.random.default_rng(4)
    n = 6 * MAX_GROUPS
    lengths = rng.integers(1, 6, size=(n, 2))
    trace = trace_of(*lengths.tolist())
    e = estimate(trace, "al_raw", "pooled", Resampler(trace))
    means = lengths.mean(axis=1)
    half = 1.96 * means.std() / np.sqrt(n)
    assert e.low is not None and e.high is not None
    assert e.high - e.low == pytest.approx(2 * half, rel=0.08)


def test_no_interval_below_five_requests_and_the_reason_is_told() -> None:
    trace = trace_of([1, 2], [3], [2], [1])
    e = estimate(trace, "al_raw", "pooled", Resampler(trace))
    assert (e.low, e.high) == (None, None) and "fewer than 5 requests" in e.reason


def test_interval_ignores_undefined_draws_and_gives_up_when_there_are_many() -> None:
    draws = np.arange(100.0)
    draws[:5] = np.nan
    assert interval(draws)[0] > 4
    draws[:20] = np.nan
    assert np.isnan(interval(draws)).all()


def test_autocorrelation_by_hand_and_never_across_requests() -> None:
    values = np.array([1, 3, 1, 3, 3, 1], np.int32)
    unit = np.array([0, 0, 0, 0, 1, 1], np.int32)
    overall, within, pairs = autocorrelation(values, unit, 1)
    assert pairs == 4 and overall == pytest.approx(-1) and within == pytest.approx(-1)


def test_autocorrelation_of_short_requests_is_not_pulled_towards_zero() -> None:
    """Requests of two equal rounds: what the first is, the second is."""
    values, unit = np.array([1, 1, 5, 5] * 3, np.int32), np.repeat(np.arange(6, dtype=np.int32), 2)
    assert autocorrelation(values, unit, 1)[0] == pytest.approx(1)


def test_autocorrelation_of_a_known_process() -> None:
    """A first-order process with coefficient 0.6: lags 1 and 2 near 0.6 and 0.36."""
    rng = np.random.default_rng(1)
    x = np.zeros(200_000)
    for t in range(1, x.size):
        x[t] = 0.6 * x[t - 1] + rng.normal()
    values, unit = np.round(100 * x).astype(np.int32), np.zeros(x.size, np.int32)
    assert autocorrelation(values, unit, 1)[0] == pytest.approx(0.6, abs=0.01)
    assert autocorrelation(values, unit, 2)[0] == pytest.approx(0.36, abs=0.01)


def test_geometric_fit_recovers_p_and_reports_no_misfit() -> None:
    rng = np.random.default_rng(2)
    accepted = np.minimum(rng.geometric(0.3, 100_000) - 1, 5)
    counts = np.bincount(accepted, minlength=6).astype(float)
    caps = np.zeros(6)
    caps[5] = counts.sum()
    p, expected = fit_geometric(counts, caps, counts[5])
    assert p == pytest.approx(0.7, abs=0.005)
    assert expected.sum() == pytest.approx(counts.sum())
    assert 0.5 * np.abs(counts - expected).sum() / counts.sum() < 0.01


def test_geometric_fit_uses_what_each_round_proposed() -> None:
    """Rounds that propose one draft and accept it carry no rejection: p = 4 / (4 + 1)."""
    trace = trace_of([2, 2, 2, 2, 1], drafted=[[1, 1, 1, 1, 1]])
    resampler = Resampler(trace)
    table = geometric_table(trace, basis_of(trace, resampler))
    assert "p = 0.8000" in table.note and column(table, "fitted") == pytest.approx([1.0, 4.0])


def test_geometric_misfit_is_said() -> None:
    trace = trace_of([1] * 50 + [6] * 50)
    resampler = Resampler(trace)
    assert "does not fit" in geometric_table(trace, basis_of(trace, resampler)).note


def test_speedup_by_hand() -> None:
    """alpha = 0.7, 0.5, 0.3: tokens 1, 1.7, 2.2, 2.5; at cost 0.25: 1, 1.36, 1.4667, 1.4286, so two drafts."""
    trace = trace_of([1, 1, 1, 2, 2], [3, 3, 4, 4, 4])
    resampler = Resampler(trace)
    curve, recommended = speedup_tables(trace, basis_of(trace, resampler), resampler, 0.25)
    assert column(curve, "tokens per round") == pytest.approx([1, 1.7, 2.2, 2.5])
    assert column(curve, "speed-up") == pytest.approx([1, 1.7 / 1.25, 2.2 / 1.5, 2.5 / 1.75])
    yours = next(row for row in recommended.rows if row[7] == "yes")
    assert yours[1] == 2


def test_recommended_k_has_an_interval_and_says_when_it_is_at_the_edge() -> None:
    rng = np.random.default_rng(7)
    trace = trace_of(*(np.minimum(rng.geometric(0.25, 50), 8).tolist() for _ in range(40)))
    resampler = Resampler(trace)
    _, recommended = speedup_tables(trace, basis_of(trace, resampler), resampler, None)
    cheap, dear = recommended.rows[0], recommended.rows[-1]
    assert cheap[1] == 7 and "more may pay" in str(cheap[8])
    assert dear[1] < 7 and dear[2] <= dear[1] <= dear[3]


def test_tokens_per_round_ends_at_the_mean() -> None:
    by_group = np.array([[3.0, 2, 2, 3]])
    assert tokens_per_round(survival(by_group))[0, -1] == pytest.approx((3 * 1 + 2 * 2 + 2 * 3 + 3 * 4) / 10)


def test_distribution_counts_and_quantiles() -> None:
    trace = trace_of([1, 1, 2, 5], [3])
    resampler = Resampler(trace)
    table = distribution_table(basis_of(trace, resampler), resampler)
    assert column(table, "rounds") == [2, 1, 1, 0, 1]
    assert column(table, "at least") == pytest.approx([1, 0.6, 0.4, 0.2, 0.2])
    assert "Median 2" in table.note


def test_very_long_rounds_are_counted_in_the_last_bin_and_said() -> None:
    trace = trace_of([1, 1_000_000])
    resampler = Resampler(trace)
    table = distribution_table(basis_of(trace, resampler), resampler)
    assert len(table.rows) == 256 and table.rows[-1][1] == 1 and "1 rounds longer than 256" in table.note
    assert estimate(trace, "al_raw").value == 500_000.5


def test_first_last_and_only_rounds() -> None:
    trace = trace_of([4, 2, 2, 1], [3], [6, 5])
    resampler = Resampler(trace)
    table = ends_table(trace, basis_of(trace, resampler), resampler)
    assert {row[0]: (row[1], row[3]) for row in table.rows} == {
        "first round": (2, 5.0),
        "rounds between": (2, 2.0),
        "last round": (2, 3.0),
        "only round of its request": (1, 3.0),
    }


def test_by_output_position() -> None:
    builder = TraceBuilder(Header("test", truncation="raw", source_file="f"))
    builder.add(Unit("a", 1, rounds={"al_raw": [4, 1, 3, 20], "out_pos": [0, 4, 17, 40]}))
    trace = builder.finish()
    resampler = Resampler(trace)
    table = by_column_table(trace, basis_of(trace, resampler), resampler, "out_pos", "out_pos", "t")
    assert [(row[0], row[1], row[3]) for row in table.rows] == [
        ("0", 1, 4.0), ("1 to 15", 1, 1.0), ("16 to 31", 1, 3.0), ("32 to 63", 1, 20.0),
    ]  # fmt: skip


def test_by_category_is_pooled_within_it() -> None:
    trace = trace_of([2, 2], [5], [1], category=["x", "x", "y"])
    resampler = Resampler(trace)
    table = category_table(trace, basis_of(trace, resampler), resampler)
    assert [(row[0], row[1], row[3]) for row in table.rows] == [("x", 3, 3.0), ("y", 1, 1.0)]


def test_warm_up_with_and_without() -> None:
    trace = trace_of([8, 8], [2, 2], [2, 2], is_warmup=[True, False, False])
    values = {row[0]: row[3] for row in warmup_table(trace, Resampler(trace)).rows}
    assert (
        values["all"] == 4.0 and values["without flagged warm-up"] == 2.0 and values["without the first request"] == 2.0
    )


def test_truncation_counts_what_was_cut() -> None:
    builder = TraceBuilder(Header("test", truncation="both", source_file="f"))
    builder.add(Unit("a", 1, rounds={"al_raw": [4, 4], "al_committed": [4, 1]}))
    rows = {row[0]: row[1] for row in truncation_table(builder.finish()).rows}
    assert rows["rounds cut"] == 1 and rows["tokens cut off"] == 3 and rows["raw - committed"] == 1.5


def test_outliers_are_found_and_located() -> None:
    rng = np.random.default_rng(0)
    requests = [rng.integers(1, 4, 30).tolist() for _ in range(40)] + [[9] * 30]
    table = outliers_table(trace_of(*requests))
    assert table.rows[0][0] == "r40" and table.rows[0][-1] == "f:41"


def test_what_the_input_does_not_tell_is_said_everywhere() -> None:
    """Totals only: no distribution, no positions, no order; every table is there and gives a reason."""
    builder = TraceBuilder(Header("test", source_file="f"))
    builder.add(Unit("a", 1, kind="lifetime", verify_steps=7, accepted_total=13))
    analysis = analyse(builder.finish(), "x")
    for key in (
        "distribution", "positions", "out_pos", "ctx_len", "ends", "dependence", "geometric", "speedup", "warmup",
        "truncation", "outliers",
    ):  # fmt: skip
        assert analysis.table(key).unavailable, key
    assert analysis.headline["al_raw"].value == pytest.approx(20 / 7)
    assert len(analysis.table("pitfalls").rows) == 18


def test_an_empty_trace_is_analysed() -> None:
    analysis = analyse(TraceBuilder(Header("test", source_file="f")).finish(), "x")
    assert analysis.headline["al_raw"].value is None
