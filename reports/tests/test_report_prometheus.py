"""Prometheus text: counters, gauges, scrapes and positions."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_reading import one, read

from frontier_oracle.reports.builder import BAD_VALUE
from frontier_oracle.reports.load import load

FIXTURES = Path(__file__).parent / "fixtures"


def test_vllm_created_twins_are_no_counters_and_engines_are_summed(tmp_path: Path) -> None:
    text = "".join(
        f'vllm:spec_decode_{name}_total{{engine="{engine}"}} {value}\n'
        f'vllm:spec_decode_{name}_created{{engine="{engine}"}} 1.8e9\n'
        for engine in (0, 1)
        for name, value in (("num_drafts", 7), ("num_draft_tokens", 21), ("num_accepted_tokens", 13))
    )
    trace = one(read(tmp_path, text))
    assert trace.ints["verify_steps"].tolist() == [14] and trace.ints["drafted_total"].tolist() == [42]


def test_prometheus_scrapes_give_increases_and_resets_are_seen(tmp_path: Path) -> None:
    def scrape(drafts: int, accepted: int) -> str:
        return f"vllm:spec_decode_num_drafts_total {drafts}\nvllm:spec_decode_num_accepted_tokens_total {accepted}\n"

    trace = one(read(tmp_path, scrape(100, 150) + scrape(110, 170) + scrape(5, 8)))
    assert trace.ints["verify_steps"].tolist() == [15] and trace.ints["accepted_total"].tolist() == [28]
    assert any("reset" in note for note in trace.header.notes)


def test_sglang_gauges_and_verify_calls(tmp_path: Path) -> None:
    text = 'sglang:spec_accept_length{tp="0"} 2.86\nsglang:spec_verify_calls_total 7\nsglang:spec_num_draft_tokens 4\n'
    trace = one(read(tmp_path, text))
    assert trace.ints["verify_steps"].tolist() == [7] and trace.header.k_verify_width == 4
    assert trace.engine_numbers[0].value == 2.86


def test_tokenspeed_metrics_count_verify_rows_as_draft_tokens() -> None:
    trace = one(load([FIXTURES / "tokenspeed_metrics.prom"]))
    assert trace.header.k_verify_width == 4 and trace.ints["drafted_total"].tolist() == [21]


SCRAPE = (FIXTURES / "llamacpp_metrics.prom").read_text()


def at(position: str, count: int) -> str:
    return f"llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{{position}}} {count}\n"


@pytest.mark.parametrize(
    "label",
    ['position="999999999999"', 'position="65536"', 'position="x"', 'position=""', 'position="-1"', 'position="²"',
     'position="' + "9" * 5000 + '"', 'engine="0"', 'last_position="3"'],
)  # fmt: skip
def test_a_position_that_is_no_drafts_number_is_counted_and_left_out(label: str, tmp_path: Path) -> None:
    trace = one(read(tmp_path, SCRAPE + at(label, 0)))
    (problem,) = trace.problems.rows()
    assert problem.kind == BAD_VALUE and problem.where.endswith(f"input.txt:{SCRAPE.count(chr(10)) + 1}")
    assert trace.header.k_draft == 3 and trace.per_position == [[6, 4, 3]]


def test_a_position_beyond_a_gap_is_counted_and_tells_no_number_of_drafts(tmp_path: Path) -> None:
    trace = one(read(tmp_path, at('position="9999"', 0) + SCRAPE))
    (problem,) = trace.problems.rows()
    assert problem.where.endswith("input.txt:1") and "no counter of position 3" in problem.message
    assert trace.header.k_draft == 3 and trace.per_position == [[6, 4, 3]]


def test_positions_that_do_not_sum_to_the_accepted_drafts_are_counted(tmp_path: Path) -> None:
    trace = one(read(tmp_path, SCRAPE + at('position="3"', 2)))
    (problem,) = trace.problems.rows()
    assert problem.kind == "positions != accepted_total" and "15" in problem.message and "13" in problem.message
    assert problem.where.endswith("input.txt:" + str(1 + SCRAPE.splitlines().index(at('position="0"', 6).strip())))


def test_positions_without_their_first_are_counted_each(tmp_path: Path) -> None:
    trace = one(read(tmp_path, at('position="1"', 4) + at('position="2"', 3)))
    assert trace.problems.counts == {BAD_VALUE: 2} and trace.header.k_draft is None and trace.per_position is None
