"""The inductive step: its states are what they claim to be, and exact systems keep the invariant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontier_oracle.oracle import digest, ideal
from frontier_oracle.oracle.errors import HiddenSemanticUnsupported
from frontier_oracle.oracle.held_ideal import HeldIdeal
from frontier_oracle.oracle.ideal import recompute
from frontier_oracle.oracle.inductive import CaseLayout, cases_of, period, symbols
from frontier_oracle.oracle.inductive_state import InductiveStep
from frontier_oracle.oracle.spec import CacheGroup, HiddenSemantic, Spec
from frontier_oracle.property_tests.inductive import inductive_specs
from frontier_oracle.property_tests.inductive_step import run_inductive
from frontier_oracle.reference_impl import frontier, tokenspeed

NATURAL = Spec(4, groups=(CacheGroup(4), CacheGroup(4, 4)))
MANY = Spec(3, 3, "target", 3, (CacheGroup(2, 3), CacheGroup(3)))
SPECS = (NATURAL, MANY, Spec(3, 1, conv_width=1, groups=(CacheGroup(4),)), Spec(5, 2, groups=(CacheGroup(1, 1),)))


# ---- the states -----------------------------------------------------------------------------------------------------


def test_the_cases_are_every_accept_valid_length_and_frontier() -> None:
    cases = cases_of(NATURAL)
    seen = set(zip(cases.accept.tolist(), cases.valid.tolist(), cases.frontier.tolist(), strict=True))
    last = int(cases.frontier.max())
    assert period(NATURAL) == 112 and last >= 3 + 112 and (last + 4) % 4 == 0
    assert seen == {(a, v, f) for a in range(1, 5) for f in range(1, last + 1) for v in range(min(3, f) + 1)}
    assert (cases.hit == cases.frontier - cases.valid).all()


def test_the_declared_domain_has_a_full_stash_and_no_hit() -> None:
    cases = cases_of(NATURAL, "declared")
    assert set(cases.valid) == {3} and set(cases.hit) == {0} and cases.frontier.min() == 3


def test_the_last_verify_window_ends_in_the_cache_s_last_cell() -> None:
    (cases,) = cases_of(NATURAL).batches(1 << 30)
    layout = CaseLayout(NATURAL, cases)
    assert layout.cols[0] * 4 == cases.frontier.max() + NATURAL.k


def test_symbols_are_a_bijection_that_the_seed_changes() -> None:
    some, other = (symbols(np.arange(1 << 16), seed) for seed in (0, 1))
    assert len(np.unique(some)) == 1 << 16 and some.min() >= 1 << 30 and some.max() < 1 << 31
    assert 0.45 < np.mean((some ^ other) & 1) < 0.55


@pytest.mark.parametrize("spec", SPECS)
def test_tables_are_injective_but_for_pages_below_a_hit(spec: Spec) -> None:
    (cases,) = cases_of(spec).batches(1 << 30)
    layout = CaseLayout(spec, cases)
    for g, group in enumerate(spec.groups):
        holders: dict[int, list[int]] = {}
        for case, table in enumerate(layout.tables[g]):
            for page in table[table > 0].tolist():
                holders.setdefault(page, []).append(case)
        assert max(holders) < layout.num_pages[g] - 1 or len(holders) == layout.num_pages[g] - 3
        for page, who in holders.items():
            logical = int(layout.page_logical[g][page])
            shared = bool(layout.page_shared[g][page])
            assert shared == ((logical + 1) * group.page_size <= cases.hit[who[0]])
            assert len(who) == 1 or (shared and len({(cases.frontier[c], cases.valid[c]) for c in who}) == 1)


@pytest.mark.parametrize("spec", SPECS)
def test_a_case_s_symbols_are_distinct_and_so_are_those_of_cases_that_share_nothing(spec: Spec) -> None:
    (cases,) = cases_of(spec).batches(1 << 30)
    step = InductiveStep(spec, cases)
    own = step.layout.shared_tokens() == 0
    line = step.tokens[:, : spec.steps + 1]
    assert len(np.unique(line[own])) == line[own].size
    frontier, verified = cases.frontier[:, None], step.batch.verify_ids.astype(np.int64)
    for row in range(0, len(cases), 7):
        f, a = int(cases.frontier[row]), int(cases.accept[row])
        held = step.tokens[row, : f + spec.steps + 1].tolist()
        assert len(set(held)) == len(held)
        fresh = verified[row, a - 1 :].tolist()
        assert verified[row, : a - 1].tolist() == held[f + 1 : f + a] and len({*fresh, *held}) == len(fresh) + len(held)
    assert (step.after[np.arange(len(cases))[:, None], frontier] == step.tokens[step._rows, frontier]).all()


@pytest.mark.parametrize("spec", SPECS)
def test_the_state_before_and_after_is_the_recomputed_ideal(spec: Spec) -> None:
    """By ``recompute``, one cell at a time. After a hit so short that rows below it consumed a rejected draft there is
    no such state: the next test has those."""
    (cases,) = cases_of(spec).batches(1 << 30)
    step = InductiveStep(spec, cases)
    drafts = symbols(np.arange(len(cases) * spec.steps).reshape(len(cases), -1), 5)
    after, own = step.expected(drafts)
    exact = (cases.valid >= spec.steps - 1) | (cases.accept >= spec.steps - cases.valid)
    for row in np.flatnonzero(exact)[:: 1 + int(exact.sum()) // 12].tolist():
        for image, computed, tokens, ahead in (
            (step.before, int(cases.frontier[row]), step.tokens, step.drafts),
            (after, int(step.now[row]), step.after, drafts),
        ):
            want = recompute(spec, tokens[row, : computed + 1], step.hidden[row, :computed], ahead[row])
            _holds(step, row, image, computed, want.entries, want.rings)
        assert own[row].tolist() == want.drafts.tolist()


def _holds(step: InductiveStep, row: int, image: Any, computed: int, entries: np.ndarray, rings: np.ndarray) -> None:
    spec, layout = step.spec, step.layout
    for depth in range(spec.steps):
        g = spec.group_of(depth)
        first = int(layout.first_read(g, np.full(len(step.cases), computed))[row])
        cells = layout.cells(g, np.arange(first, computed))[row]
        assert image.kv[depth][cells].tolist() == entries[depth, first:].tolist()
    first = int(layout.first_ring_row(np.full(len(step.cases), computed))[row])
    live = np.arange(first, computed)
    assert (image.ring[:, layout.slots[row], live % spec.ring_rows] == rings[:, first:]).all()
    size = spec.groups[0].page_size
    for logical in range(computed // size):
        page = layout.tables[0][row, logical % layout.cols[0]]
        if layout.page_logical[0][page] != logical:
            continue  # the ring of pages has moved on
        rows = np.arange((logical + 1) * size - spec.taps, (logical + 1) * size)
        want = np.where(rows < 0, 0, rings[:, np.maximum(rows, 0)])
        assert (image.ckpt[:, page] == want).all()


def test_rows_below_a_hit_are_held_and_all_others_are_the_ideal_over_them() -> None:
    (cases,) = cases_of(NATURAL).batches(1 << 30)
    step = InductiveStep(NATURAL, cases)
    drafts = symbols(np.arange(len(cases) * 3).reshape(len(cases), -1), 5)
    entries, rings = step.ideal.entries[:, :, 1:].copy(), step.ideal.rings[:, :, 1:].copy()
    after, own = step.expected(drafts)
    short = np.flatnonzero((cases.valid < 2) & (cases.accept < 3 - cases.valid) & (cases.frontier > 1))
    for row in short[:: 1 + len(short) // 6].tolist():
        line, hidden = step.after[row, : step.now[row] + 1], step.hidden[row, : step.now[row]]
        held = (int(cases.hit[row]), entries[:, row], rings[:, row])
        want = _slow_held(NATURAL, line, hidden, drafts[row], *held)
        _holds(step, row, after, int(step.now[row]), want.entries, want.rings)
        assert own[row].tolist() == want.drafts.tolist()


def _slow_held(
    spec: Spec, tokens: np.ndarray, hidden: np.ndarray, ahead: np.ndarray, floor: int, was: np.ndarray, ring: np.ndarray
) -> ideal.Ideal:
    """``recompute``, but rows below ``floor`` are given."""
    count = len(hidden)
    entries, rings = was[:, :count].copy(), ring[:, :count].copy()
    outputs, own = np.zeros_like(entries), np.zeros(spec.steps, dtype=np.int32)
    for d in range(spec.steps):
        for p in range(floor, count):
            token = ideal._token_at(p + d + 1, tokens, count, ahead)
            given = ideal._hidden_at(spec, d, p, hidden, outputs)
            rings[d, p] = digest.ring_row(d, token, given)[0]
            entries[d, p] = digest.entry(d, np.array([p]), token, given, ideal._taps(spec, rings[d], p))[0]
            outputs[d, p] = ideal._output(spec, d, p, entries[d])
        own[d] = digest.draft_token(outputs[d, -1:])[0]
    return ideal.Ideal(entries, outputs, rings, own)


@pytest.mark.parametrize("hidden_semantic", ["chain", "target"])
def test_without_a_floor_the_held_ideal_is_the_ideal(hidden_semantic: HiddenSemantic) -> None:
    spec, rng = Spec(4, 3, hidden_semantic, groups=(CacheGroup(3), CacheGroup(2, 3))), np.random.default_rng(1)
    line = rng.integers(1, 1 << 31, (5, 23))
    hidden, drafts = rng.integers(-(1 << 62), 1 << 62, (5, 20)), rng.integers(0, 9, (5, 3))
    held = HeldIdeal(spec, 5, 20)
    for computed, count in ((np.array([1, 2, 5, 9, 12]), 12), (np.array([3, 6, 6, 10, 16]), 6)):
        drawn = held.update(line, hidden, computed, drafts, count)
        for row, c in enumerate(computed.tolist()):
            want = recompute(spec, line[row, : c + 1], hidden[row, :c], drafts[row])
            assert (held.entries[:, row, 1 : c + 1] == want.entries).all()
            assert (held.rings[:, row, 1 : c + 1] == want.rings).all()
            assert drawn[row].tolist() == want.drafts.tolist()


def test_heads_that_a_window_cannot_keep_exact_are_refused() -> None:
    with pytest.raises(HiddenSemanticUnsupported, match="hidden=shifted"):
        run_inductive(frontier.make, Spec(4, hidden="shifted"))


# ---- exact systems --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [*SPECS, *inductive_specs("dev")], ids=str)
def test_frontier_keeps_the_invariant(spec: Spec) -> None:
    result = run_inductive(frontier.make, spec, batch=500)
    assert result.failures == [] and result.cases == len(cases_of(spec)) and "every accept" in result.statement


def test_wide_hidden_keeps_it_too() -> None:
    assert run_inductive(frontier.make, MANY, hidden_size=24).failures == []


def test_the_published_design_keeps_it_on_its_declared_domain_only() -> None:
    declared = run_inductive(tokenspeed.make, NATURAL, "declared")
    assert declared.failures == [] and declared.cases and "no prefix hit" in declared.statement
    full = run_inductive(tokenspeed.make, NATURAL, batch=4096)
    assert full.failures and all(v < NATURAL.k - 1 for _, v, _, _ in full.failures)


def test_the_ci_set_covers_k_2_to_16_with_short_periods() -> None:
    specs = inductive_specs("ci")
    assert {spec.k for spec in specs if spec.steps == spec.k - 1} == set(range(2, 17))
    assert {(k, s) for k in (2, 3, 4) for s in range(1, k + 1)} <= {(spec.k, spec.steps) for spec in specs}
    assert max(period(spec) for spec in specs) <= 160
    assert set(inductive_specs("dev")) <= set(specs) <= set(inductive_specs("nightly"))
