"""Faults that engines really had, one test a report: the scenario that shows it is among the gate's known ones, and the
coding fault behind it is planted and killed there by its rule. Reports on counters: test_fault_metrics.py.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from frontier_oracle.oracle.contract import DecodeBatch
from frontier_oracle.oracle.designs import DESIGNS
from frontier_oracle.oracle.errors import HiddenSemanticUnsupported, RingTooShort, ScenarioError
from frontier_oracle.oracle.executor import DesignDrafter, spec_for
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.play import outcome
from frontier_oracle.oracle.prefix_study import hit_case
from frontier_oracle.oracle.scenario import Decode, Scenario
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.timeline import Round, Timeline
from frontier_oracle.property_tests.driver import run_scenario
from frontier_oracle.property_tests.exhaustive import run_exhaustive
from frontier_oracle.property_tests.gate.known import KNOWN
from frontier_oracle.property_tests.mutants.planting import FRONTIER
from frontier_oracle.property_tests.mutants.survey import first_finding, mutant_of
from frontier_oracle.reference_impl.frontier import Frontier

LINES = Path(__file__).parents[2].parent / "shared" / "fault-classes.tsv"
CITED = re.compile(r"\b([\w.-]+/[\w.-]+#\d+)\b")

# Reports on counters: test_fault_metrics.py holds the accept statistics of the reports to each.
METRICS = {
    "vllm-project/vllm#44487",
    "vllm-project/vllm#56137",
    "ggml-org/llama.cpp#14104",
    "sgl-project/sglang#13212",
    "vllm-project/vllm#34734",
}


def known(name: str) -> Scenario:
    """A known scenario, by how its name begins; the exact drafter shows nothing on it."""
    (text,) = [text for title, text in KNOWN.items() if title.startswith(name)]
    scenario = parse(text)
    assert run_scenario(Frontier, scenario, Frontier.prefix_policy, guard=False).findings == []
    return scenario


def killed(scenario: Scenario, *mutants: str) -> None:
    """Each planted fault shows on the scenario, under its own rule first."""
    for id_ in mutants:
        mutant = mutant_of(id_)
        assert (id_, first_finding(mutant, FRONTIER, scenario)[0]) == (id_, mutant.code)


def survives(scenario: Scenario, *mutants: str) -> None:
    """What an engine's own test saw: nothing."""
    for id_ in mutants:
        assert (id_, first_finding(mutant_of(id_), FRONTIER, scenario)[0]) == (id_, "")


def of_design(name: str, text: str) -> dict[str, int]:
    """Entries of a design's declaration at the end of a scenario, counted by state."""
    scenario = parse(text)
    spec = spec_for(DESIGNS[name], scenario.spec)
    timeline = Timeline(Scenario(spec, events=scenario.events), DESIGNS[name].prefix_policy)
    result = outcome(timeline, DesignDrafter(DESIGNS[name], timeline.config()))
    states = [entry.state for entries in result.final_entries().values() for entry in entries]
    return {state: states.count(state) for state in set(states)}


def verified(text: str, *drafts: int) -> list[list[int]]:
    """The ids of every verify round of request a, where round i of the drafter drafted drafts[i] throughout."""
    timeline, seen = Timeline(parse(text)), []
    width = timeline.spec.steps + 1
    for step in timeline.steps():
        if isinstance(step, Round):
            timeline.commit(step, np.full((len(step.views), width), drafts[step.index], dtype=np.int32))
            if isinstance(step.batch, DecodeBatch):
                seen.append(step.batch.verify_ids[0].tolist())
    return seen


# -- what is committed -------------------------------------------------------------------------------------------------


class LengthFirst(Timeline):
    """An engine that cuts an accepted run at the length limit, and looks for EOS no more."""

    def __init__(self, scenario: Scenario, remaining: int) -> None:
        super().__init__(scenario)
        self.remaining = remaining

    def _settle(self, event: Decode, step: Round) -> None:
        limit = tuple((name, min(self.remaining, dict(event.rows)[name])) for name, _ in event.ends)
        super()._settle(replace(event, ends=limit), step)


def emitted(timeline: Timeline, name: str) -> int:
    """Tokens of a request after its last round, the sampled one and the accepted ones that it may keep."""
    for step in timeline.steps():
        if isinstance(step, Round):
            timeline.commit(step, np.zeros((len(step.views), timeline.spec.steps + 1), dtype=np.int32))
    request = timeline.gone[name]
    return len(request.tokens) - request.prompt


def test_eos_before_the_length_limit() -> None:
    """sgl-project/sglang#33758: an accepted run with EOS in it that also crosses max_tokens let later tokens out.

    Three more tokens are allowed, the run is [t, EOS, x, y]: two of it are emitted."""
    scenario = parse("k4 page4 | a: p7 | a4e2 | b: p11 hit a 10 | b1, b2")
    assert scenario.events == known("EOS inside an accepted run").events
    assert emitted(Timeline(scenario), "a") == 1 + 2
    assert emitted(LengthFirst(scenario, remaining=3), "a") == 1 + 3
    known("EOS and max_tokens in one run")
    with pytest.raises(ScenarioError, match="only 9 tokens of a are known"):
        parse("k4 page4 | a: p4 | a3, a4e1 | b: p12 hit a 10")


def test_accepted_and_committed_are_two_counts() -> None:
    """vllm-project/vllm#56137: EOS inside accepts; the drafter is told of all accepted tokens, a hit shares fewer.

    A window that is run for fewer leaves entries unwritten that the cache gives out."""
    (decode,) = [e for e in known("EOS inside an accepted run").events if isinstance(e, Decode) and e.ends]
    assert dict(decode.rows)["a"] == 4 and dict(decode.ends)["a"] == 2
    with pytest.raises(ScenarioError, match="only 10 tokens of a are known"):
        parse("k4 page4 | a: p7 | a4e2 | b: p13 hit a 11")
    killed(known("EOS inside an accepted run"), "window_of_verify")


# -- accept lengths, hiddens, rows -------------------------------------------------------------------------------------


def test_hidden_row_of_a_partial_accept() -> None:
    """charlie12345/ROCmFPX#15: after a partial accept the wrong hidden seeds the drafts; full accepts hide it."""
    killed(known("partial accepts only"), "hidden_of_last_verify_row", "hidden_at_accept")
    survives(known("full accepts"), "hidden_of_last_verify_row")


def test_a_row_that_accepts_nothing() -> None:
    """vllm-project/vllm#48475: a discarded row counts 0 accepted tokens and gathers row -1."""
    for name in ("a late result", "a row without accepted tokens"):
        killed(known(name), "idle_accepts_nothing")


def test_an_idle_row_appends_nothing() -> None:
    """tenstorrent/tt-xla#5830: a request with no scheduled tokens samples from the last padded row."""
    killed(known("idle while another reads its prompt"), "idle_accepts_nothing")


def test_rows_of_a_condensed_batch() -> None:
    """vllm-project/vllm-ascend#13863: accept counts and buffers belong to requests, not to last round's rows."""
    killed(known("rows move, a new request between"), "stash_read_by_row", "stash_written_by_row")
    killed(known("rows move, a new request between"), "accepts_of_last_rows")
    known("reordered and condensed batch")


def test_a_map_of_rows_to_requests() -> None:
    """NVIDIA/TensorRT-LLM#16925: a map made for k tokens a request serves rows of one; a batch of 1 hides it."""
    killed(known("eight requests"), "written_to_neighbour", "read_from_neighbour", "accept_of_first_row")
    survives(known("partial accepts only"), "written_to_neighbour", "read_from_neighbour", "accept_of_first_row")


# -- prompts in chunks -------------------------------------------------------------------------------------------------


def test_next_token_of_a_chunk() -> None:
    """ModelTC/LightLLM#1079: the id that fills a chunk's last draft entry is the next chunk's first."""
    killed(known("chunks 6,4"), "placeholder_at_boundary", "sample_at_boundary", "lookahead_off_by_one")


def test_sampled_token_at_every_chunks_end() -> None:
    """sgl-project/sglang#26329: a non-final chunk ends with the discarded sample, at deeper depths with drafts."""
    killed(known("chunks 6,4"), "sample_at_boundary", "lookahead_one_token")
    assert of_design("sglang_default", "k4 | a: p10 chunks 6,4")["stale"] > 0


def test_chunks_that_sample_nothing() -> None:
    """RBLN-SW/vllm-rbln#554: an intermediate chunk has no logits, and must fill the draft caches all the same."""
    killed(known("chunks 4,4,2"), "mid_chunk_not_run", "chunk_runs_depth_0_only")


def test_depths_beyond_the_first_see_the_prompt() -> None:
    """ggml-org/llama.cpp#23274: the catch-up pass ran layer 0 only."""
    killed(known("chunks 4,4,2"), "chunk_runs_depth_0_only")
    assert of_design("vllm_step3p5", "k4 | a: p12 | a1")["unwritten"] > 20


# -- windows, extents, locations ---------------------------------------------------------------------------------------


def test_every_depth_runs_its_own_layer() -> None:
    """vllm-project/vllm#31204: only the first draft layer was ever run."""
    killed(known("no accepts"), "layer_0_only")


def test_a_hole_behind_a_full_accept() -> None:
    """NVIDIA/TensorRT-LLM#5285: the window is a row short of the accepted run, and the last draft's entry is never
    made."""
    killed(known("full accepts"), "window_one_row_short")
    assert of_design("tensorrt_llm_vanilla", "k4 shifted | a: p12 | a4, a4, a4, a4")["unwritten"] == 12
    survives(known("no accepts"), "window_one_row_short")


def test_seq_lens_of_rejected_drafts() -> None:
    """vllm-project/vllm-ascend#14883: seq_lens of later depths still count the rejected rows, one more a depth."""
    killed(known("no accepts"), "seq_lens_of_verify", "seq_lens_advance")


def test_rejected_counts_reach_the_metadata() -> None:
    """vllm-project/vllm-ascend#8230: the metadata update did not use the number of rejected tokens."""
    killed(known("no accepts"), "seq_lens_of_verify", "locations_of_verify")


def test_rejected_rows_are_in_no_extent() -> None:
    """vllm-project/vllm#32628: rows past the accepted ones are part of the grid and write for request 0."""
    killed(known("batch of two, accepts 1 and 4"), "extent_past_frontier", "seq_lens_of_verify", "written_to_neighbour")


def test_locations_of_the_windows_own_rows() -> None:
    """lightseekorg/tokenspeed#1107: the draft window wrote at the verify window's locations."""
    killed(known("no accepts"), "locations_of_verify", "locations_of_old_frontier")


def test_locations_of_the_round_before() -> None:
    """sgl-project/sglang#29616: the draft forward inherited the locations that were in the buffer."""
    killed(known("partial accepts only"), "locations_of_last_round")


def test_values_baked_into_a_graph() -> None:
    """NVIDIA/TensorRT-LLM#17110: lengths and blocks of capture time; accept lengths do not show it."""
    killed(known("partial accepts only"), "accepts_baked", "locations_of_last_round")
    killed(known("ring of pages and conv ring wrap"), "locations_of_last_round")


def test_a_graph_after_a_round_with_rejects() -> None:
    """spiritbuun/buun-llama-cpp#116: the first wrong token comes right behind a round that rejected drafts."""
    killed(parse("k4 page16 | a: p8 | a4, a1, a1"), "accepts_baked")
    survives(known("full accepts"), "accepts_baked")


def test_the_hidden_a_depth_was_trained_on() -> None:
    """sgl-project/sglang#18564: every depth reused the target's hiddens where the head chains."""
    for name in ("no accepts", "target heads"):
        killed(known(name), "hidden_semantic")


def test_drafts_that_are_accepted_keep_draft_hiddens() -> None:
    """vllm-project/vllm#33561: accepted tokens make no exact row where the head wants the target's shifted hidden."""
    with pytest.raises(HiddenSemanticUnsupported):
        Frontier(Timeline(parse("k4 shifted | a: p4")).config(), object())
    assert of_design("tensorrt_llm_vanilla", "k4 shifted | a: p12 | a3, a3, a3")["wrong"] > 0


def test_rejected_drafts_leave_nothing_stale() -> None:
    """vllm-project/vllm#48892: R rejected drafts leave the last R-1 depths stale; no accept sequence may."""
    assert of_design("sglang_default", KNOWN["no accepts (stale at depths >= 1)"])["stale"] == 9
    for k in (3, 4):
        assert run_exhaustive(Frontier, Spec(k), 4).failures == []


# -- rings -------------------------------------------------------------------------------------------------------------


def test_ring_rows_for_every_row_in_front() -> None:
    """lightseekorg/tokenspeed#996: a conv ring sized by k while the rows in front go by steps."""
    killed(known("steps = k"), "ring_two_rows_short")
    with pytest.raises(RingTooShort):
        parse("k4 W4 R6 | a: p1")
    deeper = spec_for(DESIGNS["tokenspeed_lookback"], Spec(4, steps=4))
    assert deeper.ring_rows >= deeper.taps + deeper.k + deeper.steps - 1


def test_a_wrapped_ring_takes_rejected_rows_back() -> None:
    """ml-explore/mlx-swift-lm#474: a wrapped ring cannot be trimmed, so rejected rows stay."""
    killed(known("ring of pages and conv ring wrap"), "ring_of_pages_not_wrapped", "ring_two_rows_short")


# -- padding, slots, preemption ----------------------------------------------------------------------------------------


def test_dummy_requests() -> None:
    """NVIDIA/TensorRT-LLM#4379: dummies of prompt length 0 took no inputs, so the rows behind them got others'."""
    killed(known("a row without accepted tokens"), "dummy_takes_no_rows")
    survives(known("batch of two, accepts 1 and 4"), "dummy_takes_no_rows")
    killed(known("padded rows beside a parked slot"), "padded_row_in_slot_1", "padding_clears_slot_1")


def test_padding_beside_a_parked_request() -> None:
    """NVIDIA/TensorRT-LLM#13278: padding was given the state slot of a live request that was not scheduled."""
    killed(known("padded rows beside a parked slot"), "padded_conv_slot_1", "padded_row_in_slot_1")
    killed(known("a late result"), "idle_row_keeps_its_slot")


def test_padding_with_live_metadata() -> None:
    """m0at/rvllm#32: padded graph entries kept the metadata of live rows, KV slot included."""
    killed(known("padded rows beside a parked slot"), "padded_row_in_slot_1")
    killed(known("a late result"), "idle_row_keeps_its_pages")


def test_padding_through_an_older_page_table() -> None:
    """lightseekorg/tokenspeed#955: rows past the batch kept the pages of earlier requests."""
    killed(known("batch of 4, then 2 padded to 4"), "padded_row_keeps_pages", "idle_row_keeps_its_pages")


def test_a_slots_next_request() -> None:
    """vllm-project/vllm#39833: a request in a used slot took over the last tokens and drafts of the one before."""
    known("hit of 8, chunk of 1, reused slot")
    killed(known("hit into a used slot"), "slot_not_reset_after_hit", "stash_assumed_after_hit")
    killed(known("slot reuse without a hit"), "slot_not_reset")


def test_drafts_do_not_outlive_a_preemption() -> None:
    """vllm-project/vllm#31955: drafts kept over a preemption are verified at the wrong place."""
    known("preempted with drafts pending")
    assert verified("k4 | a: p6 | preempt a | a: resume | a3", 5, 6, 7)[0][:2] == [6, 6]
    with pytest.raises(ScenarioError, match="which is preempted"):
        parse("k4 | a: p6 | preempt a | a3")


def test_one_request_without_drafts_leaves_the_others_theirs() -> None:
    """vllm-project/vllm#58080: one request past the drafter's limit, and the whole batch got dummy drafts."""
    killed(known("context ends inside a window"), "dummy_drafts_for_all")
    known("rounds without drafts")


def test_a_skipped_drafter_leaves_nothing_to_accept() -> None:
    """vllm-project/vllm#34734: rounds whose drafter was skipped counted as rounds with drafts."""
    known("rounds without drafts")
    with pytest.raises(ScenarioError, match="expected 1"):
        parse("k4 | a: p6 | a2! | a2")


# -- prefix cache ------------------------------------------------------------------------------------------------------


def test_what_an_exact_hit_costs() -> None:
    """vllm-project/vllm#51769: rows run again against rows stale, per policy."""
    cases = {policy: hit_case(policy, 4, 40) for policy in ("tokens", "drop_last", "successor")}
    assert {p: (c.wrong, c.recomputed) for p, c in cases.items()} == {
        "tokens": (6, 0),
        "drop_last": (0, 4),
        "successor": (0, 4),
    }


def test_keys_of_one_next_token() -> None:
    """vllm-project/vllm#50438: a key with the next token serves one depth; several need as many tokens."""
    killed(known("divergence at a page boundary"), "pages_keyed_by_tokens")
    killed(parse("k4 page4 | a: p16 | b: p14 hit a 9 | b1, b2"), "pages_keyed_by_bigrams")
    survives(parse("k4 steps1 page4 | a: p16 | b: p14 hit a 9 | b1, b2"), "pages_keyed_by_bigrams")


def test_a_donors_continuation_and_the_chunk_before_it() -> None:
    """vllm-project/vllm#50062: stale rows behind a hit, at a chunk's end, and in blocks given out too early."""
    known("64 tokens shared")
    killed(parse("k4 page16 | a: p70 | b: p72 hit a 64 | b1"), "pages_keyed_by_tokens", "pages_finalized_only")
    killed(parse("k4 page2 | a: p9 | b: p9 hit a 6 | b1"), "last_page_dropped")
    killed(known("single-token last chunk"), "no_rerun", "rerun_one_row_short", "lookahead_one_token")
    assert hit_case("tokens", 1, 48).rewritten > 0 == hit_case("finalized", 1, 48).rewritten


# -- coverage ----------------------------------------------------------------------------------------------------------


def cited() -> list[str]:
    modules = (sys.modules[__name__], importlib.import_module("test_fault_metrics"))
    tests = [f for module in modules for name, f in inspect.getmembers(module, inspect.isfunction) if "test_" in name]
    return [number for test in tests for number in CITED.findall(test.__doc__ or "")]


def test_every_report_has_a_test_of_its_own() -> None:
    assert len(set(cited())) == 39
    twice = {number for number in cited() if cited().count(number) > 1}
    assert twice <= METRICS <= set(cited())


def test_the_list_of_reports_is_covered() -> None:
    if not LINES.exists():
        pytest.skip("the list of reports is not beside this checkout")
    listed = [line.split("\t")[0] for line in LINES.read_text(encoding="utf-8").splitlines()[1:] if line]
    assert set(listed) == set(cited())
