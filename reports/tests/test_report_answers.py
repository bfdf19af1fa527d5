"""Answers and samples that research code writes: Spec-Bench and its forks, DFlash, DDTree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report_reading import lines, one, read

from frontier_oracle.reports.analysis.means import estimate
from frontier_oracle.reports.canonical import NULL


def test_specbench_scalars_of_forks(tmp_path: Path) -> None:
    choice = {"index": 0, "summary": "x", "decoding_steps": 3, "new_tokens": 7, "accept_lengths": [2, 4, 1]}
    trace = one(read(tmp_path, lines({"question_id": 1, "model_id": "m", "choices": [choice]})))
    assert trace.rounds["al_committed"].tolist() == [2, 4, 1]


def test_specbench_overshoot_is_raw_and_is_cut_back(tmp_path: Path) -> None:
    choice = {"decoding_steps": [3], "new_tokens": [6], "accept_lengths": [2, 2, 4]}
    trace = one(read(tmp_path, lines({"question_id": 1, "choices": [choice]})))
    assert trace.rounds["al_raw"].tolist() == [2, 2, 4] and trace.rounds["al_committed"].tolist() == [2, 2, 2]
    assert trace.rounds["truncated"].tolist() == [0, 0, 1]


def test_specbench_prefill_token_outside_the_rounds(tmp_path: Path) -> None:
    choice = {"decoding_steps": [2], "new_tokens": [6], "accept_lengths": [2, 3]}
    trace = one(read(tmp_path, lines({"question_id": 1, "choices": [choice]})))
    assert trace.ints["prefill_in_rounds"].tolist() == [0] and trace.rounds["out_pos"].tolist() == [1, 3]


def test_specbench_zero_length_rounds_are_kept_and_counted(tmp_path: Path) -> None:
    choice = {"decoding_steps": [3], "new_tokens": [4], "accept_lengths": [0, 3, 1]}
    trace = one(read(tmp_path, lines({"question_id": 1, "choices": [choice]})))
    assert trace.n_rounds == 3 and trace.problems.counts["al_committed < 1"] == 1
    assert trace.problems.kept["al_committed < 1"][0].where.endswith("input.txt:1")
    assert estimate(trace, "al_committed").value == pytest.approx(4 / 3)


def test_specbench_truncated_last_line(tmp_path: Path) -> None:
    record = {"question_id": 1, "choices": [{"decoding_steps": [1], "new_tokens": [4], "accept_lengths": [4]}]}
    text = lines(record) + json.dumps({**record, "question_id": 2})[:-20]
    trace = one(read(tmp_path, text))
    assert trace.n_rounds == 1 and trace.problems.counts["broken line"] == 1
    assert trace.problems.kept["broken line"][0].where.endswith("input.txt:2")


def test_dflash_samples_keep_raw_and_mark_warm_up(tmp_path: Path) -> None:
    text = json.dumps(
        {"results": [{"id": 0, "acceptance_lengths": [8, 8], "is_warmup": True, "num_output_tokens": 16},
                     {"id": 1, "acceptance_lengths": [3, 5], "is_warmup": False, "num_output_tokens": 6}]}
    )  # fmt: skip
    trace = one(read(tmp_path, text))
    assert trace.ints["is_warmup"].tolist() == [1, 0]
    assert trace.rounds["al_raw"].tolist() == [8, 8, 3, 5] and trace.rounds["al_committed"].tolist() == [8, 8, 3, 3]


def test_ddtree_one_row_per_round(tmp_path: Path) -> None:
    rows = [{"sample_id": 3, "round": n, "acceptance_length": a} for n, a in enumerate((4, 1, 2))]
    trace = one(read(tmp_path, lines(*rows)))
    assert trace.rounds["al_raw"].tolist() == [4, 1, 2] and trace.header.truncation == "unknown"
    assert estimate(trace, "al_raw").value is None and estimate(trace, "al_reported").value == pytest.approx(7 / 3)


@pytest.mark.parametrize(
    ("steps", "tokens", "texts"),
    [
        ([-1, -1], [-1, -1], ["decoding_steps is [-1, -1]", "new_tokens is [-1, -1]"]),
        ([1, 1], [-2, -2], ["completion_tokens is negative", "turn 1: completion_tokens is negative"]),
        ([1, 1], [3, 2, -7], ["new_tokens is [-7]"]),
    ],
)
def test_specbench_negative_counts_are_told_once_each(
    steps: list[int], tokens: list[int], texts: list[str], tmp_path: Path
) -> None:
    choice = {"decoding_steps": steps, "new_tokens": tokens, "accept_lengths": [3, 2]}
    trace = one(read(tmp_path, lines({"question_id": 1, "choices": [choice]})))
    messages = [problem.message for problem in trace.problems.kept["negative count"]]
    assert len(messages) == len(texts) and all(text in message for text, message in zip(texts, messages, strict=True))
    assert len(set(messages)) == len(messages)


def test_dflash_mlx_tells_the_longest_round_only_if_a_largest_block_was_accepted_in_full(tmp_path: Path) -> None:
    def run(number: int, cycles: dict[str, Any], full: dict[str, Any]) -> dict[str, Any]:
        metrics = {"cycles_by_block": cycles, "full_accepts_by_block": full}
        return {"run": number, "dflash": {"cycles": 9, "accepted_from_draft": 20, "adaptive_metrics": metrics}}

    told = [run(1, {"4": 5, "16": 4, "32": 0}, {"4": 3, "16": 1, "32": 0}), run(2, {"4": 9}, {"4": 2})]
    untold = [run(3, {"4": 5, "16": 4}, {"4": 3, "16": 0}), run(4, {}, {})]
    trace = one(read(tmp_path, lines(*told, *untold)))
    assert trace.ints["longest_round"].tolist() == [16, 4, NULL, NULL] and not trace.problems.counts
