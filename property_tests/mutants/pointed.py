"""Short scenarios that between them reach every index term: the plain ones first, so that a fault shows by itself."""

from __future__ import annotations

from functools import cache

from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.scenario import Scenario

POINTED = (
    # one request, then two, in any order
    "k4 page4 | a: p9 | a1, a2, a3, a4, a1",
    "k4 page4 | a: p9 | b: p6 | a2 b3, b1 a4, a1 b2",
    # prompts in chunks, with short ones inside and at the end
    "k4 page4 | a: p12 chunks 5,5,2 | a1, a3",
    "k4 page4 | a: p11 chunks 9,1,1 | a1, a2",
    "k4 page2 | a: p10 chunks 4,5,1 held | b: p6 chunks 4,2 held | +b a | +a b | +a | a2 b1, b3 a1",
    # shorter than the window
    "k4 page4 | a: p1 | a1, a1, a1, a4",
    "k5 page2 | a: p2 | b: p3 | a1 b5, a2 b1",
    # padding, batches that shrink, slots used again
    "k4 page4 | a: p6 | b: p5 | c: p7 | a2 b1 c3, b2 /3, a1 c1 /4",
    "k4 page4 slots2 | a: p9 | b: p7 | a3 | end a | c: p2 | c1 b1, c2 | end b | c1, c1",
    "k4 page4 | a: p4 | b: p5 | c: p6 | d: p7 | a2 b1 c3 d4, c1 a2 b3",
    # prefix hits: into a fresh slot, into a used one, shorter than the window
    "k4 page4 | a: p14 | b: p13 hit a 11 | b1 a1, b2",
    "k4 page4 | a: p12 | b: p10 hit a 8 | b1, a2",
    "k4 page4 | a: p12 | z: p12 | z2 | end z | b: p13 hit a 11 chunks 8,1,4 | b1, b1",
    "k4 steps1 page4 | a: p12 | z: p12 | end z | b: p10 hit a 9 | b1, b2 | a2",
    # abort, preempt and resume, ends inside an accepted run, idle rows, drafts thrown away
    "k4 page4 slots2 | a: p9 chunks 4,5 held | b: p5 | +a | b2 | abort a | c: p6 | c2 b1, b3 c1",
    "k4 page4 | a: p9 | b: p6 | a3 b1 | preempt a | b2 | a: resume chunks 6,7 | a1 b3, b1 a4",
    "k4 page4 slots2 | a: p9 | b: p6 | a4e2 b1 | c: p8 | a0 c3 b2, b1 a0 c1 /4, c0 b2",
    "k4 page4 | a: p9 | b: p6 | a2! b3, a1! b4, b1 a1, a4 b3",
    # heads, depths, conv widths, cache groups, sliding windows
    "k4 page4 target | a: p9 chunks 4,5 | a1, a3, a2",
    "k3 steps3 page4 | a: p8 chunks 4,4 | a1, a3, a1",
    "k4 page4,2 | a: p9 | b: p5 | a2, a4 b1",
    "k3 page2w3,4 W2 | a: p7 chunks 3,2,2 | a3, a1, a2, a3, a3",
    "k2 page1w2 W3 H16 | a: p3 | b: p1 | a2 b1, a1 b2, a2 b2, b1 a1",
    # what small numbers never show: large pages, far positions, late owners, deep heads, short hits, many rows
    "k4 page32 | a: p15 | a4, a4",
    "k4 | a: p255 | a4, a4",
    "k4 page4 slots1 | a: p8 | end a | b: p8 | end b | c: p8 | end c | d: p1 | d1",
    "k5 page4 | a: p9 chunks 7,2 held | b: p7 chunks 2,5 held | +a b | +b a | a2 b5",
    "k6 steps1 page4 | a: p9 | b: p6 hit a 5 | b1, b1, b1",
    "k4 steps1 page4 slots2 | z: p8 | a: p7 hit z 5 | end a | b: p7 hit z 5 | end b | c: p7 hit z 5 | c2 | end c"
    " | d: p6 hit z 5 | d1",
    "k4 slots8 | a: p4 | b: p5 | c: p6 | d: p7 | e: p8 | f: p9 | g: p4 | h: p5 | h1 g2 f3 e4 d1 c2 b3 a4 /16",
)  # fmt: skip

# For the exact base alone: an index-level design has no media ids.
MEDIA = ("k4 page4 | a: p9 media 2-3,8-8 | a1, a2", "k4 page4 | a: p9 media 5-6 chunks 5,4 | a1")


@cache
def pointed_media() -> tuple[Scenario, ...]:
    """Those with media ids, parsed."""
    return tuple(parse(text) for text in MEDIA)


@cache
def pointed() -> tuple[Scenario, ...]:
    """The scenarios, parsed."""
    return tuple(parse(text) for text in POINTED)
