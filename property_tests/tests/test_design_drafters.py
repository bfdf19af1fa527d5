"""Every declaration runs twice, index by index and on tensors, and both show the same; ours are exact on anything."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from frontier_oracle.oracle.designs import DESIGNS, FRONTIER, MINIMAL, Design
from frontier_oracle.oracle.deviations import compare, predict
from frontier_oracle.oracle.executor import spec_for
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.bulk import run_bulk
from frontier_oracle.property_tests.drawing import random_scenario
from frontier_oracle.property_tests.driver import run_scenario
from frontier_oracle.reference_impl.generic import maker

# Rows of lightllm_vanilla read their own argmax; the contract's draft model reports the sampled rows' only.
ON_TENSORS = [design for design in DESIGNS.values() if design.tokens != "own_argmax"]


def fitted(design: Design, scenario: Scenario) -> Scenario:
    return replace(scenario, spec=spec_for(design, scenario.spec))


@pytest.mark.parametrize("design", ON_TENSORS, ids=lambda design: design.name)
def test_tensors_show_what_the_declaration_predicts(design: Design) -> None:
    """Set equality of findings and cause entries, and the same rounds with drafts that differ from the ideal's."""
    for index in range(8):
        scenario = fitted(design, random_scenario(31, index))
        prediction = predict(design, scenario)
        outcome = run_scenario(maker(design), scenario, design.prefix_policy, guard=False)
        assert compare(outcome, prediction).equal, scenario
        pairs = zip(outcome.verdicts, prediction.outcome.verdicts, strict=True)
        assert all(tensors.drafts_equal == indices.drafts_equal for tensors, indices in pairs), scenario


@pytest.mark.parametrize("design", [FRONTIER, MINIMAL], ids=lambda design: design.name)
def test_ours_are_exact_on_random_scenarios(design: Design) -> None:
    for index in range(40):
        prediction = predict(design, fitted(design, random_scenario(32, index)))
        assert not prediction.outcome.findings, prediction.outcome.scenario


@pytest.mark.parametrize("k", [3, 4])
@pytest.mark.parametrize("name", ["tokenspeed_lookback", "sglang_boundary_fix", "vllm_multi_module", "minimal"])
def test_sound_designs_on_tensors_over_all_accept_sequences(name: str, k: int) -> None:
    """Every cell, every draft, as one batch: lookback and frontier draft the same (S11)."""
    design = DESIGNS[name]
    accepts = np.array(list(itertools.product(range(1, k + 1), repeat=4)))
    result = run_bulk(maker(design), spec_for(design, Spec(k)), accepts)
    assert not result.failures and result.request_rounds >= 4 * k**4
