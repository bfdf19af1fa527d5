"""Plays a scenario on a system and keeps what an explanation needs."""

from __future__ import annotations

import shlex

from frontier_oracle.oracle.explain import explain, text
from frontier_oracle.oracle.language import render
from frontier_oracle.oracle.played import Played, watch
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.oracle.timeline import Timeline
from frontier_oracle.property_tests.driver import TorchDrafter
from frontier_oracle.property_tests.gate.system import SystemUnderTest


def watch_system(system: SystemUnderTest, scenario: Scenario, guard: bool = True) -> Played:
    """Play as the gate does: a system that declares no deviations stops at its first round with a finding, what follows
    such a round are symptoms. Raises AdapterError when the system raises."""
    timeline = Timeline(scenario, system.policy)
    drafter = TorchDrafter(system.factory, timeline.config(), guard=guard)
    return watch(timeline, drafter, stop_at_first=not system.deviates)


def tell(played: Played, system: str, finding: Finding, deviation: str = "") -> str:
    """The story of a finding on one screen. deviation: the id under which the system declares it."""
    line = render(played.outcome.scenario)
    note = f"declared: {deviation}" if deviation else ""
    return text(explain(finding, played), line, replay_command(system, line), note)


def replay_command(system: str, scenario: str) -> str:
    """What a failure prints: pasted into a shell, it fails again."""
    return f"frontier-oracle replay --system {shlex.quote(system)} {shlex.quote(scenario)}"
