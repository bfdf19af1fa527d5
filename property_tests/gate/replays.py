"""Captured rounds against eager ones: the same books, launched operation by operation, must leave the same (S23)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from frontier_oracle.oracle.evidence import Evidence
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.oracle.timeline import Adopted, Released, Round, Timeline
from frontier_oracle.property_tests.driver import TorchDrafter
from frontier_oracle.property_tests.shield import Factory


def replay_differs(captured: Factory, eager: Factory, scenario: Scenario, policy: str) -> tuple[Finding | None, int]:
    """(FO301 at the first round that a captured system leaves otherwise than its eager twin, or None; request-rounds
    until then). What counts is what was returned, and every cell and stash row. Raises AdapterError when a system
    raises."""
    rounds = 0
    pairs = zip(_played(captured, scenario, policy), _played(eager, scenario, policy), strict=True)
    for (step, one), (_, two) in pairs:
        if one.moved:
            break  # nothing was replayed
        rounds += len(step.views)
        theirs = _left(two)
        differing = [name for name, mine in _left(one).items() if not np.array_equal(mine, theirs[name])]
        if differing:
            because = f"{', '.join(differing)}: not as the same round leaves it when it runs eagerly"
            return Finding("FO301", step.index, "", detail={"because": because}), rounds
    return None, rounds


def _played(factory: Factory, scenario: Scenario, policy: str) -> Iterator[tuple[Round, Evidence]]:
    """The scenario's rounds, unjudged: two systems that leave the same are given the same."""
    timeline = Timeline(scenario, policy)
    drafter = TorchDrafter(factory, timeline.config(), guard=False)
    for step in timeline.steps():
        if isinstance(step, Round):
            evidence = drafter.round(step)
            yield step, evidence
            timeline.commit(step, evidence.returned)
        elif isinstance(step, Adopted):
            drafter.adopted(step)
        elif isinstance(step, Released):
            drafter.released(step)


def _left(evidence: Evidence) -> dict[str, Any]:
    """What a round left, by name."""
    left: dict[str, Any] = {"drafts": evidence.returned, "conv ring": evidence.ring, "checkpoints": evidence.ckpt}
    left |= {f"KV of depth {depth}": cells for depth, cells in enumerate(evidence.kv)}
    if evidence.stash is not None:
        left |= {f"stash ({name})": value for name, value in vars(evidence.stash).items()}
    return left
