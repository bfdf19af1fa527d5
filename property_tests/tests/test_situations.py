"""What a scenario exercises is read off its events alone, and agrees with the engine that runs them."""

import numpy as np
import pytest

from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.timeline import Adopted, Round, Timeline
from frontier_oracle.property_tests.drawing import EVERYTHING, SIZES, Limits, random_scenario
from frontier_oracle.property_tests.fuzz.guide import CoverageGuide
from frontier_oracle.property_tests.fuzz.situations import Situation, met_by, pairs_of
from frontier_oracle.property_tests.fuzz.space import KNOWN, known_pairs, rules_of

LIMITS = Limits(events=EVERYTHING | SIZES)


@pytest.mark.parametrize("policy", ["successor", "tokens"])
def test_books_agree_with_the_engine(policy: str) -> None:
    """Slots, hits, frontiers and request-rounds are those of the timeline, event by event."""
    hits = reused = 0
    for index in range(120):
        scenario = random_scenario(41, index, LIMITS)
        timeline = Timeline(scenario, policy)
        situation = Situation(scenario.spec, scenario.slots, scenario.context, policy)
        for event in scenario.events:
            expected, rounds = situation.rounds(event), 0
            for step in timeline.advance(event, kept=True):
                if isinstance(step, Round):
                    rounds += len(step.views)
                    timeline.commit(step, np.zeros((len(step.views), scenario.spec.steps + 1), np.int32))
                hits += isinstance(step, Adopted)
            situation.apply(event)
            if any((life.hit > 0) != (timeline.live[name].hit > 0) for name, life in situation.lives.items()):
                assert any(group.window for group in scenario.spec.groups)
                break  # a ring of pages has lost what the hit asks for
            assert rounds == expected, render(scenario)
            assert {n: (life.slot, life.hit, life.computed) for n, life in situation.lives.items()} == {
                n: (r.slot, r.hit, r.computed) for n, r in timeline.live.items()
            }, render(scenario)
            reused += any(life.owner > 1 for life in situation.lives.values())
    assert hits > 20 and reused > 100


def test_a_fourth_owner_is_another_situation_than_a_third() -> None:
    churn = "k4 page4 slots1 | a: p8 | end a | b: p8 | end b | c: p8 | end c"
    assert pairs_of(parse(churn)) < pairs_of(parse(f"{churn} | d: p8"))
    assert ("S19", "owner 4, after finish", "admit, asks for nothing") in pairs_of(parse(f"{churn} | d: p8"))


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("k4 page4 | a: p9 | a4", ("S5 S6 S8", "enough known, behind chunk", "all")),
        ("k4 page4 | a: p1 | a1!, a1", ("S26", "behind undrafted, no cut", "goes on")),
        (
            "k4 page4 | a: p6 | b: p5 | a2 b1, a0 b1",
            ("S20", "idle, live, row live before", "before a live row, as many"),
        ),
        ("k4 page4 | a: p9 | b: p9 hit a 8 | b2", ("S21", "hit number 1, below 2k since", "some")),
        ("k4 | a: p255 | a4", ("S9", "below 512", "all")),
        ("k4 page4 ctx16 | a: p14 | a4", ("S22", "beyond", "all")),
        ("k4 page4 | a: p9 chunks 8,1 held | +a | +a", ("S14", "behind chunk, enough known", "1 rows, alone")),
        ("k4 page4 | a: p9 media 2-8", ("S16", "one chunks, asks for nothing", "media at an edge")),
    ],
)
def test_what_a_scenario_exercises(text: str, pair: tuple[str, str, str]) -> None:
    assert pair in pairs_of(parse(text))


def test_known_pairs_cover_what_is_drawn() -> None:
    counts = dict.fromkeys(KNOWN, 0)
    for rule, _, _ in set().union(*(pairs_of(random_scenario(5, i, LIMITS)) for i in range(800))):
        counts[rule] += 1
    assert all(0 < counts[rule] <= KNOWN[rule] for rule in KNOWN)
    assert sum(counts.values()) > known_pairs() // 2


def test_rules_are_in_order_and_each_once() -> None:
    assert rules_of({("S12 S13", "", ""), ("S9", "", ""), ("S9 S20", "", "")}) == ("S9", "S12", "S13", "S20")


# ---- the guide ------------------------------------------------------------------------------------------------------


def test_the_guide_prefers_what_it_has_not_met() -> None:
    plain, hit = parse("k4 page4 | a: p9 | a2"), parse("k4 page4 | a: p9 | b: p9 hit a 8")
    guide = CoverageGuide()
    assert guide.choose([plain, plain]) is plain
    assert guide.choose([plain, hit]) is hit


def test_the_guide_counts_a_situation_against_its_cost() -> None:
    """What costs rounds and meets nothing more is not chosen."""
    short, long = parse("k4 | a: p9 | a2, a2"), parse("k4 | a: p9 | a2, a2, a2, a2, a2, a2, a2")
    assert pairs_of(long) - pairs_of(short)  # it does meet a little more
    assert CoverageGuide().choose([long, short]) == short


def test_the_guide_meets_more_than_chance_does() -> None:
    """Situations met after 600 request-rounds."""

    def met(choices: int) -> int:
        guide, pairs, rounds, index = CoverageGuide(), set(), 0, 0
        while rounds < 600:
            chosen = guide.choose([random_scenario(9, index + i, LIMITS) for i in range(choices)])
            rounds += sum(n for n, _ in met_by(chosen))
            pairs |= pairs_of(chosen)
            index += choices
        return len(pairs)

    assert met(16) > 1.15 * met(1)
