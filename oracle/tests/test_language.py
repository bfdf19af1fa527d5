"""The scenario language: what it says, what it refuses, and that no text loses anything."""

import re

import pytest

from frontier_oracle.oracle import errors
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.scenario import (
    Admit,
    Books,
    Decode,
    Extend,
    Finish,
    Scenario,
    chunks_after_hit,
    max_batch,
    max_positions,
    requests,
    validate,
)
from frontier_oracle.oracle.spec import CacheGroup, Spec

EXAMPLE = "k4 page4 | a: p12 chunks 5,5,2 | a1, a1 | b: p9 hit a 8 | a3 b1, b2 /4 | end a"


def test_the_documents_example() -> None:
    assert parse(EXAMPLE) == Scenario(
        Spec(4, groups=(CacheGroup(4),)),
        events=(
            Admit("a", 12, (5, 5, 2)),
            Decode((("a", 1),)),
            Decode((("a", 1),)),
            Admit("b", 9, like=("a", 8)),
            Decode((("a", 3), ("b", 1))),
            Decode((("b", 2),), 4),
            Finish("a"),
        ),
    )
    assert render(parse(EXAMPLE)) == EXAMPLE


def test_every_header_word() -> None:
    text = "k5 steps3 page16,4w8 W2 R9 target H16 slots2"
    spec = Spec(5, 3, "target", 2, (CacheGroup(16), CacheGroup(4, 8)), 9)
    assert parse(text) == Scenario(spec, hidden_size=16, slots=2)
    assert render(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("k4 steps3 page16 W4 R7 chain H8 slots4 topk1", "k4"),
        ("\n slots2\tk3\n| a :p2 held chunks 1 , 1 |+ a|\n+a |a1 ,a2/ 2|end   a\n", None),
        ("k4 | a: p1 | a1 | a2 | a3, a4", "k4 | a: p1 | a1, a2, a3, a4"),
        ("k4 page8, 4 | a: p1", "k4 page8,4 | a: p1"),
        ("k4 | a: p3 | b: p4 held chunks 2,2 hit a 3", "k4 | a: p3 | b: p4 hit a 3 chunks 2,2 held"),
        ("shifted k07", "k7 shifted"),
        ("single k4", "k4 single"),
        ("previous k4", "k4 previous"),
    ],
)
def test_spelling_is_free_and_rendering_canonical(text: str, canonical: str | None) -> None:
    expected = canonical or "k3 slots2 | a: p2 chunks 1,1 held | +a | +a | a1, a2 /2 | end a"
    assert render(parse(text)) == expected
    assert render(parse(expected)) == expected


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("k4 tree", errors.TreeUnsupported, '"tree".*chains'),
        ("k4 topk2", errors.TopKUnsupported, '"topk2".*one draft'),
        ("k4,5", errors.PerRoundKUnsupported, '"k4,5".*fixed'),
        ("k1", errors.WindowTooNarrow, "k=1"),
        ("k4 steps5", errors.StepsExceedWindow, "steps=5 > k=4"),
        ("k4 R6", errors.RingTooShort, "ring of 6"),
        ("", errors.SpecError, "no k.*expected k4"),
        ("page16 | a: p1", errors.SpecError, '"page16" has no k'),
        ("k4 page0", errors.SpecError, "page size"),
        ("k4 page4w0", errors.SpecError, "window"),
        ("k4 page4x", errors.ScenarioError, '"page4x".*expected page sizes'),
        ("k4 page", errors.ScenarioError, '"page".*expected page sizes'),
        ("k4 k4", errors.ScenarioError, '"k4".*at most once'),
        ("k4 page4 page4", errors.ScenarioError, '"page4".*at most once'),
        ("k4 chain target", errors.ScenarioError, '"target".*at most once'),
        ("k4 steps0", errors.ScenarioError, '"steps0".*numbers from 1'),
        ("k4 R0", errors.ScenarioError, '"R0"'),
        ("k4 depth3", errors.ScenarioError, '"depth3".*expected each of k4, steps3'),
        ("k٤", errors.ScenarioError, '"k٤"'),
        ("k4 H12", errors.ScenarioError, "H12.*multiple of 8"),
        ("k4 x | a: p0", errors.ScenarioError, 'header word "x"'),
        ("k4 |", errors.ScenarioError, 'event 0 "".*expected an event'),
        ("k4 | a: p1 | | a1", errors.ScenarioError, 'event 1 "".*expected an event'),
        ("k4 | a: p1 | a1,,a1", errors.ScenarioError, 'event 2 "".*expected an event'),
        ("k4 | a: p1 | a1, a", errors.ScenarioError, 'event 2 "a": at "a", expected a request and its accept'),
        ("k4 | a: p1 | 3", errors.ScenarioError, 'at "3", expected a request and its accept length'),
        ("k4 | a: p1 | a1 /", errors.ScenarioError, 'at "/", expected the padded batch size'),
        ("k4 | a: p1 | a1 /2 b1", errors.ScenarioError, 'at "/2 b1", expected the padded batch size'),
        ("k4 | a: p1 | /2", errors.ScenarioError, 'event 1 "/2".*expected an event'),
        ("k4 | a: p1 | end", errors.ScenarioError, "one request name after 'end'"),
        ("k4 | a: p1 | end a b", errors.ScenarioError, "one request name after 'end'"),
        ("k4 | a: p1 | end A", errors.ScenarioError, 'at "A", expected a request name'),
        ("k4 | A: p1", errors.ScenarioError, 'at "A", expected a request name'),
        ("k4 | a:", errors.ScenarioError, "expected a prompt length as p12"),
        ("k4 | a: 12", errors.ScenarioError, 'at "12", expected each of pN'),
        ("k4 | a: p", errors.ScenarioError, 'at "p", expected a prompt length'),
        ("k4 | a: p1 p2", errors.ScenarioError, 'at "p2", expected each of pN.*at most once'),
        ("k4 | a: p1 held held", errors.ScenarioError, 'at "held", expected each of pN'),
        ("k4 | a: p4 chunks", errors.ScenarioError, 'at "chunks", expected chunk sizes'),
        ("k4 | a: p4 chunks 2,", errors.ScenarioError, 'at "2,", expected chunk sizes'),
        ("k4 | a: p4 | b: p4 hit", errors.ScenarioError, "expected a donor and a length"),
        ("k4 | a: p4 | b: p4 hit a", errors.ScenarioError, 'at "hit", expected a donor and a length'),
        ("k4 | a: p4 | b: p4 hit 3 a", errors.ScenarioError, 'at "3", expected a donor and a length'),
        ("k4 | a: p2 held | +a,b", errors.ScenarioError, 'at "a,b", expected a request name'),
        ("k4 | a: p9999999999", errors.ScenarioError, "expected a prompt length"),
    ],
)
def test_what_does_not_parse_is_named(text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(errors.UsageError, match=says) as caught:
        parse(text)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ("a1", 'event 0 "a1": decode of unknown request a'),
        ("end a", 'event 0 "end a": end of unknown request a'),
        ("+a", r'event 0 "\+a": extend of unknown request a'),
        ("a: p1 | a: p1", 'event 1 "a: p1": request a exists already'),
        ("a: p1 | end a | a: p1", 'event 2 "a: p1": request a exists already'),
        ("a: p2 chunks 1,1 held | +a | a1", 'event 2 "a1": decode of request a with 1 unread'),
        ("a: p2 held | end a", 'event 1 "end a": end of request a with 1 unread'),
        ("a: p1 | end a | a1", 'event 2 "a1": decode of request a, which has ended'),
        ("a: p1 | end a | end a", 'event 2 "end a": end of request a, which has ended'),
        ("a: p1 | +a", r'event 1 "\+a": request a is not held'),
        ("a: p1 held | +a | +a", r'event 2 "\+a": request a has no chunks left: all 1'),
        ("a: p1 held | +a | end a | +a", "extend of request a, which has ended"),
        ("a: p1 | a1, a1 a1", 'event 2 "a1 a1": request a stands twice'),
        ("a: p2 chunks 1,1 held | +a a", r'event 1 "\+a a": request a stands twice'),
        ("+", r'event 0 "\+": empty batch'),
        ("a: p1 | a0", r'event 1 "a0": every row is idle \(a0\): at least one must accept 1..3'),
        ("a: p1 | a2, a4", r'event 2 "a4": accept length 4 of request a is outside 1..3 \(min\(k, steps\+1\)\)'),
        ("a: p1 | b: p1 | a1 b1 /1", 'event 2 "a1 b1 /1": bucket of 1 rows is smaller than the batch of 2'),
        ("a: p0", 'event 0 "a: p0": prompt of 0'),
        ("a: p2 chunks 2,0", "chunk of 0 tokens"),
        ("a: p5 chunks 2,2", 'event 0 "a: p5 chunks 2,2": chunks sum to 4, expected the prompt\'s 5'),
        ("a: p8 | b: p9 hit a 4 chunks 4", r"chunks sum to 4, expected 5 \(what the hit leaves\)..9"),
        ("a: p8 | b: p9 hit a 4 chunks 5,5", r"chunks sum to 10, expected 5 \(what the hit leaves\)..9"),
        ("a: p1 | b: p1 | c: p1", 'event 2 "c: p1": 3 live requests but 2 slots'),
        ("b: p9 hit a 8 | a: p8", "hit on a, which is not admitted before b"),
        ("a: p9 hit a 8", "hit on a, which is not admitted before a"),
        ("a: p8 | b: p9 hit a 0", "hit of 0 tokens"),
        ("a: p4 | b: p9 hit a 6", "hit of 6 tokens, but only 5 tokens of a"),
        ("a: p4 | a3 | b: p12 hit a 9", "hit of 9 tokens, but only 8 tokens of a"),
        ("a: p4 held | b: p9 hit a 5", "hit of 5 tokens, but only 4 tokens of a"),
        ("a: p8 | b: p8 hit a 8", "hit of 8 on a prompt of 8: at least one token"),
        ("hit: p1", "request name 'hit'"),
        ("abcdefghi: p1", "request name 'abcdefghi'"),
    ],
)
def test_what_cannot_happen_is_refused_with_its_event(events: str, says: str) -> None:
    with pytest.raises(errors.ScenarioError, match=says) as caught:
        parse(f"k4 steps2 slots2 | {events}")
    assert re.match(r'event \d+ "', str(caught.value))
    assert "\n" not in str(caught.value)


def test_slots_and_batches_are_checked_on_objects_too() -> None:
    with pytest.raises(errors.ScenarioError, match="slots0"):
        validate(Scenario(Spec(), slots=0))
    with pytest.raises(errors.ScenarioError, match='event 0 "": empty batch'):
        validate(Scenario(Spec(), events=(Decode(()),)))


@pytest.mark.parametrize(
    "events",
    [
        "a: p4 | a4 | b: p10 hit a 9",
        "a: p4 | end a | b: p6 hit a 5",
        "a: p9 held | b: p10 hit a 9 chunks 5,5 held | +b | +a b | b1",
        "a: p8 | b: p9 hit a 8 chunks 1",
    ],
)
def test_what_can_happen_is_accepted(events: str) -> None:
    assert render(parse(f"k4 | {events}")) == f"k4 | {events}"


def test_a_refused_event_leaves_the_books_alone() -> None:
    books = Books(Spec(4), slots=2)
    books.apply(Admit("a", 2, (1, 1), held=True))
    books.apply(Admit("b", 2))
    for refused in (Extend(("a", "b")), Decode((("b", 4), ("a", 1))), Finish("a"), Admit("c", 1)):
        with pytest.raises(errors.ScenarioError):
            books.apply(refused)
    assert books.requests["a"].chunks_left == 2
    assert books.requests["b"].accepted == 0
    assert books.live == 2


@pytest.mark.parametrize(
    ("chunks", "hit", "expected"),
    [
        ((), 0, (12,)),
        ((), 11, (1,)),
        ((5, 5, 2), 0, (5, 5, 2)),
        ((5, 5, 2), 3, (2, 5, 2)),
        ((5, 5, 2), 5, (5, 2)),
        ((5, 5, 2), 11, (1,)),
        ((2, 2), 8, (2, 2)),
        ((2, 2), 4, (6, 2)),
        ((2, 2), 0, (10, 2)),
    ],
)
def test_a_hit_fits_the_chunk_list(chunks: tuple[int, ...], hit: int, expected: tuple[int, ...]) -> None:
    assert chunks_after_hit(Admit("b", 12, chunks, like=("a", 8)), hit) == expected


def test_sizes_that_others_allocate_by() -> None:
    scenario = parse(EXAMPLE)
    assert list(requests(scenario)) == ["a", "b"]
    assert max_batch(scenario) == 4
    assert max_positions(scenario) == 12 + 1 + 1 + 3 + 4 + 3
    empty = parse("k4")
    assert (requests(empty), max_batch(empty), max_positions(empty)) == ({}, 1, 7)
