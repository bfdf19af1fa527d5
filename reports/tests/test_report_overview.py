"""What is said about all inputs together: ends of the lengths, definitions of the means, every engine's numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from frontier_oracle.reports.analysis.run import Analysis
from frontier_oracle.reports.load import load
from frontier_oracle.reports.render import overview, plots
from frontier_oracle.reports.report import analyse_all

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="module")
def analyses() -> list[Analysis]:
    return analyse_all(load([FIXTURES]).traces)


def test_shortest_and_longest_rounds_and_the_ends_of_what_an_engine_states(analyses: list[Analysis]) -> None:
    table = overview.overview_table(analyses)
    names = [column.name for column in table.columns]
    rows = {str(row[0]): dict(zip(names, row, strict=True)) for row in table.rows}
    detailed, summary = rows["vllm_chat_response_detailed.jsonl"], rows["vllm_chat_response_summary.jsonl"]
    assert (detailed["shortest"], detailed["longest"]) == (summary["shortest"], summary["longest"]) == (1, 4)
    stated = rows["sglang_generate_response.jsonl"]
    assert (stated["engine's least"], stated["engine's most"]) == (pytest.approx(8 / 3), pytest.approx(2.75))
    assert rows["sglang_server_info.json"]["longest"] is None


def test_the_plot_of_all_means_marks_each_definition(analyses: list[Analysis]) -> None:
    plot = plots.overview(analyses)
    assert plot is not None
    labels = [text.get_text() for legend in plot.figure.legends for text in legend.get_texts()]
    assert labels[:2] == ["raw", "committed"] and labels[-1].startswith("llama.cpp")


def test_labels_keep_both_ends_of_a_name() -> None:
    name = "start/" + "x" * 200 + "/end.jsonl"
    label = plots._label(name)
    assert label.startswith("start/") and label.endswith("/end.jsonl") and label.count("\n") == 1
    assert plots._label("short.json") == "short.json"


def test_the_engine_numbers_of_every_input_stand_in_one_table(analyses: list[Analysis]) -> None:
    table = overview.engine_numbers(analyses)
    stating = {a.name for a in analyses if a.table("engine").rows}
    assert {row[0] for row in table.rows} == stating and len(stating) > 15
    assert len(table.rows) == sum(len(a.table("engine").rows) for a in analyses)


def test_llamacpps_mean_and_a_longest_round_that_only_the_source_states(tmp_path: Path) -> None:
    metrics = {"cycles_by_block": {"4": 3, "16": 4}, "full_accepts_by_block": {"16": 1}}
    run = {"dflash": {"cycles": 7, "accepted_from_draft": 20, "adaptive_metrics": metrics}}
    (tmp_path / "all.jsonl").write_text(json.dumps(run) + "\n" + json.dumps({**run, "run": 9}) + "\n")
    some = json.dumps({"run": 3, "dflash": {"cycles": 7, "accepted_from_draft": 20}})
    (tmp_path / "some.jsonl").write_text(json.dumps(run) + "\n" + some + "\n")
    timings = {"timings": {"predicted_n": 10, "draft_n": 9, "draft_n_accepted": 6}}
    (tmp_path / "llama.jsonl").write_text(json.dumps(timings) + "\n")
    table = overview.overview_table(analyse_all(load([tmp_path]).traces))
    names = [column.name for column in table.columns]
    rows = {str(row[0]).split("/")[-1]: dict(zip(names, row, strict=True)) for row in table.rows}
    assert rows["all.jsonl"]["longest"] == 16 and rows["some.jsonl"]["longest"] is None
    assert rows["all.jsonl"]["shortest"] is None and rows["all.jsonl"]["llama.cpp's mean"] is None
    llama = next(row for row in rows.values() if row["format"] == "llamacpp-response")
    assert llama["llama.cpp's mean"] == 2.5 and llama["raw mean"] is None
