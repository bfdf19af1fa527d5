"""Published files of nine projects: rounds, mean and maximum as in the index that comes with them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from frontier_oracle.reports.analysis.basis import basis_of
from frontier_oracle.reports.analysis.bootstrap import Resampler
from frontier_oracle.reports.analysis.dependence import autocorrelation
from frontier_oracle.reports.analysis.means import estimate, per_unit
from frontier_oracle.reports.definitions import listed
from frontier_oracle.reports.load import load

REAL = Path(__file__).resolve().parents[2].parent / "shared" / "traces" / "real"
INDEX = list(csv.DictReader((REAL / "INDEX.tsv").read_text().splitlines(), delimiter="\t")) if REAL.is_dir() else []
pytestmark = pytest.mark.skipif(not INDEX, reason="the published traces (../shared/traces/real) are not here")

MEAN_BY_FORMAT = {
    "specbench": "al_reported",
    "eagle-answers": "al_committed",
    "llamacpp-receipts": "predicted_over_nondraft",
    "dflash-mlx-runs": "al_raw",
}


@pytest.mark.parametrize("row", INDEX, ids=[row["file"].split("/")[-1] + f" {n}" for n, row in enumerate(INDEX)])
def test_index(row: dict[str, str]) -> None:
    (trace,) = load([REAL / row["file"]]).traces
    key = MEAN_BY_FORMAT.get(trace.header.source_format)
    if key is None:
        # published means only: the index gives their plain mean, or nothing for curves over k
        assert row["rounds"] == "0" and trace.n_rounds == 0
        if row["mean_accept_len"]:
            assert round(float(trace.reported_mean.mean()), 4) == float(row["mean_accept_len"])
            assert trace.reported_mean.max() == float(row["max"]) and trace.reported_mean.min() == float(row["min"])
            assert trace.n_units == 740
        return
    e = estimate(trace, key)
    if not row["mean_accept_len"]:
        assert e.value is None and row["rounds"] == "0"
        return
    assert e.bottom == int(row["rounds"])
    assert e.value is not None and round(e.value, 4) == float(row["mean_accept_len"])
    lengths = listed(trace)
    if row["max"] and lengths is not None:
        assert (int(lengths.min()), int(lengths.max())) == (int(row["min"]), int(row["max"]))
    if trace.header.source_format == "dflash-mlx-runs":
        assert trace.header.k_verify_width == int(row["max"])


def find(part: str) -> Path:
    return REAL / next(row["file"] for row in INDEX if part in row["file"])


def test_every_file_of_the_directory_is_read_and_the_index_itself_is_listed() -> None:
    loaded = load([REAL])
    assert len(loaded.traces) == len(INDEX)
    assert [Path(name).name for name in loaded.unrecognised] == ["INDEX.tsv"]


def test_negative_counts_and_uncut_turns_are_counted_and_located() -> None:
    (trace,) = load([find("Llama-3-8B-baseline")]).traces
    assert trace.problems.counts["turns cannot be cut"] == 480
    assert trace.problems.counts["negative count"] == 646  # lists with a negative number
    assert trace.problems.kept["negative count"][0].where.endswith("baseline.jsonl:1")
    assert "-138" in trace.problems.kept["negative count"][0].message


def test_a_repeated_id_is_kept_and_counted() -> None:
    (trace,) = load([find("sentiment_analysis/model_answer/Qwen")]).traces
    assert trace.problems.counts["repeated request id"] == 1
    assert sum(name.endswith("#2") for name in trace.request_id) == 1


def test_empty_accept_lengths_are_counted() -> None:
    (trace,) = load([find("eagle3")]).traces
    assert dict(trace.problems.counts) == {"empty accept_lengths": 4}


def test_eagle_steps_are_indices_from_zero() -> None:
    """3.620 with index + 1 steps, 3.658 with the index, 3.737 as mean of the turns' means (pitfalls 4 and 8)."""
    (trace,) = load([find("llama-2-chat-70b")]).traces
    assert estimate(trace, "al_index_naive").value == pytest.approx(3.6583, abs=5e-5)
    assert float(np.nanmean(per_unit(trace, "al_committed"))) == pytest.approx(3.7368, abs=5e-5)


def test_llamacpp_approximates_rounds_and_the_servers_counters_say_what_they_were() -> None:
    (trace,) = load([find("corrected_q4_n1-r1")]).traces
    assert trace.engine_numbers[0].value == pytest.approx(1 + 103 / 118)
    assert estimate(trace, "predicted_over_nondraft").value == pytest.approx(225 / 122)


def test_rounds_are_autocorrelated() -> None:
    """Published for this drafter of adaptive length: 0.64 (pitfall 10), which divides by all rounds, not by pairs."""
    (trace,) = load([find("mt_bench/model_answer/vicuna-7b-v1.3-sps")]).traces
    basis = basis_of(trace, Resampler(trace))
    assert basis is not None and basis.values is not None
    overall, _, pairs = autocorrelation(basis.values, trace.unit_of_round(), 1)
    assert overall * pairs / basis.values.size == pytest.approx(0.64, abs=0.005)


def test_first_and_last_rounds_differ_from_the_mean() -> None:
    """Published for EAGLE on query_rank: first 4.62, last 2.76, mean 3.91 (pitfall 9)."""
    from frontier_oracle.reports.analysis.breakdown import ends_table

    (trace,) = load([find("query_product_rank/model_answer/vicuna-7b-v1.3-eagle")]).traces
    resampler = Resampler(trace)
    table = ends_table(trace, basis_of(trace, resampler), resampler)
    means = {row[0]: row[3] for row in table.rows}
    assert means["first round"] == pytest.approx(4.62, abs=0.005)
    assert means["last round"] == pytest.approx(2.76, abs=0.005)
