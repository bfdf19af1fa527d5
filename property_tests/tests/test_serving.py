"""The exact drafters stay exact whatever a serving engine does."""

from __future__ import annotations

from collections import Counter

import pytest

from frontier_oracle.oracle.designs import DESIGNS
from frontier_oracle.oracle.deviations import predict
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.scenario import Abort, Admit, Books, Decode, Preempt, Resume, Scenario, validate
from frontier_oracle.oracle.serving_events import SERVING_EVENTS
from frontier_oracle.property_tests.drawing import EVERYTHING, SERVING, Limits, random_scenario
from frontier_oracle.property_tests.driver import run_scenario
from frontier_oracle.property_tests.gate.known import KNOWN
from frontier_oracle.property_tests.gate.refusals import CASES, MEDIA_CASES, refusals
from frontier_oracle.property_tests.gate.system import resolve
from frontier_oracle.property_tests.shield import Factory
from frontier_oracle.property_tests.shrinking import shrink
from frontier_oracle.reference_impl.frontier import Frontier
from frontier_oracle.reference_impl.generic import minimal

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


EXACT: dict[str, Factory] = {"frontier": Frontier, "minimal": minimal}


@pytest.mark.parametrize("policy", ["successor", "recompute"])
@pytest.mark.parametrize("name", list(EXACT))
def test_the_exact_drafters_are_exact_under_each_event(name: str, policy: str) -> None:
    for event, text in SERVING_EVENTS.items():
        assert run_scenario(EXACT[name], parse(text), policy, guard=False).findings == [], event


@pytest.mark.parametrize("name", list(EXACT))
def test_the_exact_drafters_refuse_what_they_must(name: str) -> None:
    """S15, S16: mixed batches, data parallelism, media without a substitute; and nothing else."""
    check, _ = refusals(resolve(name))
    assert (check.cases, check.findings) == (len(CASES) + len(MEDIA_CASES), ())


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("name", list(EXACT))
def test_the_exact_drafters_are_exact_under_every_event(name: str, part: int) -> None:
    for index in range(part * 20, part * 20 + 20):
        scenario = random_scenario(17, index, LIMITS)
        assert run_scenario(EXACT[name], scenario, "successor", guard=False).findings == [], render(scenario)


@pytest.mark.parametrize("name", list(EXACT))
def test_the_exact_designs_are_exact_under_every_event(name: str) -> None:
    """Index by index."""
    for index in range(60):
        scenario = random_scenario(23, index, LIMITS)
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


def test_the_known_scenarios_hold_every_event() -> None:
    seen = set().union(*(features(parse(text)) for text in KNOWN.values()))
    assert {"abort inside the prompt", "resume", "resume, hit", "multi-turn", "ends short", "undrafted", "late row",
            "idle row", "media", "context full"} <= seen  # fmt: skip
