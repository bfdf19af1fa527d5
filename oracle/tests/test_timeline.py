"""The scenario's engine: slots, forced accepts, hits under each policy, batches as an engine would send them."""

from __future__ import annotations

import numpy as np
import pytest

from frontier_oracle.oracle.contract import DecodeBatch, ExtendBatch
from frontier_oracle.oracle.errors import ScenarioError
from frontier_oracle.oracle.ideal import recompute
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.target import target_rows
from frontier_oracle.oracle.timeline import Adopted, Released, Round, Timeline


def rounds(text: str, policy: str = "successor", draft: int = 7) -> list[Round]:
    """Play a scenario with a drafter that always returns the same drafts."""
    timeline = Timeline(parse(text), policy)
    out = []
    for step in timeline.steps():
        if isinstance(step, Round):
            out.append(step)
            timeline.commit(step, np.full((len(step.views), timeline.spec.steps + 1), draft, dtype=np.int32))
    return out


@pytest.mark.parametrize("accept", [1, 2, 3, 4])
def test_exactly_accept_tokens_commit_whatever_is_drafted(accept: int) -> None:
    prompt, decode = rounds(f"k4 | a: p5 | a{accept}")
    batch, view = decode.batch, decode.views[0]
    assert isinstance(batch, DecodeBatch)
    v = batch.verify_ids[0].tolist()
    assert v[: accept - 1] == [7] * (accept - 1) and v[accept - 1] != 7 and 7 not in v[accept:]
    assert view.computed == 5 + accept and view.tokens[6 : 6 + accept].tolist() == v[:accept]
    assert prompt.views[0].computed == prompt.views[0].known == 5


def test_target_hiddens_depend_on_the_committed_prefix_only() -> None:
    last = rounds("k4 | a: p5 | a3, a1, a4")[-1].views[0]
    _, expected = target_rows(np.zeros(1, dtype=np.int64), last.tokens[None, : last.computed].astype(np.int64), 0)
    assert np.array_equal(last.hidden, expected[0])


def test_chunks_carry_their_lookahead_and_only_the_last_samples() -> None:
    first, second, third = rounds("k4 | a: p9 chunks 4,4,1")
    tokens = third.views[0].tokens
    assert isinstance(first.batch, ExtendBatch) and isinstance(second.batch, ExtendBatch)
    assert first.batch.next_ids[0].tolist() == tokens[4:7].tolist()
    assert second.batch.next_ids[0].tolist() == [int(tokens[8]), -1, -1]
    assert isinstance(third.batch, ExtendBatch)
    assert [b.is_final for b in (first.batch, second.batch, third.batch)] == [(False,), (False,), (True,)]
    assert int(first.batch.sampled_ids[0]) != int(tokens[4]) and int(third.batch.sampled_ids[0]) == int(tokens[9])


def test_freed_slot_is_taken_before_a_new_one() -> None:
    timeline = Timeline(parse("k2 | a: p2 | b: p2 | end a | c: p2"))
    slots = {}
    for step in timeline.steps():
        if isinstance(step, Round):
            slots.update({v.request.name: v.request.slot for v in step.views})
            timeline.commit(step, np.zeros((len(step.views), 2), dtype=np.int32))
        else:
            assert isinstance(step, Released)
    assert slots["c"] == slots["a"] != slots["b"]


@pytest.mark.parametrize(("policy", "length"), [("tokens", 8), ("successor", 4)])
def test_a_hit_needs_its_successors_only_under_successor_keys(policy: str, length: int) -> None:
    timeline = Timeline(parse("k4 page4 | a: p12 | b: p10 hit a 8"), policy)
    adopted = []
    for step in timeline.steps():
        if isinstance(step, Adopted):
            adopted.append(step)
            assert step.pages == timeline.live["a"].tables[0].logical_pages()[: len(step.pages)]
        elif isinstance(step, Round):
            timeline.commit(step, np.zeros((1, 4), dtype=np.int32))
    assert [a.length for a in adopted] == [length]


def test_padded_rows_stand_on_slot_0_and_the_null_page() -> None:
    batch = rounds("k4 page4 | a: p5 | a2 /3")[-1].batch
    assert isinstance(batch, DecodeBatch)
    assert batch.req_pool_indices.tolist() == [1, 0, 0] and batch.seq_lens.tolist() == [5, 1, 1]
    assert not batch.page_table[0][1:].any() and batch.accept_lengths.tolist() == [2, 1, 1]


def test_pages_of_a_finished_request_are_reused() -> None:
    steps = rounds("k2 page4 | a: p8 | end a | b: p4")
    freed = {page for _, page in steps[0].fresh_pages}
    assert {page for _, page in steps[1].fresh_pages} <= freed


def test_an_illegal_scenario_is_refused_before_anything_runs() -> None:
    with pytest.raises(ScenarioError):
        Timeline(parse("k4 | a: p5 | a5"))


def test_views_are_what_the_ideal_is_computed_from() -> None:
    last = rounds("k3 | a: p4 chunks 2,2 | a2, a3")[-1].views[0]
    ideal = recompute(parse("k3 | a: p1").spec, last.tokens, last.hidden)
    assert ideal.entries.shape == (2, last.computed)
