"""Every declaration runs twice, index by index and on tensors, and both show the same; ours are exact on anything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from frontier_oracle.oracle.design_engine import scenario_for
from frontier_oracle.oracle.designs import DESIGNS, FRONTIER, MINIMAL, Design
from frontier_oracle.oracle.deviations import compare, predict
from frontier_oracle.oracle.executor import spec_for
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.bulk import run_bulk
from frontier_oracle.property_tests.drawing import EVERYTHING, Limits, random_scenario
from frontier_oracle.property_tests.driver import run_scenario
from frontier_oracle.reference_impl.generic import maker

# Rows of lightllm_vanilla read their own argmax; the contract's draft model reports the sampled rows' only.
ON_TENSORS = [design for design in DESIGNS.values() if design.tokens != "own_argmax"]


# What random scenarios seldom have: a slot's former owner, then a hit with one token behind it.
SHORT_CHUNK_BEHIND_A_HIT = "k4 page4 | a: p12 | z: p12 | end z | b: p9 hit a 8 | b1, b1, b2"


def drawn(design: Design, seed: int, index: int) -> Scenario:
    """A random scenario with every serving event; the context's end only for designs that keep to the pad (S22)."""
    events = EVERYTHING - {"context"} if design.deviations else EVERYTHING
    return scenario_for(design, random_scenario(seed, index, Limits(max_requests=4, events=events)))


def hold_equal(design: Design, seed: int, count: int) -> set[str]:
    """Tensors against indices: set equality of findings and cause entries, the same drafts off. Returns the deviations
    seen."""
    seen: set[str] = set()
    rare = scenario_for(design, parse(SHORT_CHUNK_BEHIND_A_HIT))
    for scenario in (rare, *(drawn(design, seed, index) for index in range(count))):
        prediction = predict(design, scenario)
        seen |= prediction.seen
        outcome = run_scenario(maker(design), scenario, design.prefix_policy, guard=False)
        assert compare(outcome, prediction).equal, scenario
        pairs = zip(outcome.verdicts, prediction.outcome.verdicts, strict=True)
        assert all(tensors.drafts_equal == indices.drafts_equal for tensors, indices in pairs), scenario
    return seen


@pytest.mark.parametrize("design", ON_TENSORS, ids=lambda design: design.name)
def test_tensors_show_what_the_declaration_predicts(design: Design) -> None:
    assert hold_equal(design, 31, 6) <= {deviation.id for deviation in design.deviations}


@pytest.mark.slow
@pytest.mark.parametrize("design", ON_TENSORS, ids=lambda design: design.name)
def test_the_deviations_declared_are_those_seen(design: Design) -> None:
    assert hold_equal(design, 33, 150) == {deviation.id for deviation in design.deviations}


@pytest.mark.slow
def test_the_deviations_declared_are_those_seen_without_tensors() -> None:
    """lightllm_vanilla, whose rows the contract's draft model does not serve."""
    design = DESIGNS["lightllm_vanilla"]
    seen = set().union(*(predict(design, drawn(design, 33, index)).seen for index in range(150)))
    assert seen == {deviation.id for deviation in design.deviations}


@pytest.mark.parametrize("design", [FRONTIER, MINIMAL], ids=lambda design: design.name)
def test_ours_are_exact_on_random_scenarios(design: Design) -> None:
    for index in range(40):
        prediction = predict(design, drawn(design, 32, index))
        assert not prediction.outcome.findings, prediction.outcome.scenario


@pytest.mark.parametrize("k", [3, 4])
@pytest.mark.parametrize("name", ["tokenspeed_lookback", "sglang_boundary_fix", "vllm_multi_module", "minimal"])
def test_sound_designs_on_tensors_over_all_accept_sequences(name: str, k: int) -> None:
    """Every cell, every draft, as one batch: lookback and frontier draft the same (S11)."""
    design = DESIGNS[name]
    accepts = np.array(list(itertools.product(range(1, k + 1), repeat=4)))
    result = run_bulk(maker(design), spec_for(design, Spec(k)), accepts)
    assert not result.failures and result.request_rounds >= 4 * k**4
