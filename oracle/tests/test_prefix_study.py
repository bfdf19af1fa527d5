"""Which prefix policies are exact, as a formula and as measured; the page in docs/ shows what the function gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from frontier_oracle.oracle.policies import POLICIES, page_unit
from frontier_oracle.oracle.prefix_study import PAGES, SHARED, HitCase, divergence_table, hit_case, study, table
from frontier_oracle.oracle.spec import CacheGroup, Spec

PAGE = Path(__file__).parents[2] / "docs" / "prefix-cache.md"


@pytest.fixture(scope="module")
def cases() -> list[HitCase]:
    return study()


def test_the_page_shows_what_is_measured(cases: list[HitCase]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert table(cases) in text and divergence_table(cases, 4) in text


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("page", PAGES)
def test_a_policy_is_exact_where_its_formula_says_so(cases: list[HitCase], policy: str, page: int) -> None:
    mine = [case for case in cases if (case.policy, case.page_size) == (policy, page)]
    assert len(mine) == len(SHARED)
    assert all(case.exact for case in mine) == POLICIES[policy].exact(Spec(4, groups=(CacheGroup(page),)))


def test_what_is_wrong_is_the_donors_continuation(cases: list[HitCase]) -> None:
    """At a page boundary n, token keys leave d+1 entries of every depth d; bigram keys one fewer each (S21)."""
    at_boundary = {case.policy: case for case in cases if (case.page_size, case.shared) == (4, 36)}
    assert at_boundary["tokens"].wrong == 1 + 2 + 3 and at_boundary["tokens"].hit == 36
    behind_it = {case.policy: case for case in cases if (case.page_size, case.shared) == (4, 37)}
    assert behind_it["bigram"].wrong == behind_it["tokens"].wrong == 0 + 1 + 2 and behind_it["bigram"].hit == 36


def test_unfinalized_pages_are_rewritten_under_the_sharer(cases: list[HitCase]) -> None:
    rewritten = {p: sum(c.rewritten for c in cases if c.policy == p) for p in POLICIES}
    assert rewritten["tokens"] > 0 and rewritten["finalized"] == rewritten["successor"] == rewritten["recompute"] == 0


def test_a_finalized_policy_holds_back_what_can_still_change_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last steps - 1 positions of a donor hold entries that consumed its drafts; one fewer held back shows."""
    finalized, spec = POLICIES["finalized"], Spec(4, groups=(CacheGroup(1),))
    assert finalized.hit(spec, shared=48, computed=47, prompt=52) == 47 - 2
    assert hit_case("finalized", 1, 48).rewritten == 0
    monkeypatch.setitem(POLICIES, "finalized", replace(finalized, unpublished=1))
    assert hit_case("finalized", 1, 48).rewritten > 0


def test_the_exact_policies_cost_at_least_steps_tokens(cases: list[HitCase]) -> None:
    for case in cases:
        if case.policy in ("successor", "recompute") and case.shared < max(SHARED):
            assert 3 <= case.recomputed <= 2 + 2 * case.page_size
    by_policy = {p: [c.recomputed for c in cases if c.policy == p] for p in POLICIES}
    assert all(s <= r for s, r in zip(by_policy["successor"], by_policy["recompute"], strict=True))


def test_one_depth_makes_bigram_keys_exact_and_groups_share_a_unit() -> None:
    assert POLICIES["bigram"].exact(Spec(4, steps=1)) and not POLICIES["bigram"].exact(Spec(4, steps=2))
    two = Spec(4, groups=(CacheGroup(4), CacheGroup(6)))
    assert page_unit(two) == 12
    assert POLICIES["successor"].hit(two, shared=27, computed=40, prompt=40) == 24
    assert POLICIES["successor"].hit(two, shared=26, computed=40, prompt=40) == 12
    assert POLICIES["drop_last"].hit(two, shared=11, computed=40, prompt=40) == 0
