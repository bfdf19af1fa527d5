"""The design atlas shows what each design leaves behind, and its fast engine agrees with the judge, entry by entry."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest

from frontier_oracle.oracle.atlas import (
    NAMES,
    STATES,
    DesignRun,
    atlas,
    drawn,
    exhaustive,
    lower_bound_rows,
    run_block,
    run_request,
)
from frontier_oracle.oracle.atlas_tables import COLUMNS, as_data, as_markdown, table_rows
from frontier_oracle.oracle.design_batch import DesignBatch
from frontier_oracle.oracle.design_engine import schedule
from frontier_oracle.oracle.designs import (
    DESIGNS,
    FRONTIER,
    MINIMAL,
    SGLANG_BOUNDARY_FIX,
    TOKENSPEED_LOOKBACK,
    VLLM_MULTI_MODULE,
)
from frontier_oracle.oracle.errors import ScenarioError, SpecError, UsageError
from frontier_oracle.oracle.free_running import Truth, rounds_needed, truth_of
from frontier_oracle.oracle.spec import Spec

SOUND = (FRONTIER, MINIMAL, TOKENSPEED_LOOKBACK, SGLANG_BOUNDARY_FIX, VLLM_MULTI_MODULE)


def one(name: str, *accepts: int, k: int = 4, prompt: int = 12) -> DesignRun:
    return atlas([accepts], k=k, prompt=prompt, designs=[DESIGNS[name]]).designs[0]


@pytest.mark.parametrize("name", ["sglang_default", "tokenspeed_unrepaired"])
def test_a_verify_window_leaves_nine_stale_entries_when_nothing_is_accepted(name: str) -> None:
    run = one(name, 1, 1, 1, 1)
    assert run.states == {"stale": 9, "unwritten": 0, "wrong": 0, "tainted": 2, "foreign": 0}
    assert run.draft_mismatch_rounds == 4 and not run.exact


def test_n_rows_at_the_frontier_step_over_position_f_when_all_is_accepted() -> None:
    """PEERS: 12 holes at k=4, accepts 4,4,4,4. Three of them are at each of the four positions F."""
    run = one("tensorrt_llm_vanilla", 4, 4, 4, 4)
    assert run.states["unwritten"] == 12 and run.states["stale"] == 0
    holes = np.argwhere(run.grids[0] == NAMES.index("unwritten"))
    assert sorted(holes.tolist()) == [[d, p] for d in range(3) for p in (12, 16, 20, 24)]


def test_one_row_a_round_never_sees_the_prompt() -> None:
    run = one("vllm_step3p5", 1, 4, 2, 1)
    unwritten = (run.grids[0] == NAMES.index("unwritten")).sum(axis=1)
    assert run.grids[0].shape == (3, 20) and unwritten.tolist() == [0, 16, 17]


@pytest.mark.parametrize("k", [3, 4, 5])
def test_sound_designs_are_exact_over_all_accept_sequences(k: int) -> None:
    """No stale and no unwritten entry, and every draft the ideal's: lookback and frontier draft the same (S11)."""
    result = atlas(exhaustive(k, 0, 4), k=k, designs=SOUND)
    for run in result.designs:
        assert run.exact, run
        assert len(run.grids) == k**4 and run.verify_rounds == run.decode_rounds == 4 * k**4


@pytest.mark.parametrize("k,left_behind", [(3, 4), (4, 12), (5, 24)])
def test_k_rows_leave_shifted_hiddens_behind(k: int, left_behind: int) -> None:
    """PEERS: 4 / 12 / 24 over 4 rounds, the worst that any accept sequence gives: full accepts throughout (S1)."""
    shifted = replace(FRONTIER, name="frontier_shifted", hidden=("shifted",))
    result = atlas(exhaustive(k, 0, 4), k=k, designs=[shifted]).designs[0]
    wrong = [int((grid == NAMES.index("wrong")).sum()) for grid in result.grids]
    assert max(wrong) == left_behind and wrong[-1] == left_behind
    assert result.states["stale"] == result.states["unwritten"] == 0
    enough = replace(shifted, first_rows="verify", rows="lookback", stash="depth0_outputs", sample="accept_row")
    assert atlas(exhaustive(k, 0, 4), k=k, designs=[replace(enough, stash_length="steps-1")]).designs[0].exact


WRONG_DRAFTS = ("tokenspeed_unrepaired", "sglang_default", "vllm_step3p5", "tensorrt_llm_vanilla", "lightllm_vanilla")


def test_wrong_drafts_cost_verify_rounds() -> None:
    """S25: left to its own drafts a design needs the ideal's rounds where it drafts the same, and more where it does
    not. Where nothing would be accepted anyway wrong drafts cost nothing."""
    rounds = {run.name: run.verify_rounds for run in atlas([(1, 4, 2, 1), (4, 4, 4, 4)]).designs}
    assert {name for name, needed in rounds.items() if needed != 8} == set(WRONG_DRAFTS)
    assert all((needed or 0) >= 8 for needed in rounds.values())
    assert {run.verify_rounds for run in atlas([(1, 1, 1, 1)]).designs} == {4}


def test_lookback_and_frontier_need_equal_rounds_for_one_shot_prompts_only() -> None:
    """Their drafts are equal for prompts in one chunk, from one token on; in chunks lookback's are not the ideal's
    (SEMANTICS section 9), and cost it rounds."""
    pair = (TOKENSPEED_LOOKBACK, FRONTIER)
    sequences = [drawn(4, 0, 24, seed) for seed in range(8)]
    for prompt in (1, 4):
        assert [run.verify_rounds for run in atlas(sequences, prompt=prompt, designs=pair).designs] == [8 * 24, 8 * 24]
    lookback, frontier = (run.verify_rounds for run in atlas(sequences, chunks=(5, 5, 2), designs=pair).designs)
    assert lookback is not None and lookback > 8 * 24 == frontier


def test_a_truth_is_what_the_ideal_accepts() -> None:
    """A drafter that is told the ideal's drafts needs its rounds; one that is told others needs a round a token."""
    accepts, lengths = np.array([[1, 4, 2], [3, 1, 1]]), np.array([3, 1])
    truth = truth_of(Spec(4), 12, accepts, lengths)
    assert truth.end.tolist() == [12 + 7, 12 + 3]
    assert rounds_needed(DesignBatch(FRONTIER, Spec(4), 2, 12, (), 30), truth).tolist() == [3, 1]
    others = Truth(np.where(np.arange(truth.tokens.shape[1]) > 12, truth.tokens + 1, truth.tokens), truth.end)
    assert rounds_needed(DesignBatch(FRONTIER, Spec(4), 2, 12, (), 30), others).tolist() == [7, 3]


def test_the_deviations_are_those_seen() -> None:
    seen = {run.name: run.deviations for run in atlas([(2, 2)]).designs}
    assert seen["sglang_default"] == ("rejected_drafts",) and seen["frontier"] == ()
    assert seen["tensorrt_llm_vanilla"] == ("hidden_left_behind",)  # no full accept, no chunks, no hit
    assert atlas([(1, 1)], chunks=(6, 6)).design("sglang_default").deviations == (
        "rejected_drafts",
        "chunk_tail_sample",
    )


def test_rows_run_and_their_lower_bound() -> None:
    rows = {run.name: run.rows for run in atlas([(1, 4, 2, 1)]).designs}
    assert rows["frontier"] == rows["sglang_default"] == rows["vllm_multi_module"] == 4 * 12
    assert rows["tokenspeed_lookback"] == 4 * (4 + 6 + 6)
    assert rows["sglang_boundary_fix"] == 4 * 3 * 9
    assert rows["tensorrt_llm_vanilla"] == 4 * 9
    assert rows["llama_cpp"] == 4 * (5 + 6 + 7)
    assert rows["eagle_chain"] == rows["vllm_step3p5"] == 4 * 6
    assert rows["minimal"] == 3 * (3 + 4 + 3 + 3)
    assert lower_bound_rows(Spec(4), (1, 4, 2, 1)) == 6 + 12 + 7 + 6


def test_chunks_show_who_knows_what_follows() -> None:
    """Chunks 5,5,2: exact for designs with lookahead or without a shift, and for nobody else."""
    result = atlas([(2, 1)], chunks=(5, 5, 2))
    assert [run.name for run in result.designs if run.exact] == [
        "vllm_multi_module",
        "llama_cpp",
        "frontier",
        "minimal",
    ]
    assert result.design("tokenspeed_frontier").states["stale"] == 6
    assert atlas([(1, 1)], chunks=(5, 5, 2)).design("tokenspeed_frontier").states["stale"] == 4  # two heal
    assert schedule(VLLM_MULTI_MODULE, Spec(4), (5, 5, 2)) == (5, 7)
    assert schedule(FRONTIER, Spec(4), (5, 5, 2)) == (5, 5, 2)


@pytest.mark.parametrize("seed", range(4))
def test_the_batch_engine_agrees_with_the_judge(seed: int) -> None:
    """Every entry's state, the rows and the mismatched rounds, for every design on random requests."""
    source = random.Random(seed)
    k = source.choice((2, 3, 4, 5))
    spec = Spec(
        k, source.choice((k - 1, source.randint(1, k))), source.choice(("chain", "target")), source.randint(1, 4)
    )
    prompt = source.randint(2, 14)
    cut = source.randint(1, prompt - 1)
    chunks = source.choice(((), (cut, prompt - cut)))
    rounds = [source.randint(0, 5) for _ in range(2)]
    accepts = [tuple(source.randint(1, spec.max_accept) for _ in range(n)) for n in rounds]
    for design in DESIGNS.values():
        for sequence, fast in zip(accepts, run_block(design, spec, accepts, prompt, chunks), strict=True):
            slow = run_request(design, spec, sequence, prompt, chunks)
            assert np.array_equal(fast.grid, slow.grid), (design.name, spec, prompt, chunks, sequence)
            assert (fast.rows, fast.mismatches) == (slow.rows, slow.mismatches), (design.name, spec, sequence)


def test_sequences_of_any_length_are_summed() -> None:
    sequences = [(1,), (4, 4, 4), (), (2, 3)]
    result = atlas(sequences)
    for run in result.designs:
        alone = [atlas([sequence], designs=[DESIGNS[run.name]]).designs[0] for sequence in sequences]
        assert run.rows == sum(a.rows for a in alone)
        assert run.states == {state: sum(a.states[state] for a in alone) for state in STATES}
        assert [grid.tolist() for grid in run.grids] == [a.grids[0].tolist() for a in alone]


def test_json_keys_and_tables() -> None:
    result = atlas([(1, 2)])
    data = as_data(result)
    assert json.loads(json.dumps(data)) == data
    assert list(data) == ["k", "steps", "prompt", "accepts", "designs"] and data["accepts"] == [1, 2]
    keys = ["name", "rows", "lower_bound_rows", "stale", "unwritten", "wrong", "tainted", "foreign"]
    assert list(data["designs"][0]) == [*keys, "draft_mismatch_rounds", "exact"]
    assert [d["name"] for d in data["designs"]] == list(DESIGNS)
    assert all(len(row) == len(COLUMNS) for row in table_rows(result))
    assert as_markdown(result).count("\n") == len(DESIGNS) + 4
    assert as_data(atlas([(1,), (2,)], designs=[MINIMAL]))["accepts"] == [[1], [2]]


def test_drawn_sequences_are_the_same_everywhere() -> None:
    assert drawn(4, 0, 8, 1) == drawn(4, 0, 8, 1) != drawn(4, 0, 8, 2)
    assert set(drawn(4, 1, 200, 0)) == {1, 2} and set(drawn(4, 0, 200, 0)) == {1, 2, 3, 4}


def test_what_cannot_be_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match=r"accept length 5: expected 1\.\.4"):
        atlas([(1, 5)])
    with pytest.raises(UsageError, match="no accept sequence"):
        atlas([])
    with pytest.raises(ScenarioError, match="chunks sum to 11"):
        atlas([(1,)], chunks=(5, 6))
    with pytest.raises(ScenarioError, match="at least 1 token"):
        atlas([(1,)], prompt=0)
    with pytest.raises(SpecError):
        atlas([(1,)], k=3, steps=4)
