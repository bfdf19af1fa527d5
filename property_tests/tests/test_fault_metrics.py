"""Counters that engines really got wrong: the reports' numbers on each fault's smallest input, beside the wrong
formula, which that input tells apart. Rounds come from the serving engine of a scenario, so what is counted did happen.
"""

from __future__ import annotations

import numpy as np
import pytest

from frontier_oracle.oracle.errors import StepsExceedWindow
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.scenario import Admit, Decode
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.reports.analysis.means import estimate, per_unit
from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.canonical import Header, Trace


def trace_of(text: str) -> Trace:
    """The rounds of a scenario as an engine would log them: candidates verified, accepted and committed tokens."""
    scenario = parse(text)
    steps, k = scenario.spec.steps, scenario.spec.k
    columns = ("drafted", "al_raw", "al_committed")
    rounds: dict[str, dict[str, list[int]]] = {}
    undrafted: set[str] = set()
    for event in scenario.events:
        if isinstance(event, Admit):
            rounds[event.name] = {column: [] for column in columns}
        elif isinstance(event, Decode):
            for name, accept in event.live:
                row = (0 if name in undrafted else min(steps, k - 1), accept, dict(event.ends).get(name, accept))
                for column, value in zip(columns, row, strict=True):
                    rounds[name][column].append(value)
            undrafted = (undrafted - dict(event.live).keys()) | set(event.undrafted)
    builder = TraceBuilder(Header("test", order_known="rounds", truncation="both", k_verify_width=k, k_draft=steps))
    for line, (name, own) in enumerate(rounds.items()):
        emitted = 1 + sum(own["al_committed"])  # the token that the prompt's last chunk sampled, then the rounds'
        builder.add(Unit(name, line + 1, completion_tokens=emitted, prefill_in_rounds=False, rounds=own))
    return builder.finish()


def value(trace: Trace, key: str, aggregation: str = "pooled") -> float:
    found = estimate(trace, key, aggregation).value
    assert found is not None
    return found


def test_requests_apart_from_their_sum() -> None:
    """vllm-project/vllm#44487: one request at the floor and one at the ceiling are hidden in their total."""
    even, uneven = trace_of("k4 | a: p4 | b: p4 | a2 b3, a3 b2"), trace_of("k4 | a: p4 | b: p4 | a1 b4, a1 b4")
    assert value(even, "al_raw") == value(uneven, "al_raw") == 2.5  # all that the total says
    assert per_unit(even, "al_raw").tolist() == [2.5, 2.5] != per_unit(uneven, "al_raw").tolist() == [1.0, 4.0]


def test_accepted_committed_and_emitted() -> None:
    """vllm-project/vllm#56137: EOS inside an accepted run; three counts, none of which stands for another."""
    trace = trace_of("k4 page4 | a: p7 | a3, a4e2")
    assert value(trace, "al_raw") == (3 + 4) / 2
    assert value(trace, "al_committed") == (3 + 2) / 2
    assert value(trace, "completion_over_verify") == (1 + 3 + 2) / 2
    assert value(trace, "completion_less_prefill") == value(trace, "al_committed")
    uncut = trace_of("k4 page4 | a: p7 | a3, a4")  # what one counter for both would say
    assert value(uncut, "al_committed") == value(trace, "al_raw") != value(trace, "al_committed")


def test_drafts_that_nobody_verified() -> None:
    """ggml-org/llama.cpp#14104: drafts that were thrown away are in no denominator, as if they had been rejected."""
    trace = trace_of("k4 | a: p6 | a4!, a1, a2")
    verified, proposed = 3 + 0 + 3, 3 * 3
    assert value(trace, "rate_drafted") == (3 + 0 + 1) / verified
    assert value(trace, "rate_configured") == (3 + 0 + 1) / proposed != value(trace, "rate_drafted")


def test_drafts_are_not_steps_and_one() -> None:
    """sgl-project/sglang#13212: over the drafts that are verified, not over steps + 1 where the two are not the same.

    More depths than the window has rows are refused (k=4, steps=5); with steps = k the last draft has no row."""
    with pytest.raises(StepsExceedWindow):
        Spec(4, steps=5)
    trace = trace_of("k4 steps4 | a: p6 | a4, a1")
    assert value(trace, "rate_drafted") == 3 / (2 * 3)
    assert value(trace, "rate_drafted") != 3 / (2 * (4 + 1)) and value(trace, "rate_configured") == 3 / (2 * 4)


def test_rounds_whose_drafter_was_skipped() -> None:
    """vllm-project/vllm#34734: such a round has no drafts; counted as one with drafts it lowers the rate."""
    trace, without = trace_of("k4 | a: p6 | a4!, a1!, a1, a4"), trace_of("k4 | a: p6 | a4, a4")
    drafted = trace.rounds["drafted"]
    assert drafted.tolist() == [3, 0, 0, 3]
    assert value(trace, "rate_drafted") == value(without, "rate_drafted") == 1.0
    assert value(trace, "rate_configured") == 0.5  # every round taken for one with drafts
    lengths = trace.rounds["al_raw"]
    assert np.mean(lengths[drafted > 0]) == 4.0 and value(trace, "al_raw") == 2.5
