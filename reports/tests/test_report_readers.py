"""One test per quirk of each format that trips a reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_reading import lines, one, read

from frontier_oracle.reports.analysis.means import estimate
from frontier_oracle.reports.canonical import NULL, NULL32
from frontier_oracle.reports.load import load
from frontier_oracle.reports.readers.vllm_log import recover_steps

FIXTURES = Path(__file__).parent / "fixtures"


VLLM_LOG = (
    "{prefix}SpecDecoding metrics: Mean acceptance length: {mean}, Accepted throughput: 1.30 tokens/s, Drafted "
    "throughput: 2.10 tokens/s, Accepted: {accepted} tokens, Drafted: {drafted} tokens, Per-position acceptance rate: "
    "{rates}, Avg Draft acceptance rate: 61.9%\n"
)


def test_vllm_log_prefixes_vary_and_other_lines_are_passed_over(tmp_path: Path) -> None:
    fields = {"mean": 2.86, "accepted": 13, "drafted": 21, "rates": "0.857, 0.571, 0.429"}
    text = VLLM_LOG.format(prefix="INFO 01-02 [metrics.py:1] ", **fields) + "Engine 000: something else\n"
    text += VLLM_LOG.format(prefix="(EngineCore pid=3) WARNING ", **fields)
    text += "DiffusionDecoding metrics: Mean acceptance length: 9.99\n"
    trace = one(read(tmp_path, text))
    assert trace.n_units == 2 and trace.ints["verify_steps"].tolist() == [7, 7]


def test_vllm_log_recovers_drafts_of_variable_length_only_if_unique() -> None:
    assert recover_steps(2.86, 13, 21, [0.857, 0.571, 0.429]) == 7
    assert recover_steps(1.0, 0, 21, [0.0, 0.0, 0.0]) == 7
    assert recover_steps(2.5, 15, 23, [0.9, 0.6]) == 10
    assert recover_steps(2.5, 150_000, 230_001, [0.9, 0.6]) is None
    assert recover_steps(1.0, 0, 0, []) is None


def test_vllm_log_without_a_unique_number_of_drafts_says_so(tmp_path: Path) -> None:
    text = VLLM_LOG.format(prefix="", mean=2.5, accepted=150_000, drafted=230_001, rates="0.900, 0.600")
    trace = one(read(tmp_path, text))
    assert trace.ints["verify_steps"].tolist() == [NULL]
    assert trace.problems.counts["drafts not recoverable"] == 1
    assert estimate(trace, "al_raw").value is None and estimate(trace, "rate_drafted").value is not None


def test_forced_acceptance_is_labelled(tmp_path: Path) -> None:
    text = (FIXTURES / "sglang_server.log").read_text()
    assert one(read(tmp_path, text)).header.synthetic_acceptance == "unknown"
    trace = one(read(tmp_path, "env: SGLANG_SIMULATE_ACC_LEN=3\n" + text))
    assert trace.header.synthetic_acceptance == "yes" and "SYNTHETIC" in trace.header.notes[-1]


def test_vllm_v0_log_is_cumulative_and_a_restart_begins_a_new_life(tmp_path: Path) -> None:
    form = (
        "Speculative metrics: Draft acceptance rate: 0.5, System efficiency: 0.4, Number of speculative tokens: 3, "
        "Number of accepted tokens: {}, Number of draft tokens: {}, Number of emitted tokens: 9.\n"
    )
    trace = one(read(tmp_path, form.format(10, 30) + form.format(20, 60) + form.format(4, 9)))
    assert trace.ints["accepted_total"].tolist() == [20, 4]
    assert trace.ints["verify_steps"].tolist() == [20, 3]


def test_vllm_bench_rate_is_a_percentage_and_positions_are_fractions() -> None:
    trace = one(load([FIXTURES / "vllm_bench_serve_result.json"]))
    assert trace.reported_rate.tolist() == pytest.approx([13 / 21])
    assert trace.per_position is not None and trace.per_position[0] == pytest.approx([6, 4, 3])


def test_vllm_bench_console(tmp_path: Path) -> None:
    text = (
        "Acceptance rate (%):                     61.90\nAcceptance length:                       2.86\n"
        "Drafts:                                  7\nDraft tokens:                            21\n"
        "Accepted tokens:                         13\nPer-position acceptance (%):\n"
        "  Position 0:                            85.71\n  Position 1:                            57.14\n"
    )
    trace = one(read(tmp_path, text))
    assert trace.header.source_format == "vllm-bench-console"
    assert estimate(trace, "al_raw").value == pytest.approx(20 / 7)


def test_vllm_streaming_response_in_event_stream_form(tmp_path: Path) -> None:
    last = {"id": "x", "choices": [], "metrics": {"speculative_decoding": {"num_spec_steps": 2,
            "num_accepted_draft_tokens": 3, "num_draft_tokens": 6, "acceptance_histogram": [0, 1, 1, 0]}}}  # fmt: skip
    text = 'data: {"id": "x", "choices": [{"delta": {}}]}\n\ndata: ' + json.dumps(last) + "\n\ndata: [DONE]\n"
    trace = one(read(tmp_path, text))
    assert estimate(trace, "al_raw").value == pytest.approx(2.5)


def test_vllm_end_of_sequence_cut_is_derived_only_if_it_adds_up(tmp_path: Path) -> None:
    spec = {"num_spec_steps": 2, "per_step_accepted": [1, 3], "per_step_drafted": [3, 3], "num_spec_tokens": 3,
            "num_accepted_draft_tokens": 4, "num_draft_tokens": 6, "acceptance_histogram": [0, 1, 0, 1]}  # fmt: skip
    record = {"id": "r", "choices": [], "usage": {"completion_tokens": 99}, "metrics": {"speculative_decoding": spec}}
    trace = one(read(tmp_path, lines(record)))
    assert trace.rounds["al_committed"].tolist() == [2, NULL32]
    assert trace.problems.counts["committed + prefill != completion"] >= 1


def test_sglang_histogram_may_be_shorter_than_k(tmp_path: Path) -> None:
    meta = {"id": "A", "completion_tokens": 5, "spec_verify_ct": 3, "spec_num_correct_drafts": 1,
            "spec_num_proposed_drafts": 21, "spec_correct_drafts_histogram": [2, 1]}  # fmt: skip
    trace = one(read(tmp_path, lines({"text": "", "meta_info": meta})))
    assert trace.header.k_draft == 7 and not trace.problems.counts


def test_sglang_oldest_names_tell_only_verify_steps(tmp_path: Path) -> None:
    meta = {"id": "A", "completion_tokens": 11, "spec_verify_ct": 4}
    trace = one(read(tmp_path, lines({"text": "", "meta_info": meta})))
    assert estimate(trace, "completion_over_verify").value == pytest.approx(2.75)
    assert estimate(trace, "al_raw").value is None and trace.header.order_known == "totals"


def test_sglang_openai_details_are_a_list_for_several_choices(tmp_path: Path) -> None:
    details = [{"spec_verify_ct": 4, "spec_num_correct_drafts": 6}, {"spec_verify_ct": 3, "spec_num_correct_drafts": 7}]
    record = {"id": "A", "usage": {"completion_tokens": 19}, "choices": [{"index": 0}, {"index": 1}],
              "sglext": {"spec_tokens_details": details}}  # fmt: skip
    trace = one(read(tmp_path, lines(record)))
    assert trace.ints["choice"].tolist() == [0, 1]
    assert trace.ints["completion_tokens"].tolist() == [NULL, NULL], "usage sums the choices"


def test_sglang_log_with_iteration_and_other_pools() -> None:
    trace = one(load([FIXTURES / "sglang_server.log"]))
    assert trace.n_units == 2 and trace.kind == ["window", "window"]
    assert estimate(trace, "al_raw").value is None, "windows have no weights"


def test_sglang_bench_null_is_no_speculation_and_lines_are_runs(tmp_path: Path) -> None:
    run = {"backend": "sglang", "total_output_tokens": 19, "completed": 2}
    trace = one(read(tmp_path, lines({**run, "accept_length": None}, {**run, "accept_length": 2.5})))
    assert np.isnan(trace.reported_mean[0]) and trace.reported_mean[1] == 2.5


def test_trtllm_zero_drafts_are_unknown_not_zero(tmp_path: Path) -> None:
    spec = {"acceptance_rate": 0.0, "total_accepted_draft_tokens": 0, "total_draft_tokens": 0}
    trace = one(read(tmp_path, lines({"request_id": 1, "perf_metrics": {"speculative_decoding": spec}})))
    assert trace.ints["drafted_total"].tolist() == [NULL]


def test_trtllm_iteration_without_drafting_requests_is_no_step(tmp_path: Path) -> None:
    def row(accepted: int, requests: int) -> dict[str, Any]:
        stats = {"numDraftTokens": 3 * requests, "numAcceptedTokens": accepted,
                 "numRequestsWithDraftTokens": requests, "acceptanceLength": 0.0}  # fmt: skip
        return {"iter": requests, "specDecodingStats": stats}

    trace = one(read(tmp_path, lines(row(0, 0), row(4, 2))))
    assert estimate(trace, "al_raw").value == 3.0
    assert np.isnan(trace.reported_mean[0])


def test_llamacpp_draft_n_is_absent_when_nothing_was_drafted(tmp_path: Path) -> None:
    trace = one(read(tmp_path, lines({"timings": {"predicted_n": 5}}, {"timings": {"predicted_n": 5, "draft_n": 0}})))
    assert trace.ints["accepted_total"].tolist() == [NULL, NULL]
    assert estimate(trace, "predicted_over_nondraft").value is None


def test_llamacpp_mlx_twin_tells_rounds(tmp_path: Path) -> None:
    timings = {"predicted_n": 11, "draft_n": 12, "draft_n_accepted": 6, "draft_rounds": 4, "draft_kind": "mtp"}
    trace = one(read(tmp_path, lines({"timings": timings})))
    assert estimate(trace, "al_raw").value == 2.5 and trace.header.source_engine == "mlx-vlm"


def test_llamacpp_statistics_are_cumulative(tmp_path: Path) -> None:
    form = (
        "statistics draft-simple: #calls(b,g,a) = 2 7 7, #gen drafts = {}, #acc drafts = 6, #gen tokens = {}, "
        "#acc tokens = {}, dur(b,g,a) = 0.0, 3.5, 0.1 ms\n"
    )
    trace = one(read(tmp_path, form.format(7, 21, 13) + form.format(14, 42, 26)))
    assert trace.n_units == 1 and trace.ints["accepted_total"].tolist() == [26]


def test_llamacpp_log_variant_and_completion_of_its_slot(tmp_path: Path) -> None:
    text = (
        "slot print_timing: id  0 | task 5 | prompt eval time = 9.0 ms /    99 tokens (\n"
        "slot print_timing: id  0 | task 5 | eval time = 90.00 ms /    11 tokens (\n"
        "slot print_timing: id  0 | task 5 | draft acceptance = 0.50000 (    6 accepted /    12 generated), mean len = "
        " 2.50, acceptance rate per position = (0.750, 0.500, 0.250)\n"
    )
    trace = one(read(tmp_path, text))
    assert trace.ints["completion_tokens"].tolist() == [11] and trace.ints["verify_steps"].tolist() == [4]


def test_tokenspeed_batch_line_is_not_sglangs_and_none_is_off(tmp_path: Path) -> None:
    stats = "status='finished', reason='it, stopped', output_tokens=5, acc_len=None, acc_rate=None"
    text = f"Req: a Finish! RequestStats({stats})\n"
    trace = one(read(tmp_path, text))
    assert trace.header.source_format == "tokenspeed-request-log"
    assert trace.ints["verify_steps"].tolist() == [NULL] and trace.finish_reason == ["it, stopped"]


def test_specforge_mean_over_requests_is_another_number(tmp_path: Path) -> None:
    record = {"spec_verify_count": 7, "output_tokens": 19, "num_requests": 2, "average_acceptance_length": 2.7083}
    trace = one(read(tmp_path, json.dumps(record)))
    assert trace.header.source_format == "specforge-report"
    assert trace.engine_numbers[0].definition == "completion_over_verify:requests"
    assert estimate(trace, "completion_over_verify").value == pytest.approx(19 / 7)


def test_specdec_bench_prefill_chunks_are_no_rounds() -> None:
    trace = one(load([FIXTURES / "nvidia_specdec_bench_acceptance_rate.json"]))
    assert trace.histograms is not None and trace.histograms[-1] == [2, 2, 1, 2]


def test_aiperf_histogram_keys_are_text_and_order_may_be_null(tmp_path: Path) -> None:
    record = json.loads((FIXTURES / "aiperf_record.json").read_text())
    trace = one(read(tmp_path, lines({**record, "per_step_accepted": None, "per_step_drafted": None})))
    assert trace.n_rounds == 0 and trace.histograms == [[1, 1, 1, 1]]


def test_golden_curves(tmp_path: Path) -> None:
    text = "# Acceptance Length (AL) reference values\nsome-model:\n  thinking_on:\n    1: 1.79\n    2: 2.27\n"
    trace = one(read(tmp_path, text, "golden.yaml"))
    assert trace.request_id == ["some-model thinking_on k=1", "some-model thinking_on k=2"]


def test_trtllm_prometheus_and_bench_report(tmp_path: Path) -> None:
    text = "trtllm_spec_decode_num_draft_tokens_total 21\ntrtllm_spec_decode_num_accepted_tokens_total 13\n"
    trace = one(read(tmp_path, text))
    assert trace.header.source_format == "trtllm-metrics" and estimate(trace, "rate_drafted").value == 13 / 21
    stats = {"acceptance_length_percentiles": {"average": 2.1, "p50": 2.2}}
    trace = one(read(tmp_path, json.dumps({"engine": {}, "decoding_stats": stats}, indent=1)))
    assert trace.reported_mean.tolist() == [2.1] and [n.value for n in trace.engine_numbers] == [2.2]


def test_specdec_bench_rates_are_kept_as_the_tools_own_numbers(tmp_path: Path) -> None:
    record = {"Acceptance_Length_Histogram": {"1": 2}, "Joint_Acceptance_Rate": {"1": 0.8}, "Request_AL": {}}
    trace = one(read(tmp_path, json.dumps(record)))
    assert [number.name for number in trace.engine_numbers] == ["Joint_Acceptance_Rate[1]"]


def test_specdec_bench_chunks_of_no_token_are_counted(tmp_path: Path) -> None:
    record = {"Acceptance_Length_Histogram": {"0": 5, "1": 3, "4": 2}, "Request_AL": {"a": {"0": 2.2}}}
    trace = one(read(tmp_path, json.dumps(record)))
    assert trace.ints["verify_steps"][-1] == 4 and trace.problems.counts == {"al_committed < 1": 1}


def test_a_mean_of_nan_in_llamacpps_logs_is_counted(tmp_path: Path) -> None:
    text = (
        "statistics draft: #calls(b,g,a) = 1 1 1, #gen drafts = 5, #acc drafts = 0, #gen tokens = 9, "
        "#acc tokens = 0, #mean acc len = nan\n"
        "draft acceptance = 0.64 ( 16 accepted / 25 generated), mean acceptance length = nan\n"
    )
    counts = [trace.problems.counts for trace in read(tmp_path, text).traces]
    assert sorted(map(dict, counts), key=str) == [{"unreadable log line": 1}, {"unreadable value": 1}]
