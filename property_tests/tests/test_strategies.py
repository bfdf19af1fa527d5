"""The generators stay inside the language and reach all of it; the shrinker ends small, legal and always the same."""

import json
import time
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.repro import fingerprint, scenario_from_dict, scenario_to_dict
from frontier_oracle.oracle.scenario import Admit, Books, Decode, Extend, Finish, Scenario, requests, validate
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.drawing import Limits, name_of
from frontier_oracle.property_tests.strategies import random_scenario, scenarios, shrink, specs

Predicate = Callable[[Scenario], bool]

PINNED = (
    "k4 steps2 page2w12,4 target | a: p10 chunks 1,1,1,1,1,5 | b: p8 hit a 7 | c: p16 hit a 6 chunks 8,2,2,1,2,1"
    " | d: p15 hit a 11 chunks 3,1,2,2,2,5 | end c | end b | a2 | end a | d3, d3 /2, d1 /4"
)


def features(scenario: Scenario) -> set[str]:
    """What of the language a scenario uses."""
    spec, seen = scenario.spec, set()
    seen |= {f"k{spec.k}", f"W{spec.conv_width}", spec.hidden, f"groups{len(spec.groups)}", f"slots{scenario.slots}"}
    seen |= {"window"} if any(g.window for g in spec.groups) else set()
    seen |= {"page1"} if any(g.page_size == 1 for g in spec.groups) else set()
    seen |= {"page32"} if any(g.page_size == 32 for g in spec.groups) else set()
    admitted = sum(isinstance(event, Admit) for event in scenario.events)
    seen |= {"four owners of one slot"} if scenario.slots == 1 and admitted >= 4 else set()
    seen |= {"many requests"} if admitted > 3 else set()
    seen |= {"steps<k-1"} if spec.steps < spec.k - 1 else {"steps=k"} if spec.steps == spec.k else set()
    seen |= {"deeper ring"} if spec.ring_rows > spec.taps + spec.k else set()
    seen |= {"wide"} if scenario.hidden_size > 8 else set()
    books, batch = Books(spec, scenario.slots), None
    for event in scenario.events:
        if isinstance(event, Admit):
            seen |= admit_features(event, spec, books)
        elif isinstance(event, Extend):
            seen.add("extend batch" if len(event.names) > 1 else "extend")
        elif isinstance(event, Decode):
            seen |= decode_features(event, spec, batch)
            batch = tuple(name for name, _ in event.rows)
        elif isinstance(event, Finish):
            seen.add("end")
        books.apply(event)
    return seen


def admit_features(event: Admit, spec: Spec, books: Books) -> set[str]:
    seen = {"short prompt"} if event.prompt < spec.k else {"prompt"}
    seen |= {"held"} if event.held else set()
    seen |= {"tiny chunk"} if any(n < spec.k - 1 for n in event.chunks) else set()
    seen |= {"slot reuse"} if any(request.ended for request in books.requests.values()) else set()
    if event.like:
        donor = books.requests[event.like[0]]
        seen |= {"hit", "hit on an ended" if donor.ended else "hit on a live"}
        seen |= {"hit into output"} if event.like[1] > donor.admit.prompt else set()
        seen |= {"hit of pages"} if event.like[1] - spec.steps >= spec.groups[0].page_size else set()
        seen |= {"hit of a hit"} if donor.admit.like else set()
        seen |= {"hit, chunks"} if event.chunks else set()
        seen |= {"hit, rest listed"} if 0 < sum(event.chunks) < event.prompt else set()
    return seen


def decode_features(event: Decode, spec: Spec, before: tuple[str, ...] | None) -> set[str]:
    names = tuple(name for name, _ in event.rows)
    seen = {f"batch{len(names)}"}
    seen |= {"accept max"} if any(a == spec.max_accept for _, a in event.rows) else set()
    seen |= {"accept 1"} if any(a == 1 for _, a in event.rows) else set()
    if event.bucket is not None:
        seen.add("padded" if event.bucket > len(names) else "full bucket")
    if before is not None and before != names:
        same = set(before) == set(names)
        seen.add("reorder" if same else "shrink" if set(names) < set(before) else "grow or swap")
    return seen


EVERYTHING = {
    *(f"k{k}" for k in (2, 3, 4, 5, 6, 8)), *(f"W{w}" for w in (1, 2, 3, 4)), *(f"groups{n}" for n in (1, 2, 3)),
    *(f"slots{n}" for n in (1, 2, 3, 4)), *(f"batch{n}" for n in (1, 2, 3)),
    "chain", "target", "window", "page1", "page32", "four owners of one slot", "many requests",
    "steps<k-1", "steps=k", "deeper ring", "wide",
    "short prompt", "prompt", "held", "tiny chunk", "slot reuse", "extend", "extend batch", "end",
    "hit", "hit on an ended", "hit on a live", "hit into output", "hit of pages", "hit of a hit", "hit, chunks",
    "hit, rest listed", "accept 1", "accept max", "padded", "full bucket", "reorder", "shrink", "grow or swap",
}  # fmt: skip


def assert_whole_space(draws: list[Scenario], least: int) -> None:
    counts = Counter(feature for scenario in draws for feature in features(scenario))
    assert {feature: counts[feature] for feature in EVERYTHING if counts[feature] < least} == {}


def test_the_gates_generator_stays_legal_and_reaches_everything() -> None:
    draws = [random_scenario(11, index) for index in range(500)]
    for scenario in draws:
        validate(scenario)
    assert len(set(draws)) > 490
    assert_whole_space(draws, least=8)


def test_hypothesis_reaches_everything() -> None:
    draws: list[Scenario] = []

    @settings(max_examples=700, derandomize=True, database=None, deadline=None)
    @given(scenarios())
    def collect(scenario: Scenario) -> None:
        validate(scenario)
        draws.append(scenario)

    collect()
    assert_whole_space(draws, least=3)


def test_a_scenario_depends_on_seed_and_index_alone() -> None:
    assert render(random_scenario(3, 7)) == render(random_scenario(3, 7))
    assert random_scenario(3, 7) != random_scenario(3, 8) != random_scenario(4, 7)
    # Pinned: a seed means the same scenario on every machine and Python. Another text here is another generator (new
    # page sizes, more owners of a slot): then pin the new one and say so in the changelog. Repro files hold texts.
    assert render(random_scenario(0, 0)) == PINNED


def test_limits_are_kept() -> None:
    spec = Spec(3, groups=(CacheGroup(2),))
    limits = Limits(spec, max_requests=5, max_rounds=30, hits=False, held=False, padding=False)
    draws = [random_scenario(1, index, limits) for index in range(200)]
    assert {scenario.spec for scenario in draws} == {spec}
    assert max(len(requests(scenario)) for scenario in draws) == 5
    assert 20 < max(len(scenario.events) for scenario in draws) <= 31
    used = set().union(*(features(scenario) for scenario in draws))
    assert not used & {"hit", "held", "extend", "padded", "full bucket"}


def test_thousands_of_scenarios_a_second() -> None:
    start = time.process_time()
    for index in range(1000):
        random_scenario(5, index)
    assert time.process_time() - start < 1.0


def test_names_go_on_after_z() -> None:
    assert [name_of(i) for i in (0, 25, 26, 27, 675, 676)] == ["a", "z", "ba", "bb", "zz", "baa"]
    assert len({name_of(i) for i in range(2000)}) == 2000


@given(scenarios())
def test_text_objects_and_json_are_one(scenario: Scenario) -> None:
    text = render(scenario)
    assert parse(text) == scenario
    assert render(parse(text)) == text
    data = json.loads(json.dumps(scenario_to_dict(scenario)))
    assert scenario_from_dict(data) == scenario
    assert fingerprint(parse(text.replace(" | ", "\n|\n"))) == fingerprint(scenario)


@given(specs(), st.data())
def test_a_given_spec_is_kept(spec: Spec, data: st.DataObject) -> None:
    assert data.draw(scenarios(spec=spec, max_requests=1, held=False)).spec == spec


@settings(suppress_health_check=list(HealthCheck))
@given(st.text(alphabet="abk4p12| ,:+/hitendchuksel", max_size=60))
def test_any_text_parses_or_is_refused_in_one_line(text: str) -> None:
    try:
        scenario = parse(text)
    except UsageError as error:
        assert "\n" not in str(error)
    else:
        assert parse(render(scenario)) == scenario


def test_hypothesis_shrinks_to_the_simplest() -> None:
    def decodes(scenario: Scenario) -> bool:
        return any(isinstance(event, Decode) for event in scenario.events)

    quiet = settings(max_examples=2000, derandomize=True, database=None, deadline=None)
    smallest = find(scenarios(), decodes, settings=quiet)
    assert smallest.events == (Admit("a", 1), Decode((("a", 1),)))


# -- the shrinker ------------------------------------------------------------------------------------------------------


def accept_then_one(scenario: Scenario) -> bool:
    """Some request accepts 3 or more, later 1: the shape of a stale entry."""
    for name in requests(scenario):
        rows = [row for event in scenario.events if isinstance(event, Decode) for row in event.rows]
        accepts = [accept for other, accept in rows if other == name]
        if any(accept >= 3 and 1 in accepts[i + 1 :] for i, accept in enumerate(accepts)):
            return True
    return False


def reused_slot(scenario: Scenario) -> bool:
    """A padded round holds a short prompt in a slot that another request had."""
    short: set[str] = set()
    ended = False
    for event in scenario.events:
        ended = ended or isinstance(event, Finish)
        if isinstance(event, Admit) and ended and event.prompt < scenario.spec.k:
            short.add(event.name)
        names = {name for name, _ in event.rows} if isinstance(event, Decode) else set()
        if isinstance(event, Decode) and short & names and (event.bucket or 0) > len(names):
            return True
    return False


def hit_across_groups(scenario: Scenario) -> bool:
    """A hit of a page or more with two cache groups, and then an accept of 2."""
    spec, served = scenario.spec, set()
    for event in scenario.events:
        if isinstance(event, Admit) and event.like and event.like[1] - spec.steps >= spec.groups[0].page_size:
            served |= {event.name} if len(spec.groups) > 1 else set()
        if isinstance(event, Decode) and any(name in served and accept >= 2 for name, accept in event.rows):
            return True
    return False


def batched_chunks(scenario: Scenario) -> bool:
    """Two requests share an EXTEND round and later a decode round."""
    shared = False
    for event in scenario.events:
        shared = shared or (isinstance(event, Extend) and len(event.names) > 1)
        if shared and isinstance(event, Decode) and len(event.rows) > 1:
            return True
    return False


@pytest.mark.parametrize(
    ("fails", "events"), [(accept_then_one, 3), (reused_slot, 4), (hit_across_groups, 3), (batched_chunks, 4)]
)
def test_long_scenarios_shrink_to_a_handful(fails: Predicate, events: int) -> None:
    limits = Limits(max_requests=6, max_rounds=40)
    stream = (random_scenario(5, index, limits) for index in range(2000))
    for scenario in [s for s in stream if len(s.events) >= 25 and fails(s)][:8]:
        asked: list[Scenario] = []
        small = shrink(scenario, recorder(fails, asked))
        assert fails(small) and len(small.events) <= events, render(small)
        assert len(asked) < 300 and len(set(asked)) == len(asked)
        assert shrink(scenario, fails) == small, "not deterministic"
        assert all(parse(render(candidate)) == candidate for candidate in asked), "a candidate is not legal"


def recorder(fails: Predicate, asked: list[Scenario]) -> Predicate:
    def ask(scenario: Scenario) -> bool:
        validate(scenario)
        asked.append(scenario)
        return fails(scenario)

    return ask


def test_the_shrunk_text_is_the_plainest() -> None:
    text = (
        "k6 steps4 page8,4w9 W3 target H16 slots3 | x: p7 chunks 3,4 held | y: p9 | +x | +x | y2 x4 /4, x2, y1 x1 "
        "| end y | z: p14 hit y 11 chunks 7,7 | z5 x3 /3, x2 z1"
    )
    assert render(shrink(parse(text), accept_then_one)) == "k3 W1 | a: p1 | a3, a1"


def test_a_scenario_that_cannot_shrink_comes_back() -> None:
    scenario = random_scenario(5, 1)
    assert shrink(scenario, lambda _: False) == scenario


def test_time_runs_out() -> None:
    scenario = random_scenario(5, 1)
    assert shrink(scenario, lambda _: True, max_seconds=0.0) == scenario


@given(scenarios(max_requests=4), st.integers(0, 2**32))
def test_every_candidate_is_legal(scenario: Scenario, salt: int) -> None:
    def sometimes(candidate: Scenario) -> bool:
        validate(candidate)
        return int(fingerprint(candidate), 16) % 7 <= salt % 7

    validate(shrink(scenario, sometimes, max_seconds=5.0))
