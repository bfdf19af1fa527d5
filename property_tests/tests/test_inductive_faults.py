"""Planted faults, stray writes and broken contracts: the inductive step alone catches them, each by what it hurts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from frontier_oracle.oracle.bulk import Observed
from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel
from frontier_oracle.oracle.inductive import cases_of
from frontier_oracle.oracle.inductive_judge import judge_step
from frontier_oracle.oracle.inductive_state import InductiveStep
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.gate.system import resolve
from frontier_oracle.property_tests.inductive import inductive_check
from frontier_oracle.property_tests.inductive_step import run_inductive
from frontier_oracle.property_tests.shield import AdapterError
from frontier_oracle.reference_impl import frontier, window
from frontier_oracle.reference_impl.frontier import Frontier

NATURAL = Spec(4, groups=(CacheGroup(4), CacheGroup(4, 4)))
MANY = Spec(3, 3, "target", 3, (CacheGroup(2, 3), CacheGroup(3)))


class WindowOffByOne(Frontier):
    def window_source_rows(self, accept_lengths: Tensor) -> Tensor:
        return (super().window_source_rows(accept_lengths) + 1).clamp(max=2 * self.k - 2)


class StashRolledByK(Frontier):
    def next_stash(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return ids[:, 1:].roll(-self.k, dims=1), hidden[:, 1:].roll(-self.k, dims=1)


class StashNotRolled(Frontier):
    def next_stash(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return ids[:, :-1], hidden[:, :-1]


class SpliceAtAccept(Frontier):
    def append_draft(self, buffer: Tensor, depth: int, tokens: Tensor) -> None:
        if depth + 1 < self.steps:
            buffer[:, self.k + depth + 1] = tokens


class OldLocations(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        self._old = batch.seq_lens
        return super().decode(batch)

    def window_write_positions(self, frontier: Tensor) -> Tensor:
        return self.window_positions(self._old)


class ValidIgnored(Frontier):
    def window_valid(self, slots: Tensor, source: Tensor, positions: Tensor) -> Tensor:
        return (positions >= 0) & (slots > 0)[:, None]


class OldSeqLens(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        self._old = batch.seq_lens
        return super().decode(batch)

    def window_seq_lens(self, frontier: Tensor) -> Tensor:
        return self._old


class WrongModulo(Frontier):
    def write_locations(
        self, page_table: tuple[Tensor, ...], request: Tensor, positions: Tensor, valid: Tensor
    ) -> tuple[Tensor, ...]:
        """A ring of pages one column too short."""
        short = tuple(
            t[:, : t.shape[1] - (g.window is not None)] for t, g in zip(page_table, self.spec.groups, strict=True)
        )
        return super().write_locations(short, request, positions, valid)


class SampleAcceptRow(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        self._accept = batch.accept_lengths
        return super().decode(batch)

    def sample_rows(self, bs: int) -> Tensor:
        return torch.arange(bs, dtype=torch.int32) * self.k + self._accept - 1


class ColumnZeroOfFirst(Frontier):
    def column0(self, verify_ids: Tensor, accept_lengths: Tensor) -> Tensor:
        return verify_ids[:, 0]


class OldPositions(Frontier):
    def window_positions(self, frontier: Tensor) -> Tensor:
        return super().window_positions(frontier) + (frontier > 90)[:, None]


class DraftLost(Frontier):
    def depth_ids(self, buffer: Tensor, depth: int) -> Tensor:
        return super().depth_ids(buffer, max(0, depth - 1) if depth == self.steps - 1 else depth)


class TargetHidden(Frontier):
    def depth_hidden(self, depth: int, target: Tensor, previous: Tensor) -> Tensor:
        return target


class ValidNotGrown(Frontier):
    def next_valid_lens(self, slots: Tensor, advance: Tensor) -> Tensor:
        return self._stash.valid_lens[slots]


class IntoNeighbour(Frontier):
    """Every request's stash is read from the next one's slot."""

    def window_ids(self, slots: Tensor, verify_ids: Tensor, source: Tensor) -> Tensor:
        return window.gather_history(self._stash.tokens[slots.roll(1)], verify_ids, source)


MUTANTS = [
    (WindowOffByOne, "KV of depth 0"),
    (StashRolledByK, "stash"),
    (StashNotRolled, "stash"),
    (SpliceAtAccept, "KV of depth 1"),
    (OldLocations, "KV of depth 0"),
    (ValidIgnored, "shared page"),
    (OldSeqLens, "KV of depth 0"),
    (WrongModulo, "KV of depth 1"),
    (SampleAcceptRow, "a draft differs"),
    (ColumnZeroOfFirst, "column 0"),
    (OldPositions, "KV of depth 0"),
    (DraftLost, "KV of depth 2"),
    (TargetHidden, "KV of depth 1"),
    (ValidNotGrown, "valid length"),
    (IntoNeighbour, "KV of depth 0"),
]


@pytest.mark.parametrize(("mutant", "what"), MUTANTS, ids=[m.__name__ for m, _ in MUTANTS])
def test_a_planted_fault_breaks_the_step(mutant: type[Frontier], what: str) -> None:
    failures = run_inductive(mutant, NATURAL, batch=4096).failures
    assert any(what in told for *_, told in failures), failures[:5]


def test_a_ring_two_rows_short_breaks_the_step() -> None:
    failures = run_inductive(frontier.make, NATURAL, ring_rows=NATURAL.ring_rows - 2).failures
    assert failures and all(f >= 1 for _, _, f, _ in failures)


# ---- writes where nobody looks --------------------------------------------------------------------------------------


def stray(hurt: Callable[[Frontier, Any], None]) -> Callable[[DraftConfig, DraftModel], Frontier]:
    """A system that does its work and then hurts something."""

    class Stray(Frontier):
        def decode(self, batch: DecodeBatch) -> Tensor:
            result = super().decode(batch)
            hurt(self, batch)
            return result

    return Stray


def free_cell(system: Frontier, batch: DecodeBatch) -> None:
    used = {0, *batch.page_table[0].unique().tolist()}
    page = min(set(range(system.config.num_pages[0])) - used)
    system.model.kv[0][page * 4] += 1


def null_cell(system: Frontier, batch: DecodeBatch) -> None:
    system.model.kv[1][2] += 1


def idle_ring(system: Frontier, batch: DecodeBatch) -> None:
    system.model.ring[1, _idle(system, batch), 3] += 1


def idle_stash(system: Frontier, batch: DecodeBatch) -> None:
    system._stash.tokens[_idle(system, batch), 0] += 1


def idle_valid(system: Frontier, batch: DecodeBatch) -> None:
    system._stash.valid_lens[_idle(system, batch)] = 0


def _idle(system: Frontier, batch: DecodeBatch) -> int:
    (slot,) = set(range(system.config.num_slots)) - {0, *batch.req_pool_indices.tolist()}
    return int(slot)


def old_cell(system: Frontier, batch: DecodeBatch) -> None:
    row = int(batch.seq_lens.argmax())
    system.model.kv[0][int(batch.page_table[0][row, 0]) * 4] += 1


def cell_behind_the_verify_window(system: Frontier, batch: DecodeBatch) -> None:
    f = int(batch.seq_lens[0])
    end = f + system.k
    if end % 4:
        system.model.kv[0][int(batch.page_table[0][0, end // 4]) * 4 + end % 4] += 1


def old_checkpoint(system: Frontier, batch: DecodeBatch) -> None:
    row = int(batch.seq_lens.argmax())
    system.model.ckpt[0, int(batch.page_table[0][row, 0])] += 1


@pytest.mark.parametrize(
    ("hurt", "what", "named"),
    [
        (free_cell, "KV of depth 0, no one's cell", False),
        (null_cell, "KV of depth 1, no one's cell", False),
        (idle_ring, "conv ring of depth 1, slot", False),
        (idle_stash, "stash of a slot that no one", False),
        (idle_valid, "stash of a slot that no one", False),
        (old_cell, "KV of depth 0", True),
        (cell_behind_the_verify_window, "KV of depth 0, position", True),
        (old_checkpoint, "checkpoint of depth 0", True),
    ],
)
def test_a_stray_write_is_seen(hurt: Callable[[Frontier, Any], None], what: str, named: bool) -> None:
    failures = run_inductive(stray(hurt), NATURAL, batch=300).failures
    assert failures and all(what in told and (f > 0) == named for _, _, f, told in failures), failures[:3]


def test_garbage_in_the_case_s_own_verify_window_is_allowed() -> None:
    """A verify-anchored design leaves rows past the accepted prefix (S3)."""
    (cases,) = cases_of(NATURAL).batches(1 << 30)
    step = InductiveStep(NATURAL, cases)
    drafts = np.zeros((len(cases), 3), dtype=np.int64)
    image, own = step.expected(drafts)
    positions = np.arange(step.layout.max_positions)
    past = (positions >= step.now[:, None]) & (positions < cases.frontier[:, None] + 4)
    for depth in range(3):
        image.kv[depth][step.layout.cells(NATURAL.group_of(depth), positions)[past]] = 7
    again = InductiveStep(NATURAL, cases)
    returned = np.concatenate([again.after[np.arange(len(cases)), again.now][:, None], drafts], axis=1)
    told = judge_step(again, Observed(returned, image.kv, image.ring, image.ckpt))
    assert {what for _, what in told} <= {"a draft differs from the ideal's"}


# ---- what a system may do wrong about the contract ------------------------------------------------------------------


class NoLoading(Frontier):
    capabilities = frozenset({"extend", "stash"})


class Unpadded(Frontier):
    capabilities = frozenset({"extend", "stash", "load_stash"})

    def decode(self, batch: DecodeBatch) -> Tensor:
        assert bool((batch.req_pool_indices > 0).all()) and len(batch.hidden) == len(batch.seq_lens) * self.k
        return super().decode(batch)


class Long(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        return super().decode(batch).long()


class Raises(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        raise RuntimeError("no")


def test_a_system_that_cannot_load_a_stash_is_skipped_not_passed() -> None:
    result = run_inductive(NoLoading, MANY)
    assert result.cases == 0 and result.skipped == "the system has no load_stash"


def test_a_system_without_padding_gets_no_padded_rows() -> None:
    assert run_inductive(Unpadded, MANY).failures == []


def test_a_wrong_result_is_told_once() -> None:
    (failure,) = run_inductive(Long, MANY, batch=4096).failures
    assert failure[:3] == (0, 0, 0) and "int64" in failure[3]


def test_a_system_that_raises_is_the_adapter_s_fault() -> None:
    with pytest.raises(AdapterError, match="RuntimeError: no"):
        run_inductive(Raises, MANY)


@pytest.mark.parametrize(
    ("make", "code"),
    [("StashNotRolled", "FO206"), ("ValidIgnored", "FO209"), ("Long", "FO401")],
)
def test_a_failing_case_becomes_a_finding(make: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frontier_oracle.property_tests.inductive.inductive_specs", lambda profile: [NATURAL])
    monkeypatch.setattr("frontier_oracle.property_tests.gate.judged.SHRINK_SECONDS", 1.0)
    system = resolve(f"{__name__}:{make}")
    result, _ = inductive_check(system, "dev")
    assert result.failed and code in {finding.code for finding in result.findings}, result.findings
