"""Bulk runs: exact systems pass whatever the layout; planted faults and stray writes are named, each by its cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from frontier_oracle.oracle.bulk import BulkLayout
from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.scenario import requests
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests import exhaustive
from frontier_oracle.property_tests.bench_oracle import bench
from frontier_oracle.property_tests.bulk import BulkResult, run_bulk
from frontier_oracle.property_tests.bulk_random import bulk_case, run_random
from frontier_oracle.property_tests.exhaustive import all_accepts, run_exhaustive
from frontier_oracle.property_tests.mutants.planting import FRONTIER
from frontier_oracle.property_tests.mutants.survey import mutant_of
from frontier_oracle.property_tests.probe import DigestProbe
from frontier_oracle.reference_impl import frontier, tokenspeed, window
from frontier_oracle.reference_impl.frontier import Frontier

Hurt = Callable[[DigestProbe, DecodeBatch], None]


def accepts(spec: Spec, batch: int, rounds: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, spec.max_accept + 1, (batch, rounds))


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        (Spec(4), {}),
        (Spec(2, conv_width=1), {"prompt": 1}),
        (Spec(4, ring_rows=16), {"prompt": 2, "pad_to": 40}),
        (Spec(3, 3, "target", 2, (CacheGroup(1, 1), CacheGroup(3))), {"prompt": 9, "chunks": [1] * 9}),
        (Spec(4, 2, groups=(CacheGroup(2), CacheGroup(4, 8))), {"prompt": 12, "chunks": [5, 5, 2], "hidden_size": 16}),
        (Spec(8, 7, groups=(CacheGroup(4, 5),)), {"prompt": 21, "chunks": [20, 1]}),
    ],
)
def test_frontier_is_exact(spec: Spec, options: dict[str, Any]) -> None:
    result = run_bulk(frontier.make, spec, accepts(spec, 32, 8), **options)
    assert result.failures == []
    assert result.request_rounds == 32 * 8


class OldLocations(Frontier):
    def window_write_positions(self, frontier: Tensor) -> Tensor:
        return super().window_write_positions(frontier) - 1


class OldPositions(Frontier):
    def window_positions(self, frontier: Tensor) -> Tensor:
        return super().window_positions(frontier) + 1


class StashNotRolled(Frontier):
    def next_stash(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return ids[:, :-1], hidden[:, :-1]


class AllValid(Frontier):
    def next_valid_lens(self, slots: Tensor, advance: Tensor) -> Tensor:
        return torch.full_like(super().next_valid_lens(slots, advance), self.k - 1)


class SampleFirst(Frontier):
    def sample_rows(self, bs: int) -> Tensor:
        return super().sample_rows(bs) - 1


class WrongColumn(Frontier):
    def column0(self, verify_ids: Tensor, accept_lengths: Tensor) -> Tensor:
        return verify_ids[:, 0]


class ShortExtent(Frontier):
    def window_seq_lens(self, frontier: Tensor) -> Tensor:
        return frontier - 1


class OneDraftLate(Frontier):
    def window_source_rows(self, accept_lengths: Tensor) -> Tensor:
        return window.source_rows((accept_lengths - 1).clamp(min=1), self.k)


@pytest.mark.parametrize(
    ("mutant", "what"),
    [
        (OldLocations, "draft differs"),
        (OldPositions, "draft differs"),
        (StashNotRolled, "stash"),
        (AllValid, "valid length"),
        (SampleFirst, "draft differs"),
        (WrongColumn, "column 0"),
        (ShortExtent, "draft differs"),
        (OneDraftLate, "draft differs"),
    ],
)
def test_planted_faults_are_found(mutant: type[Frontier], what: str) -> None:
    spec = Spec(4)
    result = run_bulk(mutant, spec, accepts(spec, 16, 4), prompt=2)
    assert result.failures
    assert what in result.failures[0][2]


def hurting(hurt: Hurt) -> Callable[[DraftConfig, DigestProbe], Frontier]:
    """An exact system that does ``hurt`` to the probe's cells after every decode round."""

    class Hurting(Frontier):
        def decode(self, batch: DecodeBatch) -> Tensor:
            result = super().decode(batch)
            hurt(self.model, batch)
            return result

    return Hurting


def run_hurt(hurt: Hurt, spec: Spec | None = None) -> BulkResult:
    spec = spec or Spec(4, groups=(CacheGroup(4),))
    return run_bulk(hurting(hurt), spec, np.full((3, 2), 2), prompt=9)


def cell(batch: DecodeBatch, request: int, position: int) -> int:
    """The cell of a position in group 0, pages of 4."""
    return int(batch.page_table[0][request, position // 4]) * 4 + position % 4


def test_one_changed_cell_is_named() -> None:
    def hurt(probe: DigestProbe, batch: DecodeBatch) -> None:
        probe.kv[2][cell(batch, 1, 3)] += 1

    assert run_hurt(hurt).failures == [(1, 1, "KV of depth 2, position 3")]


def test_garbage_beyond_the_frontier_is_tolerated() -> None:
    def hurt(probe: DigestProbe, batch: DecodeBatch) -> None:
        frontier = int(batch.seq_lens[1] + batch.accept_lengths[1])
        probe.kv[2][cell(batch, 1, frontier)] += 1
        slot = int(batch.req_pool_indices[1])
        probe.ring[1, slot, frontier % probe.ring_rows] += 1

    assert run_hurt(hurt).failures == []


def test_null_page_and_slot_zero_belong_to_nobody() -> None:
    def page(probe: DigestProbe, batch: DecodeBatch) -> None:
        probe.kv[0][1] += 1

    def slot(probe: DigestProbe, batch: DecodeBatch) -> None:
        probe.ring[2, 0, 0] += 1

    assert run_hurt(page).failures == [(-1, 1, "KV of depth 0, nobody's cell")]
    assert run_hurt(slot).failures == [(-1, 1, "conv ring of depth 2, nobody's cell")]


def test_live_ring_rows_and_checkpoints_are_compared() -> None:
    def ring(probe: DigestProbe, batch: DecodeBatch) -> None:
        # C = 11 of W=4, k=4: rows 5..10 are live.
        probe.ring[0, int(batch.req_pool_indices[2]), 5 % probe.ring_rows] += 1

    def checkpoint(probe: DigestProbe, batch: DecodeBatch) -> None:
        probe.ckpt[1, int(batch.page_table[0][0, 1]), 0] += 1

    assert run_hurt(ring).failures[0] == (2, 1, "conv ring of depth 0, position 5")
    assert run_hurt(checkpoint).failures == [(0, 1, "checkpoint of depth 1, position 7")]


def test_dead_cells_of_a_window_may_hold_garbage_live_ones_not() -> None:
    """k=4, window 4: rows from C+1-k on will read positions from C+2-k-4 on, C-6 here."""

    def at(behind: int) -> Hurt:
        def hurt(probe: DigestProbe, batch: DecodeBatch) -> None:
            position = int(batch.seq_lens[0] + batch.accept_lengths[0]) - behind
            column = position // 4 % batch.page_table[0].shape[1]
            probe.kv[0][int(batch.page_table[0][0, column]) * 4 + position % 4] += 1

        return hurt

    spec = Spec(4, groups=(CacheGroup(4, 4),))
    assert run_hurt(at(7), spec).failures == []
    assert run_hurt(at(6), spec).failures == [(0, 1, "KV of depth 0, position 5")]


def test_published_design_fails_at_the_chunk_tail() -> None:
    """SEMANTICS section 9: chunks 5+5+2 leave (1,4) stale in the first round, and bulk says so of every request."""
    spec = Spec(4)
    result = run_bulk(tokenspeed.make, spec, accepts(spec, 16, 4), prompt=12, chunks=[5, 5, 2])
    assert result.failures == [(request, 0, "KV of depth 1, position 4") for request in range(16)]
    assert run_bulk(tokenspeed.make, spec, accepts(spec, 16, 4), prompt=12).failures == []


def test_collecting_stops_at_twenty() -> None:
    spec = Spec(4)
    result = run_bulk(tokenspeed.make, spec, accepts(spec, 64, 4), prompt=12, chunks=[5, 5, 2])
    assert len(result.failures) >= 20
    assert {number for _, number, _ in result.failures} == {0}


def test_wrong_dtype_is_the_systems_fault() -> None:
    class Wide(Frontier):
        def decode(self, batch: DecodeBatch) -> Tensor:
            return super().decode(batch).long()

    result = run_bulk(Wide, Spec(4), np.ones((2, 2), dtype=np.int64))
    assert result.failures == [(-1, 1, "returned int64 [2, 4], expected int32 [2, 4]")]


def test_exhaustive_is_every_sequence_once() -> None:
    sequences = all_accepts(3, 4)
    assert len(np.unique(sequences, axis=0)) == 81 and sequences.min() == 1 and sequences.max() == 3
    result = run_exhaustive(frontier.make, Spec(3), rounds=4, prompt=5)
    assert result.failures == [] and result.request_rounds == 81 * 4


def test_exhaustive_numbers_requests_over_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant goes wrong at the first accept above 1: every sequence but (1, 1, 1), in both batches of four."""
    monkeypatch.setattr(exhaustive, "BATCH", 4)
    result = run_exhaustive(OneDraftLate, Spec(2), rounds=3, prompt=4)
    assert sorted(request for request, _, _ in result.failures) == [1, 2, 3, 4, 5, 6, 7]
    assert result.request_rounds == 8 * 3


def test_layout_gives_every_request_its_own_pages_and_slot() -> None:
    layout = BulkLayout(Spec(4, groups=(CacheGroup(4), CacheGroup(2, 3))), 5, 30, seed=3)
    for table, pages in zip(layout.tables, layout.num_pages, strict=True):
        assert sorted(table.ravel()) == list(range(1, pages))
    assert sorted(layout.slots) == [1, 2, 3, 4, 5]


def test_random_runs_are_exact_and_repeatable() -> None:
    result = run_random(frontier.make, 2000, seed=5, batch=32)
    assert result.failures == [] and result.request_rounds >= 2000
    again = bulk_case(5, 3, 32)
    assert np.array_equal(again.accepts, bulk_case(5, 3, 32).accepts)
    assert bulk_case(6, 3, 32).seed != again.seed


def test_long_contexts_come_early_and_far_ones_to_long_runs() -> None:
    early, far = bulk_case(0, 1), bulk_case(0, 40)
    assert early.prompt > 300 and len(early.accepts) <= 16 and far.prompt > 32_760 and len(far.accepts) <= 2
    for case in (early, bulk_case(0, 1, one_shot=True), far):
        assert sum(case.chunks) == case.prompt
        run = run_bulk(
            frontier.make,
            case.spec,
            case.accepts,
            case.prompt,
            case.chunks,
            case.hidden_size,
            case.pad_to,
            1,
            case.seed,
        )
        assert run.failures == []
    sizes = {group.page_size for index in range(8) for group in bulk_case(0, index).spec.groups}
    assert {1, 4, 16, 32, 64} <= sizes


def test_positions_in_a_byte_fail_in_bulk_and_come_back_as_a_scenario() -> None:
    result = run_random(mutant_of("positions_in_a_byte").system(FRONTIER), 10**4, seed=2, batch=16)
    assert result.failures and {failure.case % 8 for failure in result.failures} == {1}
    assert max(request.prompt for request in requests(parse(result.failures[0].text)).values()) > 300


def test_a_failing_request_comes_back_as_a_scenario() -> None:
    result = run_random(StashNotRolled, 10**6, seed=1, batch=16)
    failure = result.failures[0]
    case = bulk_case(1, failure.case, 16)
    scenario = parse(failure.text)
    assert render(scenario) == failure.text
    assert scenario.spec == case.spec
    assert len(scenario.events) == 1 + failure.round + 1 - len(case.chunks)


@pytest.mark.parametrize("options", [{"chunks": [3, 3]}, {"prompt": 0}, {"accepts": 5}])
def test_bad_arguments_are_refused(options: dict[str, Any]) -> None:
    accept = np.full((2, 2), options.pop("accepts", 1))
    with pytest.raises(ValueError, match=r"chunks|accept"):
        run_bulk(frontier.make, Spec(4), accept, **options)


def test_bench_rows() -> None:
    rows = bench(batch=8, rounds=2, ks=(2,), batches=(4,), contexts=(32,), repeats=1)
    assert {"k", "rounds", "batch", "context", "request_rounds_per_second"} <= rows[0].keys()
    assert rows[0]["request_rounds_per_second"] > 0
    assert [row["sweep"] for row in rows] == ["base", "batch", "k", "context", "one at a time"]
    assert rows[-1]["ratio"] > 0
