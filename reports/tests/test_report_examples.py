"""One run in every engine's shape gives the expected values, each under its own definition."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from frontier_oracle.reports.analysis.bootstrap import Resampler
from frontier_oracle.reports.analysis.means import estimate, per_unit
from frontier_oracle.reports.canonical import NULL32, Trace
from frontier_oracle.reports.load import load

FIXTURES = Path(__file__).parent / "fixtures"
EXPECTED = json.loads((FIXTURES / "EXPECTED_summary.json").read_text())
RAW, COMMITTED = EXPECTED["tau_raw_pooled"], EXPECTED["tau_committed_pooled"]


def read(name: str, source_format: str | None = None) -> Trace:
    traces = load([FIXTURES / name]).traces
    if source_format is None:
        assert len(traces) == 1
        return traces[0]
    return next(trace for trace in traces if trace.header.source_format == source_format)


def pooled(trace: Trace, key: str) -> float | None:
    return estimate(trace, key).value


SHAPES = [
    # file, format, ordered rounds, raw pooled, committed pooled
    ("vllm_chat_response_detailed.jsonl", "vllm-response", True, RAW, COMMITTED),
    ("vllm_chat_response_summary.jsonl", "vllm-response", False, RAW, COMMITTED),
    ("vllm_bench_serve_result.json", "vllm-bench", False, RAW, None),
    ("vllm_metrics.prom", "vllm-metrics", False, RAW, None),
    ("vllm_server.log", "vllm-log", False, RAW, None),
    ("sglang_generate_response.jsonl", "sglang-meta-info", False, RAW, COMMITTED),
    ("sglang_generate_response_legacy_names.jsonl", "sglang-meta-info", False, RAW, COMMITTED),
    ("sglang_chat_sglext.json", "sglang-openai", False, 2.5, 2.5),
    ("sglang_bench_serving.jsonl", "sglang-bench", False, None, None),
    ("sglang_server.log", "sglang-log", False, None, None),
    ("sglang_server_info.json", "sglang-server-info", False, None, None),
    ("trtllm_iteration_stats.jsonl", "trtllm-iteration-stats", False, RAW, None),
    ("trtllm_perf_metrics.jsonl", "trtllm-perf-metrics", False, None, None),
    ("trtllm_chat_choice_PROPOSED_pr19311.jsonl", "trtllm-perf-metrics", False, RAW, None),
    ("trtllm_bench_console.txt", "trtllm-bench-console", False, None, None),
    ("llamacpp_response.jsonl", "llamacpp-response", False, None, None),
    ("llamacpp_server.log", "llamacpp-log", False, RAW, None),
    ("llamacpp_server.log", "llamacpp-statistics", False, RAW, None),
    ("llamacpp_server.log", "llamacpp-log-old", False, None, None),
    ("llamacpp_metrics.prom", "llamacpp-metrics", False, RAW, None),
    ("tokenspeed_meta_info.jsonl", "tokenspeed-meta-info", False, None, COMMITTED),
    ("tokenspeed_server.log", "tokenspeed-request-log", False, None, COMMITTED),
    ("tokenspeed_server.log", "tokenspeed-batch-log", False, None, None),
    ("tokenspeed_metrics.prom", "tokenspeed-metrics", False, RAW, None),
    ("specbench_model_answer.jsonl", "specbench", True, None, COMMITTED),
    ("eagle_model_answer_idxs.jsonl", "eagle-answers", False, None, COMMITTED),
    ("specforge_bench_eagle3_results.jsonl", "specforge-bench", False, None, None),
    ("specforge_new_report.json", "specforge-report", False, None, COMMITTED),
    ("nvidia_specdec_bench_acceptance_rate.json", "specdec-bench", False, None, COMMITTED),
    ("aiperf_record.json", "aiperf-record", True, 2.5, 2.5),
    ("EXPECTED_canonical_rounds.jsonl", "canonical-jsonl", True, RAW, COMMITTED),
]


@pytest.mark.parametrize(("name", "source_format", "ordered", "raw", "committed"), SHAPES)
def test_shape(name: str, source_format: str, ordered: bool, raw: float | None, committed: float | None) -> None:
    trace = read(name, source_format)
    assert pooled(trace, "al_raw") == (None if raw is None else pytest.approx(raw, abs=1e-12))
    assert pooled(trace, "al_committed") == (None if committed is None else pytest.approx(committed, abs=1e-12))
    assert (trace.n_rounds > 0) is ordered
    assert (trace.header.order_known == "rounds") is ordered
    assert not trace.problems.counts


STATED = [
    ("vllm_bench_serve_result.json", "vllm-bench", [RAW]),
    ("vllm_server.log", "vllm-log", [2.86]),
    ("sglang_generate_response.jsonl", "sglang-meta-info", [2.75, 8 / 3]),
    ("sglang_bench_serving.jsonl", "sglang-bench", [RAW]),
    ("sglang_server.log", "sglang-log", [2.86, 2.86]),
    ("sglang_server_info.json", "sglang-server-info", [RAW]),
    ("specforge_bench_eagle3_results.jsonl", "specforge-bench", [19 / 7]),
    ("specforge_new_report.json", "specforge-report", [19 / 7]),
    ("tokenspeed_meta_info.jsonl", "tokenspeed-meta-info", [2.5, 7 / 3]),
    ("tokenspeed_server.log", "tokenspeed-request-log", [2.5, 7 / 3]),
    ("tokenspeed_server.log", "tokenspeed-batch-log", [2.86]),
    ("trtllm_bench_console.txt", "trtllm-bench-console", [2.1]),
    ("trtllm_chat_choice_PROPOSED_pr19311.jsonl", "trtllm-perf-metrics", [2.2, 2.0]),
    ("nvidia_specdec_bench_acceptance_rate.json", "specdec-bench", [2.2, 2.0]),
]


@pytest.mark.parametrize(("name", "source_format", "stated"), STATED)
def test_engines_own_means_are_kept(name: str, source_format: str, stated: list[float]) -> None:
    values = read(name, source_format).reported_mean
    assert values[np.isfinite(values)].tolist() == pytest.approx(stated, abs=1e-12)


def test_every_definition_on_the_detailed_run() -> None:
    trace = read("vllm_chat_response_detailed.jsonl")
    assert pooled(trace, "al_raw") == pytest.approx(20 / 7)
    assert pooled(trace, "al_committed") == pytest.approx(17 / 7)
    assert estimate(trace, "al_raw", "requests").value == pytest.approx(EXPECTED["tau_raw_mean_of_requests"])
    assert pooled(trace, "accepted_per_round") == pytest.approx(13 / 7)
    assert per_unit(trace, "completion_over_verify").tolist() == pytest.approx([2.75, 8 / 3])
    assert pooled(trace, "completion_over_verify") == pytest.approx(19 / 7)
    assert per_unit(trace, "completion_less_prefill").tolist() == pytest.approx([2.5, 7 / 3])
    assert per_unit(trace, "completion_over_iterations").tolist() == pytest.approx([2.2, 2.0])
    assert per_unit(trace, "predicted_over_nondraft").tolist() == pytest.approx([2.2, 8.0])
    assert per_unit(trace, "rate_verify_width").tolist() == pytest.approx([0.375, 1 / 3])
    assert pooled(trace, "rate_drafted") == pytest.approx(13 / 21)


@pytest.mark.parametrize("name", ["vllm_chat_response_detailed.jsonl", "EXPECTED_canonical_rounds.jsonl"])
def test_canonical_rounds(name: str) -> None:
    """The rounds of the two shapes that tell everything, column by column."""
    expected = [json.loads(line) for line in (FIXTURES / "EXPECTED_canonical_rounds.jsonl").read_text().splitlines()]
    trace = read(name)
    for column in ("drafted", "al_raw", "al_committed", "out_pos"):
        assert trace.rounds[column].tolist() == [row[column] for row in expected]
    assert trace.rounds["truncated"].tolist() == [int(row["truncated"]) for row in expected]
    assert [trace.request_id[u][-1] for u in trace.unit_of_round()] == [row["request_id"] for row in expected]


def test_specbench_rounds_are_cut_by_turn_and_only_the_last_raw_length_is_unknown() -> None:
    trace = read("specbench_model_answer.jsonl")
    assert trace.ints["turn"].tolist() == [0, 1]
    assert trace.rounds["al_committed"].tolist() == [4, 1, 3, 2, 2, 4, 1]
    assert trace.rounds["al_raw"].tolist() == [4, 1, 3, NULL32, 2, 4, NULL32]
    assert trace.rounds["out_pos"].tolist() == [0, 4, 5, 8, 0, 2, 6]


def test_both_turns_of_a_conversation_are_one_bootstrap_cluster() -> None:
    assert Resampler(read("specbench_model_answer.jsonl")).clusters == 1


def test_where_the_engines_number_is_recomputable_it_agrees() -> None:
    from frontier_oracle.reports.analysis.means import engine_table

    compared = 0
    for name, source_format, *_ in SHAPES:
        for row in engine_table(read(name, source_format)).rows:
            assert row[4] != "NO", row
            compared += row[4] == "yes"
    assert compared >= 20
