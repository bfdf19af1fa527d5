"""However a prompt is cut, the exact drafters leave the same caches as for one chunk, amid serving events too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontier_oracle.oracle.contract import DraftConfig
from frontier_oracle.oracle.designs import FRONTIER, MINIMAL
from frontier_oracle.oracle.evidence import Evidence
from frontier_oracle.oracle.executor import DesignDrafter
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.ledger import locations_of
from frontier_oracle.oracle.play import Drafter, play
from frontier_oracle.oracle.scenario import Admit, Decode, Scenario
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.timeline import Round, Timeline, View
from frontier_oracle.property_tests.driver import TorchDrafter
from frontier_oracle.property_tests.strategies import specs
from frontier_oracle.reference_impl.frontier import Frontier
from frontier_oracle.reference_impl.generic import minimal

State = list[np.ndarray]
Maker = Callable[[DraftConfig], Drafter]

DRAFTERS: dict[str, Maker] = {
    "frontier": lambda config: TorchDrafter(Frontier, config, guard=False),
    "minimal": lambda config: TorchDrafter(minimal, config, guard=False),
    "frontier, by index": lambda config: DesignDrafter(FRONTIER, config),
    "minimal, by index": lambda config: DesignDrafter(MINIMAL, config),
}
# CUT is where the chunks of n tokens go; the request that is looked at is a, which decodes last.
AMID_EVENTS: dict[str, tuple[int, str]] = {
    "media": (5, "k4 page2 | a: p5CUT media 1-2,4-4 | a2"),
    "behind a hit": (5, "k4 page2 | z: p9 | a: p12 hit z 9CUT | z1 a2"),
    "behind a hit, all listed": (6, "k3 page2 | z: p5 | a: p6 hit z 4CUT | a1"),
    "slot reuse": (5, "k4 page2 slots1 | z: p9 | z3 | end z | a: p5CUT | a1"),
    "resume": (5, "k4 page2 slots1 | a: p2 | a2 | preempt a | a: resumeCUT | a3"),
    "resume on cached pages": (5, "k3 page2 | a: p3 | a1 | preempt a | a: resume hit a 4CUT | a3"),
    "a window's ring of pages": (5, "k3 page2,2w3 | a: p5CUT | a1"),
    "a context that ends": (5, "k4 page2 ctx7 | a: p5CUT | a4"),
}


def caches(make: Maker, scenario: Scenario) -> tuple[State, State]:
    """What request a's prompt leaves behind: entries by position, ring rows, checkpoints, stash, and the drafts; then
    the same after the scenario's last round."""
    timeline = Timeline(scenario)
    mine = [(s, e) for s, e, _ in play(timeline, make(timeline.config())) if any(_is_a(v) for v in s.views)]
    read = [i for i, (step, _) in enumerate(mine) if step.mode == "extend"][-1]
    return _state(scenario.spec, *mine[read]), _state(scenario.spec, *mine[-1])


def _is_a(view: View) -> bool:
    return view.request.name == "a"


def _state(spec: Spec, step: Round, evidence: Evidence) -> State:
    at, view = next((i, view) for i, view in enumerate(step.views) if _is_a(view))
    computed, out = view.computed, [evidence.returned[step.rows[at]]]
    for depth in range(spec.steps):
        window = spec.window_of(depth)
        positions = np.arange(0 if window is None else max(0, computed - window), computed)
        out.append(evidence.kv[depth][locations_of(view, spec.group_of(depth), positions)])
        held = np.arange(max(0, computed - spec.taps), computed)
        out.append(evidence.ring[depth, view.request.slot, held % evidence.ring.shape[2]])
    table, size = view.request.tables[0], spec.groups[0].page_size
    ends = list(range(size - 1, computed, size))
    ends = ends if spec.groups[0].window is None else ends[-1:]  # a ring of pages is as long as the longest chunk asks
    out.append(evidence.ckpt[:, [table.page_at(p) for p in ends]])
    assert evidence.stash is not None and evidence.stash.valid is not None
    valid = int(evidence.stash.valid[view.request.slot])
    out += [evidence.stash.valid[[view.request.slot]]]
    out += [kept[view.request.slot, spec.k - 1 - valid :] for kept in (evidence.stash.tokens, evidence.stash.hidden)]
    return out


def same(left: tuple[State, State], right: tuple[State, State]) -> bool:
    pairs = (pair for mine, other in zip(left, right, strict=True) for pair in zip(mine, other, strict=True))
    return all(np.array_equal(a, b) for a, b in pairs)


def cuts(prompt: int) -> Iterator[tuple[int, ...]]:
    """Every way to cut a prompt into two chunks or more."""
    for count in range(1, prompt):
        for ends in combinations(range(1, prompt), count):
            yield tuple(np.diff([0, *ends, prompt]).tolist())


def plain(spec: Spec, prompt: int, chunks: tuple[int, ...]) -> Scenario:
    return Scenario(spec, events=(Admit("a", prompt, chunks), Decode((("a", 1),))))


@pytest.mark.parametrize("name", ["frontier", "minimal"])
@pytest.mark.parametrize("header", ["k2", "k3 steps3", "k4", "k4 steps2 target"])
def test_every_chunking_of_a_prompt_leaves_the_same_caches(header: str, name: str) -> None:
    spec = parse(f"{header} page2").spec
    for prompt in (2, 5, 6):
        whole = caches(DRAFTERS[name], plain(spec, prompt, ()))
        for chunks in cuts(prompt):
            assert same(caches(DRAFTERS[name], plain(spec, prompt, chunks)), whole), chunks


@pytest.mark.parametrize("name", list(DRAFTERS))
@pytest.mark.parametrize("event", list(AMID_EVENTS))
def test_every_chunking_amid_serving_events_leaves_the_same_caches(event: str, name: str) -> None:
    length, text = AMID_EVENTS[event]
    whole = caches(DRAFTERS[name], parse(text.replace("CUT", "")))
    for chunks in cuts(length):
        cut = text.replace("CUT", f" chunks {','.join(map(str, chunks))}")
        assert same(caches(DRAFTERS[name], parse(cut)), whole), cut


@pytest.mark.parametrize("name", list(DRAFTERS))
def test_chunks_run_between_other_requests_rounds_leave_the_same_caches(name: str) -> None:
    """Held chunks beside decoding, idle and padded rows."""
    head = "k4 page2 | z: p3 | y: p5 chunks 1,4 held | a: p6"
    whole = caches(DRAFTERS[name], parse(f"{head} | +y | z2 | +y | z1 a2 y1"))
    for text in (
        f"{head} chunks 1,4,1 held | +a y | z2 a0 /4 | +a | +y a | y1 a2 z1",
        f"{head} chunks 3,3 held | z2 | +y a | a0 z4 | +a | +y | a2 y1 z1",
        f"{head} chunks 1,1,1,3 held | +a | +y a | +a | z2 a0 | +a y | a2 z1 /3",
    ):
        assert same(caches(DRAFTERS[name], parse(text)), whole), text


def test_a_design_whose_chunks_lack_the_next_tokens_leaves_others() -> None:
    """What the comparisons see: the published design's mid-chunk tail (SEMANTICS section 9)."""
    blind = replace(FRONTIER, name="blind", chunk_tail="drafts", rerun=False)
    text = "k4 page2 | a: p6CUT | a1"
    whole, cut = (parse(text.replace("CUT", words)) for words in ("", " chunks 3,3"))
    assert not same(*(caches(lambda config: DesignDrafter(blind, config), s) for s in (whole, cut)))


@settings(max_examples=40)
@given(specs(), st.lists(st.integers(1, 9), min_size=2, max_size=6))
def test_chunking_makes_no_difference_under_any_configuration(spec: Spec, chunks: list[int]) -> None:
    whole, cut = (caches(DRAFTERS["frontier"], plain(spec, sum(chunks), each)) for each in ((), tuple(chunks)))
    assert same(cut, whole)
