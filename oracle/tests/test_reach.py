"""The tainted set of the published design is exactly what its cause entries reach."""

from __future__ import annotations

import numpy as np
import pytest

from frontier_oracle.oracle.designs import TOKENSPEED_FRONTIER
from frontier_oracle.oracle.deviations import predict
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.ledger import CAUSES, STALE, TAINTED
from frontier_oracle.oracle.play import Outcome
from frontier_oracle.oracle.reach import reach
from frontier_oracle.oracle.spec import CacheGroup, Spec


def run(text: str) -> Outcome:
    return predict(TOKENSPEED_FRONTIER, parse(text)).outcome


def test_the_mid_chunk_tail_of_the_published_design_and_what_it_reaches() -> None:
    entries = run("k4 page16 | a: p12 chunks 5,5,2").final_entries()["a"]
    stale = {(e.depth, e.position) for e in entries if e.state == STALE}
    assert stale == {(1, 4), (1, 9), (2, 3), (2, 4), (2, 8), (2, 9)}
    assert all(e.equal for e in entries if e.depth == 0)
    tainted = {(e.depth, e.position) for e in entries if e.state == TAINTED}
    assert tainted == reach(stale, Spec(4), 12)
    assert {e.state for e in entries} == {"stale", "tainted", "exact"}


HEADERS = (
    "k4 page16", "k4 steps4 page4", "k6 page16 W1", "k3 page4 W2", "k5 page4w6,16", "k4 target page8", "k8 page16 W5",
    "k4 page4w4 W2",
)  # fmt: skip


@pytest.mark.parametrize("header", HEADERS)
def test_tainted_is_what_the_causes_reach_on_random_chunked_prompts(header: str) -> None:
    spec = parse(header).spec
    random = np.random.Generator(np.random.Philox(key=[7, spec.k]))
    deviating = 0
    for _ in range(12):
        chunks = random.integers(1, 9, random.integers(2, 6))
        prompt = int(chunks.sum())
        accepts = random.integers(1, spec.max_accept + 1, 4)
        text = f"{header} | a: p{prompt} chunks {','.join(map(str, chunks))}"
        if chunks[0] >= spec.k and prompt >= spec.k:  # else the short prompt adds causes that go bad later
            text += " | " + ", ".join(f"a{a}" for a in accepts)
        deviating += check(text, spec)
    assert deviating, "no scenario deviated: the test shows nothing"


def check(text: str, spec: Spec) -> bool:
    """After every round; causes that no later row can read any more are kept as they last stood."""
    outcome = run(text)
    causes: set[tuple[int, int]] = set()
    frontier = 0
    for verdict in outcome.verdicts:
        entries = {(e.depth, e.position): e for e in verdict.entries}
        frontier = 1 + max(p for _, p in entries)
        causes = {c for c in causes if c not in entries or entries[c].state in CAUSES}
        causes |= {c for c, e in entries.items() if e.state in CAUSES}
        tainted = {c for c, e in entries.items() if e.state == TAINTED}
        reached = reach(causes, spec, frontier) & entries.keys()
        mid_prompt = {c for c in reached if entries[c].state == "provisional" and not entries[c].equal}
        assert tainted == reached - mid_prompt, f"{text}: round {verdict.round}"
    return bool(causes)


def test_an_entry_off_only_through_its_taps_leaves_a_right_ring_row() -> None:
    spec = Spec(k=2, steps=1, conv_width=3)
    assert reach({(0, 2)}, spec, 8) == {(0, 3), (0, 4)}
    assert reach({(0, 2)}, spec, 8, right_rows=frozenset({(0, 2)})) == frozenset()


def test_outputs_reach_up_a_depth_within_the_attention_window() -> None:
    windowed = Spec(k=3, steps=2, conv_width=1, groups=(CacheGroup(4, window=3),))
    assert reach({(0, 1)}, windowed, 8) == {(1, 1), (1, 2), (1, 3)}
    full = Spec(k=3, steps=2, conv_width=1)
    assert reach({(0, 5)}, full, 8) == {(1, 5), (1, 6), (1, 7)}
    assert reach({(0, 5)}, Spec(k=3, steps=2, conv_width=1, hidden="target"), 8) == frozenset()
    shifted = Spec(k=3, steps=2, conv_width=1, hidden="shifted")
    assert reach({(0, 5)}, shifted, 8) == {(1, 7)}, "rows at p + d < C read the target's own hidden"


def test_nothing_reaches_nothing() -> None:
    assert reach((), Spec(4), 1) == frozenset()
