"""The base of the induction and the evidence for obliviousness, and both as checks of the gate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, ForwardInputs
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.oracle.timeline import Adopted, Timeline
from frontier_oracle.property_tests.gate.system import resolve
from frontier_oracle.property_tests.inductive import base_check, inductive_check
from frontier_oracle.property_tests.inductive_base import base_scenarios, compositions, prefix_hits, resumes, run_base
from frontier_oracle.property_tests.inductive_step import run_inductive
from frontier_oracle.property_tests.oblivious import run_oblivious
from frontier_oracle.reference_impl import frontier, tokenspeed
from frontier_oracle.reference_impl.frontier import Frontier

NATURAL = Spec(4, groups=(CacheGroup(4), CacheGroup(4, 4)))
MANY = Spec(3, 3, "target", 3, (CacheGroup(2, 3), CacheGroup(3)))
SMALL = (Spec(3, groups=(CacheGroup(3),)),)


# ---- obliviousness --------------------------------------------------------------------------------------------------


class Parity(Frontier):
    """Masked rows point at another null cell for odd tokens: nothing it does is wrong, but it looks at tokens."""

    def write_locations(
        self, page_table: tuple[Tensor, ...], request: Tensor, positions: Tensor, valid: Tensor
    ) -> tuple[Tensor, ...]:
        locs = super().write_locations(page_table, request, positions, valid)
        odd = (self._verified[:, :1] & 1).to(torch.int32)
        return tuple(torch.where(valid, loc, odd) for loc in locs)

    def decode(self, batch: DecodeBatch) -> Tensor:
        self._verified = batch.verify_ids
        return super().decode(batch)


class ParityIds(Frontier):
    """Swaps the last two ids of depth 1 where the last is odd."""

    def depth_ids(self, buffer: Tensor, depth: int) -> Tensor:
        ids = super().depth_ids(buffer, depth)
        swapped = torch.cat([ids[:, :-2], ids[:, -1:], ids[:, -2:-1]], dim=1)
        return torch.where((ids[:, -1:] & 1).bool(), swapped, ids) if depth == 1 else ids


class OneMoreCall(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        self._verified = batch.verify_ids
        return super().decode(batch)

    def run_depths(self, first: ForwardInputs, depth_ids: Any, append: Any) -> Tensor:
        if int(self._verified[0, 0]) & 1:
            self.model.forward(first)
        return super().run_depths(first, depth_ids, append)


class NoLoading(Frontier):
    capabilities = frozenset({"extend", "stash"})


def test_relabelled_symbols_give_the_same_indices() -> None:
    for factory, domain in ((frontier.make, "full"), (tokenspeed.make, "declared")):
        result = run_oblivious(factory, domain, relabellings=2)
        assert result.failures == [] and result.cases > 100


def test_a_system_that_looks_at_tokens_is_not_oblivious() -> None:
    assert run_inductive(Parity, SMALL[0]).failures == []
    assert {code for code, _ in run_oblivious(Parity, specs=SMALL).failures} == {"FO104"}
    told = run_oblivious(ParityIds, specs=SMALL).failures
    assert ("FO101", "depth 1: an id is not the one at the same place under other symbols") in told
    assert {code for code, _ in run_oblivious(OneMoreCall, specs=SMALL, relabellings=6).failures} == {"FO401"}


def test_what_cannot_be_loaded_is_not_claimed_to_be_oblivious() -> None:
    assert run_oblivious(NoLoading, specs=SMALL).failures == [("FO401", "the system has no load_stash")]


def test_the_gate_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frontier_oracle.property_tests.inductive.inductive_specs", lambda profile: list(SMALL))
    result, _ = inductive_check(resolve(f"{__name__}:Parity"), "dev")
    assert [finding.code for finding in result.findings[:1]] == ["FO104"] and result.failed


# ---- the base -------------------------------------------------------------------------------------------------------


class ChunkForgets(Frontier):
    """A chunk's stash borrows nothing from the chunk before."""

    def extend_stash(self, tokens: Tensor, hidden: Tensor, layout: Any) -> tuple[Tensor, Tensor]:
        own = layout.tail_source.clamp(min=len(layout.ends) * (self.k - 1))
        return tokens[own], hidden[own]


class ValidNotGrown(Frontier):
    def next_valid_lens(self, slots: Tensor, advance: Tensor) -> Tensor:
        return self._stash.valid_lens[slots]


class SlotNotReset(Frontier):
    def reset_slot(self, slot: int | Tensor) -> None:
        pass


def test_compositions_are_all_of_them() -> None:
    assert sorted(compositions(3)) == [(1, 1, 1), (1, 2), (2, 1), (3,)]
    assert [len(compositions(n)) for n in range(1, 7)] == [1, 2, 4, 8, 16, 32]


def test_every_way_in_establishes_the_invariant() -> None:
    result = run_base(frontier.make, "successor", profile="dev")
    assert result.failures == [] and result.cases > 300 and "resumes" in result.statement


def test_hits_take_what_they_say() -> None:
    """Every page boundary up to the donor's, through the engine's own prefix cache."""
    for spec in (Spec(4, groups=(CacheGroup(2), CacheGroup(2, 3))), Spec(2, groups=(CacheGroup(2),))):
        for scenario, wanted in ((prefix_hits(spec), {2, 4, 6}), (resumes(spec), set(range(2, 9, 2)))):
            steps = _adopted(Timeline(scenario))
            admitted = sum(getattr(event, "like", None) is not None for event in scenario.events)
            assert len(steps) == admitted and {step.length for step in steps} >= wanted


def _adopted(timeline: Timeline) -> list[Adopted]:
    out = []
    for step in timeline.steps():
        if isinstance(step, Adopted):
            out.append(step)
        elif hasattr(step, "batch"):
            timeline.commit(step, np.zeros((len(step.batch.seq_lens), timeline.spec.steps + 1), dtype=np.int32))
    return out


@pytest.mark.parametrize("mutant", [ChunkForgets, SlotNotReset, ValidNotGrown])
def test_a_fault_in_extend_breaks_the_base(mutant: type[Frontier]) -> None:
    assert run_base(mutant, "successor", profile="dev").failures


def test_the_published_design_has_a_base_on_its_declared_domain_only() -> None:
    assert run_base(tokenspeed.make, "tokens", "declared").failures == []
    assert run_base(tokenspeed.make, "tokens", profile="dev").failures
    assert not any("hit" in str(event) for s in base_scenarios("full", False, "dev") for event in s.events)


# ---- as checks of the gate ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["frontier", "tokenspeed_frontier"])
def test_built_in_systems_pass_both_checks(name: str) -> None:
    system = resolve(name)
    for check in (inductive_check, base_check):
        result, seen = check(system, "dev")
        assert result.findings == () and result.cases > 0 and not result.skipped and not seen
        assert ("no prefix hit" in result.notes[0]) == (name == "tokenspeed_frontier")
