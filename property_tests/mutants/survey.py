"""Runs the planted faults until each is killed: by what, on which scenario, after how many request-rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

import torch

from frontier_oracle.oracle.designs import DESIGNS
from frontier_oracle.oracle.deviations import predict
from frontier_oracle.oracle.language import render
from frontier_oracle.oracle.play import play
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.oracle.timeline import Timeline
from frontier_oracle.property_tests.drawing import Limits, random_scenario
from frontier_oracle.property_tests.driver import TorchDrafter
from frontier_oracle.property_tests.gate.replays import replay_differs
from frontier_oracle.property_tests.gate.results import MutantResult
from frontier_oracle.property_tests.mutants import (  # noqa: F401
    capture_faults,
    chunk_faults,
    contract_faults,
    event_faults,
    place_faults,
    range_faults,
    state_faults,
    window_faults,
)
from frontier_oracle.property_tests.mutants.planting import FRONTIER, PLANTED, TOKENSPEED, Mutant
from frontier_oracle.property_tests.mutants.pointed import pointed, pointed_media
from frontier_oracle.property_tests.shield import AdapterError

RANDOM_SCENARIOS = 60
RAISED = "raised"


@cache
def cases() -> tuple[tuple[Mutant, str], ...]:
    """Every planted fault on every base it is a fault of; on captured graphs where there is a GPU."""
    every = ((mutant, base) for mutant in PLANTED.values() for base in mutant.bases)
    return tuple(case for case in every if case[1] != capture_faults.GRAPH or torch.cuda.is_available())


def mutant_of(id: str) -> Mutant:
    """The planted fault of that name."""
    return PLANTED[id]


def survey(seed: int, part: Sequence[int] | None = None) -> list[MutantResult]:
    """Kill all ``cases()``, or those whose indices are given. Deterministic from ``seed``."""
    every = cases()
    return [kill(*every[i], seed) for i in (range(len(every)) if part is None else part)]


def kill(mutant: Mutant, base: str, seed: int, limit: int = RANDOM_SCENARIOS) -> MutantResult:
    """Run a planted fault over the pointed scenarios, then over ``limit`` random ones, until a finding betrays it.

    The first finding decides, right or wrong; findings that the base's design declares do not count.
    """
    rounds = 0
    for scenario in _scenarios(seed, limit, base):
        found, run = first_finding(mutant, base, scenario)
        rounds += run
        if found:
            return MutantResult(mutant.id, base, mutant.code, found, render(scenario), rounds)
    return MutantResult(mutant.id, base, mutant.code, "", "", rounds)


def _scenarios(seed: int, limit: int, base: str) -> Iterator[Scenario]:
    yield from pointed()
    yield from pointed_media() if base == FRONTIER else ()
    for index in range(limit):
        yield random_scenario(seed, index, Limits())


def first_finding(mutant: Mutant, base: str, scenario: Scenario) -> tuple[str, int]:
    """(code of the first undeclared finding, request-rounds run); the code is "" if there is none, and "raised" when
    the faulty system raised. A captured system is first held to itself run eagerly."""
    declared = _declared(base, scenario)
    timeline = Timeline(scenario, mutant.policy(base))
    ring_rows = mutant.ring_rows(scenario.spec) if mutant.ring_rows else None
    eager, rounds = mutant.eager(base), 0
    try:
        if eager is not None:
            differs, rounds = replay_differs(mutant.factory(base), eager, scenario, mutant.policy(base))
            if differs is not None:
                return differs.code, rounds
        drafter = TorchDrafter(mutant.factory(base), timeline.config(), ring_rows, guard=mutant.guard)
        for step, _, verdict in play(timeline, drafter):
            rounds += len(step.views)
            undeclared: list[Finding] = [f for f in verdict.findings if f.key not in declared]
            if undeclared:
                return undeclared[0].code, rounds
    except AdapterError:
        return RAISED, rounds
    return "", rounds


@lru_cache(maxsize=256)
def _declared(base: str, scenario: Scenario) -> frozenset[tuple[str, int, str, int, int]]:
    """Keys of the findings that a base's design predicts of itself; none for exact ones."""
    if base != TOKENSPEED:
        return frozenset()
    return frozenset(f.key for f in predict(DESIGNS[base], scenario).outcome.findings)
