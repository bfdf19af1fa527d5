"""What a serving engine does to a drafter, one small scenario an event: an exact drafter is exact under each."""

from __future__ import annotations

# name -> scenario text. Slots are few wherever the next owner of a slot matters.
SERVING_EVENTS: dict[str, str] = {
    "chunked prefill": "k4 page4 | a: p12 chunks 5,5,2 | a1, a3",
    "chunks of several requests in one round": (
        "k4 page4 | a: p9 chunks 2,6,1 held | b: p7 chunks 4,3 held | +a b | +b a | +a | b2 a1, a4 b1"
    ),
    "prefix hit on a live donor": "k4 page4 | a: p16 | b: p15 hit a 13 chunks 8,1,6 | b1 a2, a1 b3",
    "prefix hit on an ended donor": "k4 page4 slots1 | a: p16 | a2 | end a | b: p14 hit a 12 | b1, b4",
    "multi-turn": (
        "k4 page4 | a: p6 | a3, a4, a2 | end a | b: p19 hit a 15 chunks 8,8,3 | b2, b4 | end b | c: p28 hit b 25 | c1"
    ),
    "preempt and resume": (
        "k4 page4 slots2 | a: p7 | b: p5 | a4 b1, a2 b2 | preempt a | b2 | a: resume chunks 5,6,3 | a1 b3"
    ),
    "preempt inside the prompt": (
        "k4 page4 | a: p9 chunks 4,5 held | +a | preempt a | b: p3 | a: resume chunks 2,7 held | +a | b4 | +a | a1 b1"
    ),
    "resume on cached pages": "k4 page4 | a: p6 | a2, a4 | preempt a | a: resume hit a 11 | a1, a4",
    "abort": "k4 page4 slots2 | a: p5 | b: p5 | a2 b1 | abort a | c: p3 | c2 b1, b3 c1",
    "abort inside the prompt": "k4 page4 slots1 | a: p12 chunks 5,5,2 held | +a | abort a | c: p3 | c2, c1",
    "result after a finish": "k4 page4 slots2 | a: p6 | b: p4 | a4e2 b1 | c: p5 | a0 b2, c3 b1, b1 a0 c1 /4",
    "slot reuse": "k4 page4 slots1 | a: p9 | a2, a3 | end a | b: p2 chunks 1,1 | b1, b1, b4",
    "batch condensed": "k4 page4 | a: p4 | b: p5 | c: p6 | a4 b1 c3 | end a | b2 c1, b1 c4",
    "batch reordered": "k4 page4 | a: p4 | b: p5 | c: p6 | a4 b1 c3, c1 a2 b4, b1 c2 a3",
    "padded batch grows and shrinks": (
        "k4 page4 | a: p3 | b: p4 | a1 /2, a2 b1 /4 | c: p5 | d: p2 | d1 c4 b2 a1, b3 c1 /4, c2 /2, c1 a4 b1 d2 /8"
    ),
    "sliding window": "k4 page4w8,16 | a: p6 | a4, a4, a4, a4, a4, a4, a1, a1",
    "prefix hit in a sliding window": "k4 page4w8,4 | a: p21 | b: p22 hit a 19 chunks 16,6 | a4 b1, b2 a4, a4 b4",
    "prefix hit that a wrapped ring has lost": "k4 page4w8,4 | a: p6 | a4, a4, a4, a4, a4 | b: p12 hit a 11 | b1 a2",
    "conv checkpoint at a page boundary": "k4 page4 | a: p6 | a1, a1, a1, a1, a1 | b: p13 hit a 11 | b1 a1",
    "EOS inside an accepted run": "k4 page4 | a: p7 | a4e2 | b: p11 hit a 10 | b1, b2",
    "max_tokens": "k4 page4 slots1 | a: p4 | a3, a4e1 | b: p5 | b2, b1",
    "context end": "k4 page4 ctx16 | a: p12 | b: p14 | a2 b4, a4 | end b | c: p15",
    "round without drafts": "k4 page4 | a: p7 | b: p5 | a2! b3, a1! b4!, b1 a1, a4 b3",
    "idle row": "k4 page4 | a: p4 | b: p9 chunks 4,5 held | +b | b0 a2, a3 b0 | +b | b1 a4",
    "media": "k4 page4 | a: p12 chunks 5,5,2 media 3-6,11-11 | a1, a3 | b: p13 hit a 11 | b1, b2",
    "media read again": (
        "k4 page4 slots1 | a: p7 chunks 3,4 media 0-1,4-6 | a3 | preempt a | a: resume chunks 4,6,1 | a2, a1"
    ),
}
