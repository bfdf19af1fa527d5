"""Hypothesis strategies for configurations and scenarios, and beside them the generator and shrinker of the gate.

Needs Hypothesis; drawing.py and shrinking.py, which the gate imports, do not.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.drawing import Limits, draw_scenario, draw_spec, random_scenario
from frontier_oracle.property_tests.shrinking import shrink

__all__ = ["random_scenario", "scenarios", "shrink", "specs"]


class _HypothesisSource:
    """Each integer is a draw of its own: deleting or lowering one keeps the scenario legal and makes it simpler."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """Any configuration that the frontier design claims (chain and target heads)."""
    return draw_spec(_HypothesisSource(draw))


@st.composite
def scenarios(
    draw: st.DrawFn,
    spec: Spec | None = None,
    max_requests: int = 6,
    max_rounds: int = 16,
    hits: bool = True,
    held: bool = True,
    padding: bool = True,
) -> Scenario:
    """Legal scenarios with everything the language has. Shrinks to few events, accepts of 1, short prompts."""
    return draw_scenario(_HypothesisSource(draw), Limits(spec, max_requests, max_rounds, hits, held, padding))
