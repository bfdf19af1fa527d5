"""The state machine finds nothing in a drafter that keeps its books, and each planted fault by its own exception."""

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from frontier_oracle.oracle.designs import DESIGNS
from frontier_oracle.oracle.engine_requests import room_of
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.rules import RULES, Divergence
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.oracle.timeline import Timeline
from frontier_oracle.property_tests.drawing import EVERYTHING, SERVING
from frontier_oracle.property_tests.driver import TorchDrafter, run_scenario
from frontier_oracle.property_tests.machine import DrafterMachine, Engine, machine_for
from frontier_oracle.property_tests.mutants.planting import BASES, FRONTIER, TOKENSPEED
from frontier_oracle.property_tests.mutants.pointed import pointed
from frontier_oracle.property_tests.mutants.survey import mutant_of
from frontier_oracle.reference_impl.generic import minimal

QUIET = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
FEWER = settings(QUIET, max_examples=10)
# One fault of each kind: ids, hiddens, place, extent, padding, stash, slot, ring, shared page, contract.
KINDS = (
    "ids_at_accept",
    "hidden_row_before",
    "locations_of_old_frontier",
    "seq_lens_not_reanchored",
    "padded_conv_slot_1",
    "stash_written_by_row",
    "slot_not_reset",
    "no_rerun",
    "first_chunk_row_dropped",
    "drafts_of_bigger_batch",
    "int64_result",
    "media_ids_kept",
    "lookahead_not_in_vocabulary",
)


ALL = EVERYTHING - SERVING


def machine(base: str) -> type[DrafterMachine]:
    system, design = BASES[base], DESIGNS[base]
    return machine_for(system, system.prefix_policy, design, frozenset() if design.deviations else ALL)


def test_the_generic_drafter_shows_nothing() -> None:
    run_state_machine_as_test(machine_for(minimal, "successor", DESIGNS["minimal"], ALL), settings=FEWER)


def test_it_draws_media_and_fills_a_context() -> None:
    """Rules draw them, and a run with either is as long as one without."""
    seen: set[str] = set()

    class Noting(machine(FRONTIER)):  # type: ignore[misc]
        def play(self, event, kept=False):
            super().play(event, kept)
            seen.update({"media"} if getattr(event, "media", ()) else ())
            full = self.books.context and any(self.books.full(r) for r in self.books.requests.values())
            seen.update({"context"} if full else ())

    run_state_machine_as_test(Noting, settings=FEWER)
    assert seen == {"media", "context"}


@pytest.mark.parametrize("base", list(BASES))
def test_a_system_shows_what_its_design_declares_and_nothing_else(base: str) -> None:
    run_state_machine_as_test(machine(base), settings=QUIET)


def failure(faulty: type[DrafterMachine], *more: Phase) -> Divergence:
    with pytest.raises(Divergence) as caught:
        run_state_machine_as_test(faulty, settings=settings(QUIET, max_examples=300, phases=(Phase.generate, *more)))
    return caught.value


def faulty_machine(mutant_id: str, base: str = FRONTIER) -> type[DrafterMachine]:
    mutant = mutant_of(mutant_id)
    return machine_for(
        mutant.factory(base), mutant.policy(base), DESIGNS[base], ALL if base == FRONTIER else frozenset()
    )


def scenario_of(error: Divergence) -> Scenario:
    text = re.search(r"^scenario: (.*)$", str(error), re.MULTILINE)
    assert text is not None
    return parse(text.group(1))


@pytest.mark.parametrize("mutant_id", KINDS)
def test_a_planted_fault_is_raised_as_its_own_rule_and_its_text_replays_it(mutant_id: str) -> None:
    mutant, error = mutant_of(mutant_id), failure(faulty_machine(mutant_id))
    assert type(error) is RULES[mutant.code]
    replayed = run_scenario(mutant.factory(FRONTIER), scenario_of(error), mutant.policy(FRONTIER), stop_at_first=True)
    assert replayed.findings[0].key == error.finding.key


def test_what_it_finds_is_made_small() -> None:
    error = failure(faulty_machine("ids_at_accept"), Phase.shrink)
    assert [str(event) for event in scenario_of(error).events] == ["a: p1", "a1"]


def test_a_fault_shows_among_declared_deviations() -> None:
    error = failure(faulty_machine("hidden_at_accept", TOKENSPEED))
    assert type(error) is RULES["FO102"]


def test_deviations_that_nobody_declared_are_found() -> None:
    system = BASES[TOKENSPEED]
    error = failure(machine_for(system, system.prefix_policy))
    replayed = run_scenario(system, scenario_of(error), system.prefix_policy, stop_at_first=True)
    assert replayed.findings[0].key == error.finding.key


def test_a_declared_deviation_that_stays_away_is_raised() -> None:
    """The exact drafter does not do what the published design declares of itself."""
    error = failure(machine_for(BASES[FRONTIER], "tokens", DESIGNS[TOKENSPEED]))
    assert "declared, but it did not happen" in str(error)


@pytest.mark.parametrize("scenario", pointed(), ids=render)
def test_events_one_by_one_are_judged_as_the_whole_scenario_is(scenario: Scenario) -> None:
    own = room_of(scenario)
    room = replace(own, requests=max(6, own.requests), positions=max(60, own.positions), batch=max(6, own.batch))
    timeline = Timeline.open(scenario.spec, room, "tokens")
    engine = Engine(timeline, TorchDrafter(BASES[TOKENSPEED], timeline.config(), guard=False))
    found = []
    for event in scenario.events:
        found += engine.advance(event, kept=False)
    whole = run_scenario(BASES[TOKENSPEED], scenario, "tokens", guard=False)
    assert [f.key for f in found] == [f.key for f in whole.findings]
