"""Scenarios every system is held to first: the smallest inputs of faults that engines really had."""

from __future__ import annotations

# name -> scenario text. Each was a fault somewhere: SEMANTICS §9, and the classes named beside it.
KNOWN: dict[str, str] = {
    "chunks 5,5,2 (mid-chunk tail)": "k4 page16 | a: p12 chunks 5,5,2 | a1",
    "chunks 6,4 (chunk boundary token)": "k4 page16 | a: p10 chunks 6,4 | a2, a1",
    "chunks 4,4,2 (rounds that sample nothing)": "k4 page16 | a: p10 chunks 4,4,2 | a1, a3",
    "single-token last chunk (re-run rows)": "k4 page16 | a: p20 chunks 18,1,1 | a1, a4, a1",
    "prompt of 1, accepts 1,1 (short prompt)": "k4 page4 | a: p1 | a1, a1",
    "prompt of 1, accepts 1,4 (never heals when clamped)": "k4 page4 | a: p1 | a1, a4, a1",
    "hit of 8, chunk of 1, reused slot": "k4 page4 | a: p12 | z: p12 | end z | b: p9 hit a 8 | b1, b1, b2",
    "hit of 8, chunk of 2, reused slot": "k4 page4 | a: p12 | z: p12 | end z | b: p10 hit a 8 | b1, b3",
    "hit into a used slot, one token behind it": (
        "k4 page4 | a: p12 | z: p12 | z2 | end z | b: p13 hit a 11 chunks 8,1,4 | b1, b1"
    ),
    "divergence at a page boundary (donor continuation)": "k4 page4 | a: p16 | b: p14 hit a 8 | b1, b2 | a1",
    "64 tokens shared, pages of 16 (donor continuation)": "k4 page16 | a: p70 | b: p72 hit a 67 chunks 64,6,2 | b1, b2",
    "hit on a live donor's newest page": "k4 page4 | a: p8 | a1 | b: p9 hit a 8 | a1 b1, a2 b1",
    "one call writes a shared page that another row of it reads": (
        "k8 steps6 page2 slots3 | a: p2 chunks 1,1 | b: p11 hit a 3 chunks 4,1,1,1,2,2 | c: p10 hit b 8 | c3 a2 b5, c2"
    ),
    "partial accepts only (accept-row hidden)": "k6 page16 | a: p8 | a3, a2, a5",
    "full accepts (hole at a = k)": "k4 page16 | a: p12 | a4, a4, a4, a4",
    "no accepts (stale at depths >= 1)": "k4 page16 | a: p12 | a1, a1, a1, a1",
    "batch of two, accepts 1 and 4": "k4 page16 | a: p6 | b: p7 | a1 b4, a4 b1",
    "reordered and condensed batch": "k4 page4 | a: p4 | b: p5 | c: p6 | a4 b1 c3, c1 a2 | end b | d: p4 | d2 a1 c1",
    "rows move, a new request between": "k4 page4 | b: p6 | a: p7 | c: p5 held | b4 a1 | +c | a3 c2 b1, c1 b2 a4",
    "eight requests": (
        "k4 page4 slots8 | a: p4 | b: p5 | c: p6 | d: p7 | e: p4 | f: p5 | g: p6 | h: p7 | a1 b2 c3 d4 e4 f3 g2 h1, "
        "h1 g1 f1 e1 d1 c1 b1 a1"
    ),
    "padded rows beside a parked slot": "k4 page4 | a: p4 | b: p5 | a2 b1, a1 /4, b3 /4",
    "batch of 4, then 2 padded to 4": "k2 page4 | a: p3 | b: p3 | c: p3 | d: p3 | a1 b2 c1 d2, b1 d2 /4, d1 b1 /4",
    "batch of 4, then 3 in the same bucket": (
        "k4 page4 | a: p4 | b: p5 | c: p6 | d: p7 | a2 b1 c3 d4, c1 a2 b3, d2 b1 a4, a1"
    ),
    "a window narrower than the conv, resumed": (
        "k2 page2w1 | a: p7 | a2, a2 | preempt a | a: resume hit a 5 chunks 5,7 | a2, a1"
    ),
    "slot reuse without a hit": "k4 page4 | a: p9 | a2, a3 | end a | b: p2 chunks 1,1 | b1, b1, b4",
    "ring of pages and conv ring wrap": "k4 page4w8,16 | a: p6 | a4, a4, a4, a4, a4, a4, a1, a1",
    "page boundary crossed by a window": "k4 page4 | a: p6 | a1, a1, a1, a1 | b: p9 hit a 8 | b1 a1",
    "one depth": "k4 steps1 page4 | a: p5 chunks 3,2 | a2, a1, a2",
    "steps = k": "k3 steps3 page4 | a: p5 chunks 4,1 | a3, a1, a2, a1",
    "target heads": "k4 target page4 | a: p9 chunks 4,4,1 | a1, a4, a2",
    "no short conv, wide activations": "k4 W1 H16 page4 | a: p7 | a1, a3, a4",
    "page of 32, offsets above 16": "k4 page32 | a: p15 | a4, a4",
    "page of 64 beside a window of 40 on pages of 32": "k4 page64,32w40 | a: p62 chunks 60,2 | a3, a4, a1",
    "positions past 255": "k4 | a: p255 | a4, a4",
    "a long prompt in chunks": "k4 page16,4w8 | a: p301 chunks 256,43,2 | a4, a1, a2",
    "fourth owner of a slot": (
        "k4 page4 slots1 | a: p8 | end a | b: p8 | end b | c: p8 | end c | d: p1 | d1 | end d | e: p1 | e1, e4"
    ),
    "several hits in one slot": (
        "k4 steps1 page4 slots2 | z: p8 | a: p7 hit z 5 | a2 | end a | b: p6 hit z 5 | b1 | end b | c: p7 hit z 5 | c2"
        " | end c | d: p6 hit z 5 | d1, d1 | end d | e: p6 hit z 5 | e2"
    ),
    "EXTEND rounds of unequal chunks": (
        "k5 page4 | a: p12 chunks 7,1,4 held | b: p9 chunks 2,6,1 held | c: p3 held | +a b c | +b a | +a b"
        " | c2 a1 b5, b1 c4"
    ),
    "valid length grows after a short hit": "k6 steps1 page4 | a: p9 | b: p6 hit a 5 | b1, b1, b1, b2, b1",
    "short prompts, accepts of 1": "k5 page4 | a: p1 | b: p2 | c: p3 | b1 a1 c1, a1 c1 b1, c1 b1 a1, a1 b5 c1",
    "ten requests in changing order, padded to 16": (
        "k4 page4 slots10 | a: p1 | b: p2 | c: p3 | d: p4 | e: p5 | f: p6 | g: p7 | h: p8 | i: p9 | j: p10"
        " | a1 b2 c3 d4 e1 f2 g3 h4 i1 j2 /16, j1 i4 h3 g2 f1 e4 d3 c2 b1 a4 /16, f3 a1 j4 c1 h2 d1 b3 i2 /16"
        ", g4 e1 j1 a2 c3 b1 h1 /16"
    ),
    "aborted inside its prompt, slot and pages reused": (
        "k4 page4 slots2 | a: p12 chunks 5,5,2 held | b: p5 | +a | b2 | abort a | c: p3 | c2 b1, b3 c1"
    ),
    "preempted with drafts pending": "k4 page4 | a: p6 | b: p5 | a3 b1 | preempt a | b2 | a: resume | a1 b3, b1 a4",
    "prompt and output read again": "k4 page4 | a: p7 | a4, a2 | preempt a | a: resume chunks 5,6,2,1 | a1, a3",
    "resumed on its own cached pages, drafts in them": "k4 page4 | a: p6 | a2 | preempt a | a: resume hit a 8 | a1, a4",
    "preempted inside its prompt": (
        "k4 page4 | a: p9 chunks 4,5 held | +a | preempt a | b: p3 | a: resume chunks 2,7 held | +a | b4 | +a | a1 b1"
    ),
    "EOS inside an accepted run, the rest hit by another": "k4 page4 | a: p7 | a4e2 | b: p11 hit a 10 | b1, b2",
    "EOS and max_tokens in one run, slot reused": "k4 page4 slots1 | a: p4 | a3, a4e1 | b: p5 | b2, b1",
    "a row without accepted tokens": "k4 page4 | a: p4 | b: p5 | c: p6 | a4 b1 c2, a1 b0 c4, b0 c1 a2, b3",
    "a late result, slot taken over": "k4 page4 slots2 | a: p6 | b: p4 | a4e2 b1 | c: p5 | a0 b2, c3 b1, b1 a0 c1 /4",
    "idle while another reads its prompt": "k4 page4 | a: p4 | b: p9 chunks 4,5 held | +b | b0 a2, a3 b0 | +b | b1 a4",
    "rounds without drafts": "k4 page4 | a: p7 | b: p5 | a2! b3, a1! b4!, b1 a1, a4 b3",
    "context ends inside a window": "k4 page4 ctx16 | a: p12 | b: p14 | a2 b4, a4 | end b | c: p15",
    "multi-turn: prompt and output hit by the next turn": (
        "k4 page4 | a: p6 | a3, a4, a2 | end a | b: p19 hit a 15 chunks 8,8,3 | b2, b4 | end b | c: p28 hit b 25 | c1"
    ),
    "media at a chunk boundary": "k4 page4 | a: p12 chunks 5,5,2 media 3-6,11-11 | a1, a3 | b: p13 hit a 11 | b1, b2",
}
