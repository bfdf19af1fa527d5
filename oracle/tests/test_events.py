"""What a serving engine does beside decoding: how it is written, when it is legal, what the engine then hands out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from frontier_oracle.oracle.contract import DecodeBatch, ExtendBatch
from frontier_oracle.oracle.engine_requests import MEDIA
from frontier_oracle.oracle.errors import ScenarioError
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.repro import scenario_from_dict, scenario_to_dict
from frontier_oracle.oracle.scenario import Abort, Admit, Decode, Preempt, Resume
from frontier_oracle.oracle.timeline import Released, Round, Step, Timeline

TEXTS = {
    "a: p4 | abort a": (Admit("a", 4), Abort("a")),
    "a: p4 | preempt a | a: resume": (Admit("a", 4), Preempt("a"), Resume("a")),
    "a: p4 | preempt a | a: resume hit a 3 chunks 1,1 held": (
        Admit("a", 4),
        Preempt("a"),
        Resume("a", (1, 1), ("a", 3), True),
    ),
    "a: p4 | b: p4 | a4e2 b1!": (Admit("a", 4), Admit("b", 4), Decode((("a", 4), ("b", 1)), None, (("a", 2),), ("b",))),
    "a: p4 | b: p4 | a0 b2 /3": (Admit("a", 4), Admit("b", 4), Decode((("a", 0), ("b", 2)), 3)),
    "a: p9 chunks 5,4 media 1-2,8-8": (Admit("a", 9, (5, 4), media=((1, 2), (8, 8))),),
}


@pytest.mark.parametrize("text", TEXTS)
def test_text_objects_and_json_are_one(text: str) -> None:
    scenario = parse(f"k4 ctx20 | {text}")
    assert scenario.events == TEXTS[text] and scenario.context == 20
    assert render(scenario) == f"k4 ctx20 | {text}"
    assert scenario_from_dict(json.loads(json.dumps(scenario_to_dict(scenario)))) == scenario


def test_data_of_before_these_events_still_reads_and_is_written_the_same() -> None:
    data = scenario_to_dict(parse("k4 | a: p4 | a2"))
    assert data["events"][0].keys() == {"type", "name", "prompt", "chunks", "like", "held"}
    assert data["events"][1].keys() == {"type", "rows", "bucket"}
    assert "context" not in data


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("abort a", "abort of unknown request a"),
        ("a: p4 | end a | abort a", "which has ended"),
        ("a: p4 | preempt a | a1", "which is preempted: bring it back with 'a: resume'"),
        ("a: p4 | a: resume", "which holds its slot: 'preempt a' must stand before it"),
        ("a: p4 | preempt a | a: resume chunks 2,2", "chunks sum to 4, expected the 5 known tokens of a (prompt"),
        ("a: p4 | b: p4 | preempt a | a: resume hit b 2", "resumes on its own tokens only"),
        ("a: p4 | a3e4", "4 tokens committed of request a: expected 1..3"),
        ("a: p4 | a3e0", "0 tokens committed of request a: expected 1..3"),
        ("a: p4 | a0", "every row is idle (a0): at least one must accept 1..4 tokens (min(k, steps+1))"),
        ("a: p4 | b: p4 | a0e1 b1", "row of request a is idle or not there: marks e and ! stand on rows that accept"),
        ("a: p4 | b: p4 | a0! b1", "row of request a is idle or not there"),
        ("a: p4 | a1 b0", "idle row of unknown request b"),
        ("a: p4 | a1! | a2", "whose drafts were thrown away: expected 1"),
        ("a: p4 | a2e1!", "it ends with the round, leave the ! out"),
        ("a: p4 media 3-4", "media 3-4: expected rising ranges inside a prompt of 4"),
        ("a: p4 media 3", 'at "3", expected the first and last position of media ids'),
        ("a: resume media 1-2", "expected each of resume, chunks"),
        ("a: p7", "prompt of 7 in a context of 7"),
        ("a: p4 | a2 | a1", "whose context of 7 tokens is full: end it"),
        ("a: p4 | a4 | preempt a | a: resume", "whose context is full: abort it"),
    ],
)
def test_what_cannot_happen_is_refused(text: str, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(f"k4 ctx7 | {text}")
    assert says in str(caught.value) and "\n" not in str(caught.value)


def played(text: str) -> list[Step]:
    """A scenario's steps, its drafter returning the same drafts in every round."""
    timeline = Timeline(parse(text))
    out = []
    for step in timeline.steps():
        out.append(step)
        if isinstance(step, Round):
            timeline.commit(step, np.full((len(step.views), timeline.spec.steps + 1), 7, dtype=np.int32))
    return out


def last(text: str) -> Round:
    step = played(text)[-1]
    assert isinstance(step, Round)
    return step


def test_a_resumed_request_reads_prompt_and_output_again_and_goes_on_as_it_would_have() -> None:
    resumed = last("k4 page4 | a: p5 | a3 | preempt a | a: resume chunks 4,5")
    assert isinstance(resumed.batch, ExtendBatch)
    assert (resumed.batch.prefix_lens, resumed.batch.extend_lens, resumed.batch.is_final) == ((4,), (5,), (True,))
    straight = last("k4 page4 | a: p5 | a3, a1").views[0]
    assert resumed.views[0].tokens.tolist() == straight.tokens.tolist()
    assert resumed.views[0].hidden.tolist() == straight.hidden.tolist()
    assert len(resumed.views[0].request.drafts) == 3 and resumed.views[0].computed == 9


def test_tokens_behind_an_end_are_not_known() -> None:
    *_, decode, released = played("k4 | a: p5 | a4e2")
    assert isinstance(decode, Round) and isinstance(released, Released)
    assert decode.views[0].computed == 9, "the drafter was told of all four"
    assert len(released.request.tokens) == 5 + 1 + 2
    with pytest.raises(ScenarioError, match="only 8 tokens of a are known"):
        parse("k4 | a: p5 | a4e2 | b: p10 hit a 9")


def test_thrown_away_drafts_are_no_candidates() -> None:
    with_drafts, without = last("k4 | a: p5 | a1, a1"), last("k4 | a: p5 | a1!, a1")
    assert isinstance(with_drafts.batch, DecodeBatch) and isinstance(without.batch, DecodeBatch)
    assert with_drafts.batch.verify_ids.tolist() == without.batch.verify_ids.tolist()
    assert with_drafts.batch.hidden[0] == without.batch.hidden[0]
    assert set(with_drafts.batch.hidden[1:]).isdisjoint(without.batch.hidden[1:])


def test_idle_rows_are_padding_and_keep_their_place() -> None:
    step = last("k4 | a: p5 | b: p6 | b0 a2 /3")
    assert isinstance(step.batch, DecodeBatch)
    assert step.rows == (1,) and step.idles_between and [v.request.name for v in step.views] == ["a"]
    assert step.batch.req_pool_indices.tolist() == [1, 0, 0] and step.batch.seq_lens.tolist() == [5, 1, 1]


def test_media_ids_are_hashes_for_the_engine_and_tokens_for_the_heads() -> None:
    timeline = Timeline(parse("k4 page2 | a: p6 chunks 3,3 media 3-4 | b: p7 hit a 5"))
    assert timeline.config().media == MEDIA and Timeline(parse("k4 | a: p1")).config().media is None
    first, second, other = (step for step in timeline.steps() if isinstance(step, Round))
    hashed = [id_ >= MEDIA.vocab_size for id_ in first.batch.next_ids[0].tolist()]
    assert hashed == [True, True, False] and second.batch.input_ids.max() >= MEDIA.vocab_size
    assert second.views[0].tokens.max() < MEDIA.vocab_size
    assert {int(t) for t in second.views[0].tokens[3:5]} == {17, 23}
    assert other.views[0].request.media == second.views[0].request.media


def test_a_context_leaves_k_minus_1_spare_positions() -> None:
    timeline = Timeline(parse("k4 page1 ctx10 | a: p7 | a1, a4"))
    assert timeline.max_positions == 13 and timeline.config().cols == (13,)
