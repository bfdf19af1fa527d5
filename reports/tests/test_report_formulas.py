"""The formula beside a number is the one that was computed, and the engine's own numbers name their definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frontier_oracle.reports.analysis.bootstrap import Resampler
from frontier_oracle.reports.analysis.means import engine_table, means_table
from frontier_oracle.reports.definitions import DEFINITIONS
from frontier_oracle.reports.load import load

FIXTURES = Path(__file__).parent / "fixtures"


def formulas(name: str) -> dict[tuple[str, str], Any]:
    (trace,) = load([FIXTURES / name]).traces
    table = means_table(trace, Resampler(trace))
    at = [column.name for column in table.columns].index("formula")
    return {(str(row[0]), str(row[1])): (row[2], row[at]) for row in table.rows}


def test_the_formula_shown_is_the_one_computed() -> None:
    """Two requests, 19 tokens, 7 rounds: the prefill token apart, or (Spec-Bench, EAGLE: 17 tokens) in the rounds."""
    less, over = "Completion without prefill over verify steps", "Completion over iterations, prefill counted"
    apart, within = formulas("vllm_chat_response_detailed.jsonl"), formulas("specbench_model_answer.jsonl")
    assert apart[less, "pooled"] == (pytest.approx((19 - 2) / 7), "(completion tokens - requests) / rounds")
    assert apart[less, "requests"][1] == "mean over requests of (completion tokens - 1) / rounds"
    assert apart[over, "pooled"] == (pytest.approx(19 / (7 + 2)), "completion tokens / (rounds + requests)")
    assert apart[over, "requests"][1] == "mean over requests of completion tokens / (rounds + 1)"
    in_a_round = "completion tokens / rounds (the prefill token is in a round)"
    assert within[less, "pooled"] == within[over, "pooled"] == (pytest.approx(17 / 7), in_a_round)
    naive = formulas("eagle_model_answer_idxs.jsonl")["Completion over last index", "pooled"]
    assert naive == (pytest.approx(17 / (7 - 2)), "new tokens / (rounds - turns)")


def test_the_formula_of_a_mixture_says_which_requests_it_takes_a_token_from() -> None:
    flags = np.array([1, 0, 1])
    text = DEFINITIONS["completion_less_prefill"].computed(flags, "pooled")
    assert text == "(completion tokens - requests) / rounds (requests: the 1 whose prefill token is in no round)"
    assert DEFINITIONS["al_raw"].computed(flags, "pooled") == DEFINITIONS["al_raw"].formula


@pytest.mark.parametrize(("name", "source_format", "definition"), [
    ("sglang_server.log", "sglang-log", "Accept length, raw, bonus included"),
    ("sglang_server_info.json", "sglang-server-info", "Accept length, raw, bonus included"),
    ("sglang_bench_serving.jsonl", "sglang-bench", "Accept length, raw, bonus included"),
    ("tokenspeed_server.log", "tokenspeed-batch-log", "Accept length, raw, bonus included"),
    ("trtllm_bench_console.txt", "trtllm-bench-console", "Completion over iterations, prefill counted"),
])  # fmt: skip
def test_means_that_cannot_be_recomputed_still_name_their_definition(
    name: str, source_format: str, definition: str
) -> None:
    trace = next(t for t in load([FIXTURES / name]).traces if t.header.source_format == source_format)
    rows = engine_table(trace).rows
    means = [row for row in rows if "rate" not in str(row[0]) and "draft" not in str(row[0])]
    assert means and all(str(row[2]).startswith(definition) for row in means), means
    assert all(row[3] is None for row in means)
