"""Explanations: the stories of the published design's deviations as text, and their limits on random scenarios."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from frontier_oracle.oracle.designs import TOKENSPEED_FRONTIER
from frontier_oracle.oracle.executor import DesignDrafter
from frontier_oracle.oracle.explain import WIDTH, explain, spans, text
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.played import Played, watch
from frontier_oracle.oracle.rules import RULES, Finding
from frontier_oracle.oracle.timeline import Timeline

REPLAY = "frontier-oracle replay ..."


def played(scenario: str) -> Played:
    design = TOKENSPEED_FRONTIER
    timeline = Timeline(parse(scenario), design.prefix_policy)
    return watch(timeline, DesignDrafter(design, timeline.config()))


def story(scenario: str, code: str, entry: tuple[int, int] | None = None) -> str:
    seen = played(scenario)
    finding = next(
        f for f in seen.outcome.findings if f.code == code and (entry is None or (f.depth, f.position) == entry)
    )
    return text(explain(finding, seen), scenario, REPLAY)


def test_a_mid_chunk_tail_is_told_with_what_it_reaches() -> None:
    told = story("k4 | a: p12 chunks 5,5,2 | a1, a1", "FO101")
    assert told == dedent(
        """\
        FO101 wrong token (S1 S5 S7 S12 S13)
          where     round 0 (extend of a, prompt positions 0..4 of 12), request a, depth 1, position 4
          scenario  k4 | a: p12 chunks 5,5,2 | a1, a1
          expected  token of a at position 6 (1365770537)
          got       draft of depth 0 of a at position 6 from round 0 (395071853)
          written   round 0, depth 1, row 4 of 5 of a: position 4, seq_len 5, cell 20
          because   depth 1 at position 4 consumes the token at position 6 (S1); it is in the prompt
                    the chunk ends at position 4, and its tail read this round's own drafts, not the next chunk
                      (S12)
                    it taints 11 entries that are locally right but read it, as (depth,positions): (1,5..7) (2,5..7)
                      (2,9..13)
                    the entry is stale after round 4, the last that shows it
          replay    frontier-oracle replay ..."""
    )


def test_a_shared_page_is_told_with_the_owner_of_the_foreign_values() -> None:
    told = story("k4 page4 | a: p12 | z: p12 | end z | b: p9 hit a 8 | b1", "FO209", (0, 6))
    assert told == dedent(
        """\
        FO209 shared page changed (S21)
          where     round 3 (decode of b, accept 1, frontier 9 to 10), request b, depth 0, position 6
          scenario  k4 page4 | a: p12 | z: p12 | end z | b: p9 hit a 8 | b1
          expected  what stands in the shared cell
          got       another value
          written   round 3, depth 0, row 0 of 4 of b: position 6, seq_len 7, cell 10
          because   page 2 is held by others too, its cell changed
                    for position 7 the row consumed the token of z at position 11, not the token of b at position 7
                    for h(6) it consumed the target hidden h(10) of z
                    b took over 8 and computed 2 positions: its window reaches below the hit (S21)
                    it taints 6 entries that are locally right but read it, as (depth,positions): (0,8..9) (1,8..9)
                      (2,8..9)
                    the drafts of this round are not the ideal's
                    the entry is foreign after this round
          replay    frontier-oracle replay ..."""
    )


def test_a_stale_entry_names_what_it_consumed_and_who_wrote_it() -> None:
    told = story("k4 page4 | a: p16 | b: p14 hit a 8", "FO201")
    assert "expected  token of b at position 8" in told
    assert "got       token of a at position 8" in told
    assert "request a wrote it in round 0, b took it over with a hit of 8: it holds what followed in a (S21)" in told


def test_a_short_prompt_names_zeros_and_rows_below_position_0() -> None:
    seen = "k4 page4 | a: p1 | a1, a1"
    assert "got       zero: padding, or a buffer nothing was stored in (0)" in story(seen, "FO101")
    assert "4 rows but only 2 positions: rows below position 0 must be masked (S9)" in story(seen, "FO104")


SCENARIOS = (
    "k4 page16 | a: p12 chunks 5,5,2 | a1, a1, a4",
    "k4 page4 | a: p1 | a1, a1, a4",
    "k4 page4 | a: p12 | z: p12 | end z | b: p9 hit a 8 | b1, b1, b2",
    "k4 page4 | a: p8 | a1 | b: p9 hit a 8 | a1 b1, a2 b1",
    "k6 page4w8,16 W2 | a: p20 chunks 3,9,7,1 | a1, a6 | b: p2 | a1 b1 /4, b2",
    "k3 target page4 | a: p7 chunks 2,5 | a2 | end a | b: p2 chunks 1,1 | b1, b3",
)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_finding_has_a_story_of_one_screen_that_is_plain_data(scenario: str) -> None:
    seen = played(scenario)
    assert seen.outcome.findings
    canonical = render(parse(scenario))
    for finding in seen.outcome.findings:
        explanation = explain(finding, seen)
        assert explanation.because
        told = text(explanation, canonical, REPLAY).splitlines()
        assert len(told) < 25, "\n".join(told)
        assert all(len(line) <= WIDTH + 2 for line in told), "\n".join(told)
        assert canonical in told[2]
        json.dumps(explanation.to_dict(), allow_nan=False)


@pytest.mark.parametrize("code", RULES)
def test_every_code_can_be_told_even_where_nothing_of_it_was_played(code: str) -> None:
    seen = played("k4 | a: p12 chunks 5,5,2 | a1")
    for finding in (Finding(code, 0, "a"), Finding(code, 99, ""), Finding(code, -1, "", -1, -1, {"because": "so"})):
        explanation = explain(finding, seen)
        assert explanation.because and text(explanation, "k4").startswith(code)


def test_playing_can_stop_at_the_first_round_with_a_finding() -> None:
    design = TOKENSPEED_FRONTIER
    timeline = Timeline(parse("k4 | a: p12 chunks 5,5,2 | a1"), design.prefix_policy)
    seen = watch(timeline, DesignDrafter(design, timeline.config()), stop_at_first=True)
    assert [v.round for v in seen.outcome.verdicts] == [0]


def test_spans_join_neighbours() -> None:
    assert spans([(2, 4), (1, 6), (1, 5), (1, 9)]) == "(1,5..6) (1,9) (2,4)"
    assert spans([(0, 2 * p) for p in range(14)]).endswith("(0,22) and 2 more")
