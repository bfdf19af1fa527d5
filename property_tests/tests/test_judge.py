"""The judge: every rule can be broken, every entry state reached, and causes stand at exactly the right entries."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from frontier_oracle.oracle.designs import DESIGNS, FRONTIER, TOKENSPEED_FRONTIER, Design
from frontier_oracle.oracle.evidence import Evidence
from frontier_oracle.oracle.executor import DesignDrafter
from frontier_oracle.oracle.judge import ORDER
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.ledger import CAUSES
from frontier_oracle.oracle.play import Outcome, outcome
from frontier_oracle.oracle.rules import RULES
from frontier_oracle.oracle.timeline import Round, Timeline
from frontier_oracle.property_tests.driver import run_scenario
from frontier_oracle.property_tests.mutants.planting import BASES
from frontier_oracle.property_tests.mutants.survey import PLANTED, mutant_of

Cells = set[tuple[int, int]]

NOT_YET = {
    "FO402": "refusals (MIXED batches, data parallel): with the adapters",
    "FO403": "refusals (MIXED batches, data parallel): with the adapters",
    "FO501": "outputs of a real target: with the real model",
    "FO601": "not the judge's: the gate compares two runs",
}


def test_every_rule_has_a_fault_that_breaks_it() -> None:
    planted = {mutant.code for mutant in PLANTED.values()}
    assert planted | set(NOT_YET) == set(RULES)
    assert planted & set(NOT_YET) == set()
    assert set(ORDER) == planted - {"FO301"}, "FO301 is not the judge's: two systems are compared"


# ---- entry states (SEMANTICS 3) -------------------------------------------------------------------------------------


def cells(result: Outcome, round_: int, request: str, state: str) -> Cells:
    """(depth, position) of a request's entries in a state, after a round."""
    return {(e.depth, e.position) for e in result.verdicts[round_].entries if (e.request, e.state) == (request, state)}


def of_design(text: str, design: Design) -> Outcome:
    timeline = Timeline(parse(text), design.prefix_policy)
    return outcome(timeline, DesignDrafter(design, timeline.config()))


def of_mutant(text: str, mutant_id: str) -> Outcome:
    mutant = mutant_of(mutant_id)
    return run_scenario(mutant.factory("frontier"), parse(text), mutant.policy("frontier"), guard=False)


def test_exact_is_committed_all_through_and_provisional_is_not() -> None:
    result = of_design("k3 | a: p4 | a2", FRONTIER)
    committed = {(d, p) for d in range(2) for p in range(6) if p + d + 1 <= 6}
    assert cells(result, 1, "a", "exact") == committed
    assert cells(result, 1, "a", "provisional") == {(1, 5)}


def test_while_the_prompt_is_read_entries_beyond_the_last_known_token_are_provisional() -> None:
    result = of_design("k4 | a: p6 chunks 5,1", FRONTIER)
    assert cells(result, 0, "a", "provisional") == {(1, 4), (2, 3), (2, 4)}
    assert cells(result, 1, "a", "provisional") == {(1, 5), (2, 4), (2, 5)}
    assert result.cause_entries() == set()


def test_unwritten_is_what_no_row_wrote() -> None:
    result = of_mutant("k3 | a: p4 | a1", "first_chunk_row_dropped")
    assert cells(result, 0, "a", "unwritten") == {(0, 0), (1, 0)}
    assert cells(result, 0, "a", "tainted") == {(1, 1), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3)}


def test_foreign_is_what_another_requests_call_wrote() -> None:
    result = of_mutant("k2 page4 W1 | a: p4 | b: p4 | a1 b1", "written_to_neighbour")
    assert cells(result, 2, "a", "foreign") == cells(result, 2, "b", "foreign") == {(0, 3), (0, 4)}
    assert result.findings[0].code == "FO204"


def test_stale_is_a_rejected_draft_that_nothing_wrote_again() -> None:
    result = of_mutant("k4 | a: p6 chunks 5,1", "no_rerun")
    assert cells(result, 1, "a", "stale") == {(1, 4), (2, 3), (2, 4)}
    assert {f.code for f in result.findings} == {"FO201"}


def test_wrong_has_the_right_tokens_at_the_wrong_place_or_over_the_wrong_hidden() -> None:
    for mutant_id in ("positions_behind", "hidden_row_before", "seq_lens_not_reanchored"):
        result = of_mutant("k3 page16 | a: p9 | a1", mutant_id)
        assert cells(result, 1, "a", "wrong") >= {(0, 8), (0, 9)}
        assert cells(result, 1, "a", "stale") == set()


def test_tainted_was_given_the_right_things_and_read_a_wrong_entry() -> None:
    result = of_mutant("k4 W1 | a: p6 chunks 5,1", "no_rerun")
    assert cells(result, 1, "a", "tainted") == {(2, 5)}  # depth 1's output at 5 attends to the stale (1, 4)
    assert not any(e.equal for e in result.verdicts[1].entries if e.state in CAUSES)


def test_garbage_past_the_frontier_is_no_entry() -> None:
    """Clamped windows write rows past the frontier: they are nobody's entries, and later rounds write over them."""
    result = of_design("k4 page4 | a: p1 | a1", TOKENSPEED_FRONTIER)
    assert {(e.depth, e.position) for e in result.verdicts[1].entries} == {(d, p) for d in range(3) for p in range(2)}


# ---- the published design's deviations (SEMANTICS 9) ----------------------------------------------------------------

MID_CHUNK = {(1, 4), (1, 9), (2, 3), (2, 4), (2, 8), (2, 9)}
DONOR = {(0, 7), (1, 6), (1, 7), (2, 5), (2, 6), (2, 7)}
REUSED = "k4 page4 | a: p12 | z: p12 | end z | "


def published(text: str) -> Outcome:
    """The published design, run twice: the reference drafter and the executor of its declaration agree."""
    result = run_scenario(BASES["tokenspeed_frontier"], parse(text), "tokens", guard=False)
    assert result.cause_entries() == of_design(text, TOKENSPEED_FRONTIER).cause_entries()
    return result


def test_mid_chunk_tail() -> None:
    result = published("k4 page16 | a: p12 chunks 5,5,2 | a1")
    assert cells(result, 2, "a", "stale") == MID_CHUNK
    assert all(e.equal for e in result.verdicts[2].entries if e.depth == 0)
    assert {e.state for _, e in result.cause_entries()} == {"stale"}
    # The window after an accept of 1 reaches position 9 and heals what it runs again.
    assert cells(result, 3, "a", "stale") == MID_CHUNK - {(2, 9), (1, 9)}


def test_short_prompt() -> None:
    result = published("k4 page4 | a: p1 | a1, a1")
    assert {(e.depth, e.position) for r, e in result.cause_entries() if r == 2} == {
        (d, p) for d in range(3) for p in range(3)
    }


def test_short_prompt_heals_only_where_a_round_ends_at_k() -> None:
    assert published("k4 page4 | a: p1 | a3, a1").cause_entries() == set()
    never = published("k4 page4 | a: p1 | a1, a4, a4, a4")
    assert cells(never, 4, "a", "stale") == {(d, p) for d in range(3) for p in range(2)}


def test_short_chunk_after_a_hit() -> None:
    result = published(REUSED + "b: p9 hit a 8 | b1")
    assert cells(result, 3, "b", "foreign") == {(d, p) for d in range(3) for p in (6, 7)}
    assert cells(result, 3, "b", "stale") == {(2, 5)}  # the donor's, out of the window's reach
    result = published(REUSED + "b: p10 hit a 8 | b1")
    assert cells(result, 3, "b", "foreign") == {(0, 7), (1, 7), (2, 7)}
    assert cells(result, 3, "b", "stale") == DONOR - {(0, 7), (1, 7), (2, 7)}


def test_donor_continuation() -> None:
    text = "k4 page4 | a: p12 | b: p12 hit a 8"
    assert cells(published(text), 1, "b", "stale") == DONOR
    assert of_design(text, FRONTIER).cause_entries() == set()


# ---- state that no row explains -------------------------------------------------------------------------------------


class Touched(DesignDrafter):
    """The exact design, and something that is done to its state behind everybody's back in one round."""

    touch: Callable[[Evidence], Evidence]
    at = 0

    def round(self, step: Round) -> Evidence:
        evidence = super().round(step)
        return type(self).touch(evidence) if step.index == self.at else evidence


def touched(text: str, at: int, touch: Callable[[Evidence], Evidence]) -> list[str]:
    timeline = Timeline(parse(text))
    drafter_class = type("Drafter", (Touched,), {"touch": staticmethod(touch), "at": at})
    result = outcome(timeline, drafter_class(FRONTIER, timeline.config()), stop_at_first=True)
    return [finding.code for finding in result.findings]


def kv(evidence: Evidence) -> Evidence:
    evidence.kv[0][-1] ^= 1  # a cell of a free page
    return evidence


def ring(evidence: Evidence) -> Evidence:
    evidence.ring[0, 4, 0] ^= 1  # a slot that nobody has
    return evidence


def idle_stash(evidence: Evidence) -> Evidence:
    assert evidence.stash is not None
    hidden = evidence.stash.hidden.copy()
    hidden[1] ^= 1
    return replace(evidence, stash=replace(evidence.stash, hidden=hidden))


def checkpoint(evidence: Evidence) -> Evidence:
    evidence.ckpt[1, 1] ^= 1
    return evidence


@pytest.mark.parametrize(
    ("touch", "code"), [(kv, "FO204"), (ring, "FO204"), (idle_stash, "FO206"), (checkpoint, "FO208")]
)
def test_every_cell_is_compared_live_free_or_idle(touch: Callable[[Evidence], Evidence], code: str) -> None:
    text = "k4 page4 | a: p9 | b: p9"
    assert touched(text, 1, lambda evidence: evidence) == []
    # In round 1 only b is in the batch. a's checkpoint is looked at when a is: b's own is what is touched there.
    if touch is checkpoint:
        assert touched(text, 0, touch) == [code]
    else:
        assert touched(text, 1, touch) == [code]


def test_findings_of_a_round_come_in_the_order_of_causes() -> None:
    result = of_mutant("k4 page4 | a: p9 | b: p6 | a2 b3", "written_to_neighbour")
    places = [ORDER.index(f.code) for f in result.verdicts[2].findings]
    assert places == sorted(places) and len(set(places)) > 1


def test_an_entry_that_went_stale_is_reported_once() -> None:
    result = of_design("k4 page16 | a: p12 chunks 5,5,2 | a4, a4", DESIGNS["tokenspeed_frontier"])
    found = [(f.depth, f.position) for f in result.findings]
    assert len(found) == len(set(found))
    assert np.array_equal(sorted(set(found)), sorted(MID_CHUNK))
