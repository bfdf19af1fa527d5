"""The what-if replay: the input's own accept lengths, through the atlas, over a stated sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frontier_oracle.oracle.atlas import atlas
from frontier_oracle.oracle.designs import DESIGNS
from frontier_oracle.reports.analysis.run import Analysis, analyse
from frontier_oracle.reports.analysis.whatif import SAMPLE_REQUESTS, SAMPLE_ROUNDS
from frontier_oracle.reports.load import load
from frontier_oracle.reports.table import Table

FIXTURES = Path(__file__).parent / "fixtures"


def analysed(path: Path) -> Analysis:
    (trace,) = load([path]).traces
    analysis = analyse(trace, "x")
    analysis.add_what_if()
    return analysis


def table_of(tmp_path: Path, sequences: list[list[int]], **fields: Any) -> Table:
    rows = [
        {"request_id": f"r{n}", "round": i, "al_raw": a, **fields}
        for n, sequence in enumerate(sequences)
        for i, a in enumerate(sequence)
    ]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return analysed(tmp_path / "x.jsonl").table("whatif")


def test_it_is_the_atlas_on_the_runs_own_sequences() -> None:
    """The published run: 4,1,3,2 and 2,4,4 at a verify width of 4."""
    table = analysed(FIXTURES / "vllm_chat_response_detailed.jsonl").table("whatif")
    expected = atlas([(4, 1, 3, 2), (2, 4, 4)], k=4)
    assert [row[0] for row in table.rows] == list(DESIGNS)
    for row, run in zip(table.rows, expected.designs, strict=True):
        assert row[1] == pytest.approx(1000 * run.states["stale"] / 20)
        assert row[2] == pytest.approx(1000 * run.states["unwritten"] / 20)
        assert row[4] == pytest.approx(run.rows / 7)
        assert row[5] == pytest.approx(run.rows / run.lower_bound_rows)
        assert row[7] is run.exact


def test_the_frontier_leaves_nothing_and_the_unrepaired_design_leaves_stale_entries(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = table_of(tmp_path, np.minimum(rng.geometric(0.4, (10, 20)), 4).tolist())
    rows = {str(row[0]): row for row in table.rows}
    assert rows["frontier"][1:4] == [0.0, 0.0, 0.0] and rows["frontier"][7] is True
    stale = rows["tokenspeed_unrepaired"][1]
    assert isinstance(stale, float) and stale > 0 and rows["tokenspeed_unrepaired"][7] is False


def test_the_sample_is_bounded_and_stated(tmp_path: Path) -> None:
    table = table_of(tmp_path, [[2] * (SAMPLE_ROUNDS + 8)] * (SAMPLE_REQUESTS + 16))
    assert f"the first {SAMPLE_ROUNDS} rounds at most of {SAMPLE_REQUESTS} of 40 requests" in table.note
    assert f"{SAMPLE_REQUESTS * SAMPLE_ROUNDS} of 1600 rounds" in table.note


@pytest.mark.parametrize(
    ("sequences", "reason"),
    [([[1, 1]], "no draft was ever accepted"), ([[20, 1]], "up to 20 tokens"), ([[0, 3]], "no request has a whole")],
)
def test_what_cannot_be_replayed_says_why(tmp_path: Path, sequences: list[list[int]], reason: str) -> None:
    assert reason in str(table_of(tmp_path, sequences).unavailable)


def test_a_histogram_is_not_shuffled_into_a_sequence() -> None:
    table = analysed(FIXTURES / "vllm_chat_response_summary.jsonl").table("whatif")
    assert "needs ordered rounds" in str(table.unavailable)
