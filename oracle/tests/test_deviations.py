"""Declared deviations: what the executor predicts for the published design, exactly (SEMANTICS §9)."""

from __future__ import annotations

import pytest

from frontier_oracle.oracle.designs import FRONTIER, TOKENSPEED_FRONTIER
from frontier_oracle.oracle.deviations import compare, predict
from frontier_oracle.oracle.language import parse


def cause_entries(text: str, state: str, round_: int, request: str) -> set[tuple[int, int]]:
    found = predict(TOKENSPEED_FRONTIER, parse(text)).outcome.cause_entries()
    return {(e.depth, e.position) for r, e in found if r == round_ and e.state == state and e.request == request}


def test_mid_chunk_tail() -> None:
    stale = cause_entries("k4 page16 | a: p12 chunks 5,5,2", "stale", 2, "a")
    assert stale == {(1, 4), (1, 9), (2, 3), (2, 4), (2, 8), (2, 9)}


def test_mid_chunk_tail_heals_where_the_first_window_reaches() -> None:
    stale = cause_entries("k4 page16 | a: p12 chunks 5,5,2 | a1", "stale", 3, "a")
    assert stale == {(1, 4), (2, 3), (2, 4), (2, 8)}


def test_short_prompt() -> None:
    found = predict(TOKENSPEED_FRONTIER, parse("k4 page4 | a: p1 | a1, a1")).outcome.cause_entries()
    last = {(e.depth, e.position) for r, e in found if r == 2}
    assert last == {(d, p) for d in range(3) for p in range(3)}


@pytest.mark.parametrize(("chunk", "expected"), [(1, {(0, 6), (0, 7)}), (2, {(0, 7)})])
def test_short_chunk_after_a_hit_in_a_reused_slot(chunk: int, expected: set[tuple[int, int]]) -> None:
    text = f"k4 page4 | a: p12 | z: p12 | end z | b: p{8 + chunk} hit a 8 | b1"
    foreign = cause_entries(text, "foreign", 3, "b")
    assert {entry for entry in foreign if entry[0] == 0} == expected
    if chunk == 2:
        assert foreign == {(0, 7), (1, 7), (2, 7)}


def test_donor_continuation() -> None:
    stale = cause_entries("k4 page4 | a: p12 | b: p12 hit a 8", "stale", 1, "b")
    assert stale == {(0, 7), (1, 6), (1, 7), (2, 5), (2, 6), (2, 7)}


def test_every_deviation_is_named_and_the_exact_design_has_none() -> None:
    texts = {
        "mid_chunk_tail": "k4 page16 | a: p12 chunks 5,5,2",
        "short_prompt": "k4 page4 | a: p1 | a1",
        "donor_continuation": "k4 page4 | a: p12 | b: p12 hit a 8",
        "short_chunk_after_hit": "k4 page4 | a: p12 | z: p12 | end z | b: p9 hit a 8 | b1",
    }
    for deviation, text in texts.items():
        assert deviation in predict(TOKENSPEED_FRONTIER, parse(text)).seen
        assert not predict(FRONTIER, parse(text)).outcome.findings


def test_comparison_is_set_equality_both_ways() -> None:
    deviating = predict(TOKENSPEED_FRONTIER, parse("k4 page4 | a: p1 | a1"))
    exact = predict(FRONTIER, parse("k4 page4 | a: p1 | a1"))
    assert compare(deviating.outcome, deviating).equal
    assert compare(deviating.outcome, exact).undeclared and compare(exact.outcome, deviating).missing
