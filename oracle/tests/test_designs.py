"""The declarations are the thirteen of the atlas, and the executor runs each as it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from typing import Any, get_args

import pytest

from frontier_oracle.oracle.design_engine import scenario_for
from frontier_oracle.oracle.designs import DESIGNS, EAGLE_CHAIN, FRONTIER, MINIMAL, TENSORRT_LLM_VANILLA, Design
from frontier_oracle.oracle.deviations import predict
from frontier_oracle.oracle.errors import HiddenSemanticUnsupported
from frontier_oracle.oracle.events import Event
from frontier_oracle.oracle.executor import DesignDrafter, spec_for
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.play import Outcome, outcome, play
from frontier_oracle.oracle.policies import POLICIES
from frontier_oracle.oracle.serving_events import SERVING_EVENTS
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.timeline import Timeline

# Chunks of every size, hits, short prompts, reused slots, padding, rings of pages, one and k depths; then every event.
SCENARIOS = (
    *SERVING_EVENTS.values(),
    "k4 page16 | a: p12 chunks 5,5,2 | a1 | a4, a2",
    "k4 page16 | a: p20 chunks 18,1,1 | a1, a4, a1",
    "k4 page4 | a: p1 | a1, a4, a1",
    "k4 page4 | a: p12 | z: p12 | end z | b: p9 hit a 8 | b1, b1, b2",
    "k4 page4 | a: p16 | b: p14 hit a 12 chunks 1,1 | b1, b2 a3",
    "k4 page4 | a: p4 | b: p5 | c: p6 | a4 b1 c3, c1 a2 /4 | end b | d: p4 | d2 a1 c1",
    "k4 page4w8,16 | a: p6 | a4, a4, a4, a4, a4, a4, a1, a1",
    "k4 steps1 page4 | a: p5 chunks 3,2 | a2, a1, a2",
    "k3 steps3 page4 | a: p5 chunks 4,1 | a3, a1, a2, a1",
    "k5 target page4 | a: p9 chunks 4,4,1 | a1, a5, a2",
    "k6 steps2 W1 page4 | a: p2 | a3, a1, a2",
)


def run(design: Design, text: str) -> Outcome:
    scenario = parse(text)
    timeline = Timeline(replace(scenario, spec=spec_for(design, scenario.spec)), design.prefix_policy)
    return outcome(timeline, DesignDrafter(design, timeline.config()))


def test_the_thirteen_designs() -> None:
    assert list(DESIGNS) == [
        "tokenspeed_unrepaired",
        "tokenspeed_lookback",
        "tokenspeed_frontier",
        "sglang_default",
        "sglang_boundary_fix",
        "vllm_multi_module",
        "vllm_step3p5",
        "tensorrt_llm_vanilla",
        "llama_cpp",
        "lightllm_vanilla",
        "eagle_chain",
        "frontier",
        "minimal",
    ]
    assert all(name == design.name for name, design in DESIGNS.items())


@pytest.mark.parametrize("design", DESIGNS.values(), ids=list(DESIGNS))
def test_a_declaration_does_not_contradict_itself(design: Design) -> None:
    assert (design.stash == "none") == (design.stash_length == "0")
    assert (design.rows == "advancing") == (design.seq_lens == "advance")
    assert design.one_layer == (design.hidden == ("single",))
    assert (design.tokens == "unshifted") == (design.hidden == ("previous",)) == (design.chunk_tail == "none")
    past_the_frontier = {design.first_rows, design.rows} & {"verify", "lookback", "front"}
    assert (design.sample == "accept_row") == bool(past_the_frontier)
    assert len({deviation.id for deviation in design.deviations}) == len(design.deviations)


@pytest.mark.parametrize("text", SCENARIOS)
@pytest.mark.parametrize("design", [FRONTIER, MINIMAL], ids=["frontier", "minimal"])
def test_ours_are_exact_under_every_event(design: Design, text: str) -> None:
    result = run(design, text)
    assert result.verdicts and not result.findings


@pytest.mark.parametrize("policy", ["tokens", "drop_last", "bigram", "finalized", "successor", "recompute"])
@pytest.mark.parametrize("design", [FRONTIER, MINIMAL], ids=["frontier", "minimal"])
def test_ours_add_nothing_to_what_a_prefix_policy_brings(design: Design, policy: str) -> None:
    """S21: under an exact policy nothing is wrong; under another only what stood there, the donor's continuation."""
    assert set(POLICIES) == {"tokens", "drop_last", "bigram", "finalized", "successor", "recompute"}
    found = []
    for text in (text for text in SERVING_EVENTS.values() if " hit " in text):
        timeline = Timeline(parse(text), policy)
        hits: dict[str, int] = {}
        for step, _, verdict in play(timeline, DesignDrafter(design, timeline.config())):
            hits |= {view.request.name: view.request.hit for view in step.views}
            found += [(f, hits[f.request]) for f in verdict.findings]
    assert all(f.code == "FO201" and hit - f.depth - 2 < f.position < hit for f, hit in found)
    assert bool(found) == (policy in ("tokens", "bigram", "finalized"))


def fields_used(events: tuple[Event, ...]) -> Iterator[tuple[type, str]]:
    """Each kind of event, and each of its fields that says more than its default."""
    for event in events:
        yield type(event), ""
        for field in fields(event):
            if field.default is not MISSING and getattr(event, field.name) != field.default:
                yield type(event), field.name


def test_the_serving_events_are_all_that_the_language_has() -> None:
    scenarios = [parse(text) for text in SERVING_EVENTS.values()]
    assert [render(scenario) for scenario in scenarios] == list(SERVING_EVENTS.values())
    every = {(kind, name) for kind in get_args(Event) for name in ("", *_defaulted(kind))}
    assert {pair for scenario in scenarios for pair in fields_used(scenario.events)} == every
    assert any(scenario.context for scenario in scenarios)
    assert any(group.window for scenario in scenarios for group in scenario.spec.groups)


def _defaulted(kind: Any) -> list[str]:
    return [field.name for field in fields(kind) if field.default is not MISSING]


@pytest.mark.parametrize(
    ("name", "hits"),
    [
        ("prefix hit on a live donor", [8]),
        ("prefix hit on an ended donor", [8]),
        ("multi-turn", [12, 20]),
        ("resume on cached pages", [8]),
        ("prefix hit in a sliding window", [16]),
        ("prefix hit that a wrapped ring has lost", []),
        ("conv checkpoint at a page boundary", [8]),
        ("media", [8]),
    ],
)
def test_the_events_with_a_hit_have_one(name: str, hits: list[int]) -> None:
    timeline = Timeline(parse(SERVING_EVENTS[name]))
    drafter, found = DesignDrafter(FRONTIER, timeline.config()), []
    drafter.adopted = lambda step: found.append(step.length)  # type: ignore[method-assign]
    for _ in play(timeline, drafter):
        pass
    assert found == hits


def known_texts(design: Design) -> list[str]:
    """The scenarios; the context's end only for designs that keep to the physical pad (S22)."""
    return [text for text in SCENARIOS if " ctx" not in text or not design.deviations]


@pytest.mark.parametrize("design", DESIGNS.values(), ids=list(DESIGNS))
def test_every_design_shows_what_it_declares_and_nothing_else(design: Design) -> None:
    """Nothing raises on any event, each finding is one of the declared deviations, and each of those is seen."""
    seen: set[str] = set()
    for text in known_texts(design):
        seen |= predict(design, scenario_for(design, parse(text))).seen
    assert seen == {deviation.id for deviation in design.deviations}


def test_a_deviation_that_a_design_leaves_out_is_seen_by_its_name() -> None:
    silent = replace(DESIGNS["lightllm_vanilla"], deviations=())
    prediction = predict(silent, scenario_for(silent, parse("k4 | a: p12 chunks 5,5,2 | a1")))
    assert {"chunk_tail_sample", "own_argmax"} <= prediction.seen


def test_a_scheduler_that_vouches_for_the_stash_cuts_no_short_last_chunk() -> None:
    """S13. A held prompt then needs fewer rounds than its list had, so those beyond are taken out."""
    text = "k4 page4 | a: p9 chunks 3,4,1,1 held | b: p6 chunks 4,2 | +a | b1 | +a | +a | +a | a1 b2"
    fitted = scenario_for(DESIGNS["vllm_multi_module"], parse(text))
    assert render(fitted) == "k4 page4 | a: p9 chunks 3,6 held | b: p6 chunks 6 | +a | b1 | +a | a1 b2"
    assert scenario_for(FRONTIER, parse(text)) == parse(text)


def test_a_head_that_a_design_does_not_serve_is_refused() -> None:
    timeline = Timeline(parse("k4 target | a: p4 | a1"))
    with pytest.raises(
        HiddenSemanticUnsupported, match="hidden=target: design tensorrt_llm_vanilla serves shifted heads"
    ):
        DesignDrafter(TENSORRT_LLM_VANILLA, timeline.config())


def test_a_spec_is_fitted_to_its_design() -> None:
    """S17, S18: rows past the accepted prefix need a deeper ring; the head is one that the design serves."""
    assert spec_for(FRONTIER, Spec(4, hidden="target")) == Spec(4, hidden="target")
    lookback = spec_for(DESIGNS["tokenspeed_lookback"], Spec(4, hidden="target"))
    assert lookback.hidden == "chain" and lookback.ring_rows >= 3 + 4 + 2


def test_one_layer_writes_its_first_layer_only() -> None:
    """The chain drafter's steps run depth 0 again, one row each; the next verify window overwrites them."""
    scenario = parse("k4 page16 | a: p12 | a1, a2")
    timeline = Timeline(replace(scenario, spec=spec_for(EAGLE_CHAIN, scenario.spec)))
    drafter = DesignDrafter(EAGLE_CHAIN, timeline.config())
    result = outcome(timeline, drafter)
    assert not result.findings
    assert Counter(e.depth for e in result.final_entries()["a"]) == {0: 15}
    untouched = DesignDrafter(EAGLE_CHAIN, timeline.config()).model.kv
    assert all((drafter.model.kv[d] == untouched[d]).all() for d in (1, 2))


@pytest.mark.parametrize(
    ("name", "text", "ids"),
    [
        ("sglang_default", "k4 page16 | a: p12 | a1, a1", {"rejected_drafts"}),
        ("sglang_default", "k4 page16 | a: p12 chunks 6,6 | a4", {"chunk_tail_sample"}),
        ("sglang_boundary_fix", "k4 page16 | a: p12 chunks 6,6 | a1, a1", {"chunk_tail_sample"}),
        ("tokenspeed_unrepaired", "k4 page16 | a: p12 chunks 5,7 | a1, a1", {"rejected_drafts", "mid_chunk_tail"}),
        ("vllm_step3p5", "k4 page16 | a: p12 | a1, a4", {"prompt_unseen"}),
        ("tensorrt_llm_vanilla", "k4 page16 | a: p12 | a4, a4", {"full_accept_hole", "hidden_left_behind"}),
        ("llama_cpp", "k4 page4 | a: p12 | b: p12 hit a 8 | b1", {"hidden_before_hit"}),
        ("lightllm_vanilla", "k4 page16 | a: p12 | a4", {"own_argmax"}),
        ("eagle_chain", "k4 page16 | a: p12 chunks 6,6 | a4", {"chunk_tail_sample"}),
        ("tokenspeed_frontier", "k4 page4 | a: p1 | a1, a1", {"short_prompt"}),
        ("minimal", "k4 page4 | a: p1 | a1, a1", set()),
    ],
)
def test_findings_are_told_by_what_is_declared(name: str, text: str, ids: set[str]) -> None:
    design, scenario = DESIGNS[name], parse(text)
    prediction = predict(design, replace(scenario, spec=spec_for(design, scenario.spec)))
    assert prediction.seen == ids
