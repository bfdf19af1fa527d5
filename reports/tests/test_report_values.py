"""A value that is there and is not of its type is never just null: it is counted, with its file, line and field."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frontier_oracle.reports.builder import BAD_VALUE
from frontier_oracle.reports.canonical import Trace
from frontier_oracle.reports.load import load
from frontier_oracle.reports.report import report

FIXTURES = Path(__file__).parent / "fixtures"
JSON_FIXTURES = sorted(path.name for path in FIXTURES.glob("*.json*") if path.name != "EXPECTED_summary.json")


def told(traces: list[Trace]) -> list[Any]:
    """All that was read, as plain data."""
    return [
        (
            trace.request_id,
            {name: column.tolist() for name, column in trace.ints.items()},
            np.nan_to_num(trace.reported_mean, nan=-1).tolist(),
            np.nan_to_num(trace.reported_rate, nan=-1).tolist(),
            [trace.categories[c] if c >= 0 else None for c in trace.category.tolist()],
            trace.histograms,
            trace.per_position,
            trace.finish_reason,
            {name: column.tolist() for name, column in trace.rounds.items()},
            [(number.name, number.value) for number in trace.engine_numbers],
        )
        for trace in traces
    ]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every leaf and every container below the top, with its path."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key), item
        yield from places(item, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    changed = copy.deepcopy(value)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = by
    return changed


@pytest.mark.parametrize("name", JSON_FIXTURES)
def test_no_value_of_a_wrong_type_is_dropped_in_silence(name: str, tmp_path: Path) -> None:
    """Every number, text and list of every format, one after the other, becomes NaN: what was read either stays the
    same (nobody reads that field), or the defect is counted at its place, or the file has no known format."""
    text = (FIXTURES / name).read_text()
    try:
        records = [json.loads(text)]
    except ValueError:
        records = [json.loads(line) for line in text.splitlines()]
    path = tmp_path / "in.jsonl"

    def read(first: Any) -> tuple[list[Any], int, list[str]]:
        path.write_text("".join(json.dumps(record) + "\n" for record in (first, *records[1:])))
        loaded = load([tmp_path])
        problems = loaded.all_problems()
        return told(loaded.traces), loaded.defects(), [p.where for p in problems.rows()]

    sound, none, _ = read(records[0])
    assert none == 0
    counted = 0
    for place, value in places(records[0]):
        if isinstance(value, bool):
            continue
        found, defects, where = read(replaced(records[0], place, float("nan")))
        assert found == sound or defects, place
        counted += defects > 0
        assert all(":" in one for one in where)
    assert counted >= 1


def detailed(**changes: Any) -> dict[str, Any]:
    spec = {"num_spec_steps": 4, "per_step_accepted": [0, 0, 2, 1], "num_accepted_draft_tokens": 3, **changes}
    return {"id": "a", "metrics": {"speculative_decoding": spec}}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"per_step_accepted": [float("nan"), 0, 2, 1]}, "per_step_accepted[0] is NaN"),
        ({"per_step_accepted": "0021"}, 'per_step_accepted is "0021"'),
        ({"num_spec_steps": float("inf")}, "num_spec_steps is Infinity"),
        ({"num_spec_steps": 4.5}, "num_spec_steps is 4.5"),
        ({"num_spec_steps": True}, "num_spec_steps is true"),
        ({"num_draft_tokens": "12"}, 'num_draft_tokens is "12"'),
        ({"mean_acceptance_length": float("nan")}, "mean_acceptance_length is NaN"),
        ({"acceptance_histogram": [1, None]}, "acceptance_histogram[1] is null"),
    ],
)
def test_the_defect_names_field_and_line(changes: dict[str, Any], field: str, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(detailed()) + "\n" + json.dumps({**detailed(**changes), "id": "b"}) + "\n")
    (problem,) = load([path]).all_problems().rows()
    assert problem.kind == BAD_VALUE and problem.where == f"{path}:2" and f".{field}" in problem.message


def test_strict_refuses_such_a_value(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(detailed(per_step_accepted=[float("nan"), 0, 2, 1])) + "\n")
    done = report([path], tmp_path / "out", strict=True)
    assert done.exit_code == 2 and "1 defects" in done.message


LOG_LINES = [
    "Decode batch, #running-req: 1, #token: 9, token usage: 0.0, accept len: nan, accept rate: 0.5, gen throughput",
    "Decode batch. #running-req: 1, avg_accept_len: nan, accept_rate: 0.5, #queue-req: 0",
    "Req: a Finish! Accept_num_tokens_avg: nan",
    "Req: a Finish! RequestStats(status=ok, output_tokens=9, acc_len=nan, acc_rate=0.5)",
    "Req: a Finish! RequestStats(status=ok, output_tokens=many, acc_len=2.0, acc_rate=0.5)",
    "draft acceptance = nan (    0 accepted /     0 generated)",
    "draft acceptance rate = nan (    0 accepted /     0 generated)",
    "statistics draft-x: #calls(b,g,a) = 1 1 1, #gen drafts = ?, #acc drafts = 1, #gen tokens = 3, #acc tokens = 2",
    "[AL] AVERAGE: nan",
    "[AL] P90: -",
    "vllm:spec_decode_num_drafts_total{engine=\"0\"} NaN",
    "vllm:spec_decode_num_drafts_total{engine=\"0\"} +Inf",
    "vllm:spec_decode_num_drafts_total{engine=\"0\"} 3.5",
    "vllm:spec_decode_num_drafts_total{engine=\"0\"} 1 2 3",
    "vllm:spec_decode_num_drafts_total{engine=\"0\"}",
    "sglang:spec_accept_length{} NaN",
]  # fmt: skip


@pytest.mark.parametrize("line", LOG_LINES)
def test_lines_without_their_numbers_are_counted(line: str, tmp_path: Path) -> None:
    path = tmp_path / "in.log"
    path.write_text(line + "\n")
    counts = load([path]).all_problems().counts
    assert sum(counts.values()) == 1 and set(counts) <= {BAD_VALUE, "unreadable log line"}, counts


def test_a_negative_counter_is_called_that(tmp_path: Path) -> None:
    path = tmp_path / "in.prom"
    path.write_text("vllm:spec_decode_num_drafts_total -3\n")
    assert load([path]).all_problems().counts == {"negative count": 1}


def test_elements_of_an_array_that_are_no_records_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text(json.dumps([detailed(), {"error": "timeout"}, 7, {**detailed(), "id": "b"}], indent=1))
    loaded = load([path])
    assert loaded.traces[0].n_units == 2 and loaded.all_problems().counts == {"unrecognised record": 2}


NEGATIVE_MEANS = [
    "Req: a Finish! RequestStats(status=ok, output_tokens=9, acc_len=-3, acc_rate=0.5)",
    "Req: a Finish! RequestStats(status=ok, output_tokens=9, acc_len=3, acc_rate=-0.5)",
    "Decode batch. #running-req: 1, avg_accept_len: -3, accept_rate: 0.5, #queue-req: 0",
    "sglang:spec_accept_length -3",
    json.dumps({"meta_info": {"id": "a", "accept_draft_tokens": -3}}),
]


@pytest.mark.parametrize("line", NEGATIVE_MEANS)
def test_a_negative_mean_or_rate_is_counted_and_read_as_null(line: str, tmp_path: Path) -> None:
    path = tmp_path / "in.log"
    path.write_text(line + "\n")
    loaded = load([path])
    (problem,) = loaded.all_problems().rows()
    assert problem.kind in (BAD_VALUE, "unreadable log line") and problem.where == f"{path}:1"
    for trace in loaded.traces:
        assert not (trace.reported_mean < 0).any() and not (trace.reported_rate < 0).any() and not trace.engine_numbers
