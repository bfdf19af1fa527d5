"""The exact drafter stays exact whatever a serving engine does, and however a prompt is cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontier_oracle.oracle.designs import DESIGNS
from frontier_oracle.oracle.deviations import predict
from frontier_oracle.oracle.evidence import Evidence
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.ledger import locations_of
from frontier_oracle.oracle.play import play
from frontier_oracle.oracle.scenario import Abort, Admit, Books, Decode, Preempt, Resume, Scenario, validate
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.timeline import Round, Timeline
from frontier_oracle.property_tests.drawing import EVERYTHING, SERVING, Limits, random_scenario
from frontier_oracle.property_tests.driver import TorchDrafter, run_scenario
from frontier_oracle.property_tests.gate.known import KNOWN
from frontier_oracle.property_tests.shrinking import shrink
from frontier_oracle.property_tests.strategies import specs
from frontier_oracle.reference_impl.frontier import Frontier

LIMITS = Limits(max_requests=4, max_rounds=20, events=EVERYTHING)


def features(scenario: Scenario) -> set[str]:
    """Which serving events a scenario has, and in which situations."""
    seen, books = set(), Books(scenario.spec, scenario.slots, scenario.context)
    for event in scenario.events:
        request = books.requests.get(getattr(event, "name", ""))
        if isinstance(event, Abort | Preempt) and request is not None:
            where = "" if request.finished else " inside the prompt"
            seen.add(f"{type(event).__name__.lower()}{where}")
        elif isinstance(event, Resume):
            seen |= (
                {"resume"} | ({"resume, hit"} if event.like else set()) | ({"resume, held"} if event.held else set())
            )
        elif isinstance(event, Admit):
            seen |= {"media"} if event.media else set()
            donor = books.requests.get(event.like[0]) if event.like else None
            if event.like and donor and donor.ended and event.like[1] > donor.admit.prompt:
                seen.add("multi-turn")
        elif isinstance(event, Decode):
            accepts = dict(event.rows)
            seen |= {"ends short"} if any(n < accepts[name] for name, n in event.ends) else set()
            seen |= {"undrafted"} if event.undrafted else set()
            seen |= {"late row"} if any(not a and books.requests[name].ended for name, a in event.rows) else set()
            seen |= {"idle row"} if any(not a and books.requests[name].live for name, a in event.rows) else set()
        books.apply(event)
        if any(books.full(request) for request in books.requests.values() if request.live):
            seen.add("context full")
    return seen


def test_the_generator_reaches_every_event() -> None:
    draws = [random_scenario(3, index, LIMITS) for index in range(400)]
    for scenario in draws:
        validate(scenario)
        assert parse(render(scenario)) == scenario
    counts = Counter(feature for scenario in draws for feature in features(scenario))
    wanted = {
        "abort", "abort inside the prompt", "preempt", "preempt inside the prompt", "resume", "resume, hit",
        "resume, held", "media", "multi-turn", "ends short", "undrafted", "late row", "idle row", "context full",
    }  # fmt: skip
    assert {name: counts[name] for name in wanted if counts[name] < 8} == {}


def test_events_that_were_not_asked_for_are_not_drawn() -> None:
    used = set().union(*(features(random_scenario(3, index, Limits(events=SERVING))) for index in range(200)))
    assert not used & {"media", "context full"}


@pytest.mark.parametrize("part", range(4))
def test_the_exact_drafter_is_exact_under_every_event(part: int) -> None:
    for index in range(part * 25, part * 25 + 25):
        scenario = random_scenario(17, index, LIMITS)
        assert run_scenario(Frontier, scenario, "successor", guard=False).findings == [], render(scenario)


@pytest.mark.parametrize("name", ["frontier", "minimal"])
def test_the_exact_designs_are_exact_under_every_event(name: str) -> None:
    """Index by index; media ids are for systems that hold a vocabulary."""
    limits = Limits(max_requests=4, max_rounds=20, events=EVERYTHING - {"media"})
    for index in range(100):
        scenario = random_scenario(23, index, limits)
        assert predict(DESIGNS[name], scenario).outcome.findings == [], render(scenario)


@pytest.mark.parametrize("policy", ["successor", "recompute"])
def test_it_is_exact_under_every_exact_prefix_policy(policy: str) -> None:
    for index in range(30):
        scenario = random_scenario(19, index, LIMITS)
        assert run_scenario(Frontier, scenario, policy, guard=False).findings == [], render(scenario)


def test_scenarios_with_events_shrink_to_the_event_that_matters() -> None:
    def late_row(scenario: Scenario) -> bool:
        validate(scenario)
        return "late row" in features(scenario)

    def resumed_media(scenario: Scenario) -> bool:
        validate(scenario)
        return {"resume", "media"} <= features(scenario)

    smallest = {"k2 W1 | a: p1 | b: p1 | end a | a0 b1", "k2 W1 | a: p1 | end a | b: p1 | a0 b1"}
    for fails, texts in ((late_row, smallest), (resumed_media, set[str]())):
        found = next(s for s in (random_scenario(3, i, LIMITS) for i in range(400)) if fails(s) and len(s.events) > 9)
        small = shrink(found, fails)
        assert fails(small) and len(small.events) <= 4, render(small)
        assert not texts or render(small) in texts


# -- chunking ----------------------------------------------------------------------------------------------------------


def caches(spec: Spec, prompt: int, chunks: tuple[int, ...]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What a prompt leaves behind: entries by position, ring rows, checkpoints, stash, and the drafts; then the same
    after a decode round."""
    scenario = Scenario(spec, events=(Admit("a", prompt, chunks), Decode((("a", 1),))))
    timeline = Timeline(scenario)
    *_, last, decode = play(timeline, TorchDrafter(Frontier, timeline.config(), guard=False))
    return _state(spec, prompt, *last[:2]), _state(spec, prompt + 1, *decode[:2])


def _state(spec: Spec, computed: int, step: Round, evidence: Evidence) -> list[np.ndarray]:
    view, out = step.views[0], [evidence.returned]
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


def same(left: tuple[list[np.ndarray], list[np.ndarray]], right: tuple[list[np.ndarray], list[np.ndarray]]) -> bool:
    pairs = (pair for mine, other in zip(left, right, strict=True) for pair in zip(mine, other, strict=True))
    return all(np.array_equal(a, b) for a, b in pairs)


def cuts(prompt: int) -> Iterator[tuple[int, ...]]:
    """Every way to cut a prompt into two chunks or more."""
    for count in range(1, prompt):
        for ends in combinations(range(1, prompt), count):
            yield tuple(np.diff([0, *ends, prompt]).tolist())


@pytest.mark.parametrize("header", ["k2", "k3 steps3", "k4", "k4 steps2 target"])
def test_every_chunking_of_a_prompt_leaves_the_same_caches(header: str) -> None:
    spec = parse(f"{header} page2").spec
    for prompt in (2, 5, 7):
        whole = caches(spec, prompt, ())
        for chunks in cuts(prompt):
            assert same(caches(spec, prompt, chunks), whole), chunks


@settings(max_examples=40)
@given(specs(), st.lists(st.integers(1, 9), min_size=2, max_size=6))
def test_chunking_makes_no_difference_under_any_configuration(spec: Spec, chunks: list[int]) -> None:
    assert same(caches(spec, sum(chunks), tuple(chunks)), caches(spec, sum(chunks), ()))


def test_the_known_scenarios_hold_every_event() -> None:
    seen = set().union(*(features(parse(text)) for text in KNOWN.values()))
    assert {"abort inside the prompt", "resume", "resume, hit", "multi-turn", "ends short", "undrafted", "late row",
            "idle row", "media", "context full"} <= seen  # fmt: skip
