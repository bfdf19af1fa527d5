"""Every invariant of the canonical table is checked, counted and located, and nothing is repaired."""

from __future__ import annotations

from typing import Any

import pytest

from frontier_oracle.reports.builder import BAD_VALUE, TraceBuilder, Unit, as_float, as_int
from frontier_oracle.reports.canonical import Header
from frontier_oracle.reports.invariants import INVARIANTS
from frontier_oracle.reports.problems import KEPT_PER_KIND, ProblemLog
from frontier_oracle.reports.readers.fields import Fields

CASES: list[tuple[str, dict[str, Any]]] = [
    ("al_committed < 1", {"rounds": {"al_committed": [1, 0]}}),
    ("al_raw < 1", {"rounds": {"al_raw": [0, 2]}}),
    ("al_committed > al_raw", {"rounds": {"al_raw": [2], "al_committed": [3]}}),
    ("al_raw > drafted + 1", {"rounds": {"al_raw": [3, 1], "drafted": [1, 2]}}),
    ("out_pos decreases", {"rounds": {"al_raw": [1, 1], "out_pos": [5, 4]}}),
    ("negative count", {"completion_tokens": -138}),
    ("accepted > drafted", {"accepted_total": 5, "drafted_total": 4}),
    ("committed + prefill != completion", {"committed_total": 5, "completion_tokens": 7, "prefill_in_rounds": False}),
    ("rounds != verify_steps", {"verify_steps": 40, "rounds": {"al_raw": [2, 4]}}),
    ("rounds != accepted_total", {"accepted_total": 1, "rounds": {"al_raw": [2, 4]}}),
    ("rounds != drafted_total", {"drafted_total": 5, "rounds": {"al_raw": [2, 4], "drafted": [3, 3]}}),
    ("rounds != committed_total", {"committed_total": 9, "rounds": {"al_committed": [2, 4]}}),
    ("histogram sum != verify_steps", {"histogram": [1, 1], "verify_steps": 3, "accepted_total": 1}),
    ("histogram mean != accepted_total", {"histogram": [1, 1], "verify_steps": 2, "accepted_total": 2}),
]


def test_there_is_a_case_for_every_invariant() -> None:
    assert {kind for kind, _ in CASES} == set(INVARIANTS)


@pytest.mark.parametrize(("kind", "fields"), CASES, ids=[kind for kind, _ in CASES])
def test_violation_is_counted_and_located(kind: str, fields: dict[str, Any]) -> None:
    builder = TraceBuilder(Header("test", truncation="both", source_file="dir/file.jsonl"))
    builder.add(Unit("good", 1, rounds={"al_raw": [1, 2], "al_committed": [1, 2], "drafted": [3, 3]}))
    builder.add(Unit("bad", 7, **fields))
    trace = builder.finish()
    assert trace.problems.counts == {kind: 1}
    (problem,) = trace.problems.rows()
    assert problem.where == "dir/file.jsonl:7" and "'bad'" in problem.message


def test_out_pos_may_start_anew_with_each_request() -> None:
    builder = TraceBuilder(Header("test", source_file="f"))
    for n in range(3):
        builder.add(Unit(str(n), n, rounds={"al_raw": [1, 1], "out_pos": [1, 2]}))
    assert not builder.finish().problems.counts


def test_a_repeated_id_is_another_request() -> None:
    builder = TraceBuilder(Header("test", source_file="f"))
    for n in range(3):
        builder.add(Unit("a", n, turn=0, rounds={"al_raw": [n + 1]}))
    builder.add(Unit("a", 3, turn=1, rounds={"al_raw": [9]}))
    trace = builder.finish()
    assert trace.request_id == ["a", "a#2", "a#3", "a"] and trace.problems.counts == {"repeated request id": 2}


def test_absurd_counts_are_null_and_counted() -> None:
    builder = TraceBuilder(Header("test", source_file="f"))
    builder.add(Unit("a", 1, verify_steps=1 << 80, rounds={"al_raw": [1 << 40, 2]}))
    assert builder.finish().problems.counts == {"count out of range": 2}


def test_the_log_counts_beyond_what_it_keeps() -> None:
    log = ProblemLog()
    for n in range(KEPT_PER_KIND + 5):
        log.add("kind", "f", n, "x")
    log.add_rows("other", "f", range(3), 7, "y")
    assert log.counts == {"kind": KEPT_PER_KIND + 5, "other": 7} and len(log.kept["kind"]) == KEPT_PER_KIND
    merged = ProblemLog()
    merged.merge(log)
    merged.merge(log)
    assert merged.total() == 2 * log.total() and len(merged.kept["kind"]) == KEPT_PER_KIND


@pytest.mark.parametrize(
    ("value", "number", "whole"),
    [(3, 3.0, 3), (3.0, 3.0, 3), (3.5, 3.5, None), (True, None, None), ("3", None, None), (None, None, None),
     (float("nan"), None, None), (float("inf"), None, None), (10**400, None, None)],
)  # fmt: skip
def test_numbers_at_the_edge(value: Any, number: float | None, whole: int | None) -> None:
    assert as_float(value) == number and as_int(value) == whole
    out = TraceBuilder(Header("test", source_file="f"))
    fields = Fields({"a": value, "list": [value]}, 3, out)
    assert fields.number("a") == number and fields.integer("a") == whole
    if not isinstance(value, int) or value < 1 << 62:  # whole numbers out of range are the builder's to count
        assert fields.integers("list") == (None if whole is None else [whole])
        wrong = [] if value is None else [("a", number), ("a", whole)]
        expected = [(BAD_VALUE, "f:3", field) for field, found in [*wrong, ("list[0]", whole)] if found is None]
        assert [(p.kind, p.where, p.message.split()[0]) for p in out.problems.rows()] == expected
