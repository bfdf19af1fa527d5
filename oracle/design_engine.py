"""A scenario as the engine around a design runs it: its spec, and its chunks as that engine's scheduler cuts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from frontier_oracle.oracle.designs import Design
from frontier_oracle.oracle.events import Admit, Event, Extend, Resume
from frontier_oracle.oracle.executor import spec_for
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.oracle.spec import Spec


def schedule(design: Design, spec: Spec, chunks: Sequence[int]) -> tuple[int, ...]:
    """The chunks of one prompt: a scheduler that vouches for the stash makes no last chunk below ``steps``."""
    cut = list(chunks)
    while design.stash_validity == "scheduler" and len(cut) > 1 and cut[-1] < spec.steps:
        cut[-2:] = [cut[-2] + cut[-1]]
    return tuple(cut)


def scenario_for(design: Design, scenario: Scenario) -> Scenario:
    """``scenario`` with the design's spec and chunks; a held prompt's rounds are as many as its chunks then are."""
    spec, events = spec_for(design, scenario.spec), list[Event]()
    left: dict[str, int] = {}  # rounds of a held request whose chunks became fewer
    for event in scenario.events:
        if isinstance(event, Admit | Resume) and event.chunks:
            cut = schedule(design, spec, event.chunks)
            if cut != event.chunks:
                event = replace(event, chunks=cut)
                left[event.name] = len(cut)
        elif isinstance(event, Extend):
            names = tuple(name for name in event.names if left.get(name, 1) > 0)
            left |= {name: left[name] - 1 for name in names if name in left}
            if not names:
                continue
            event = Extend(names)
        events.append(event)
    return replace(scenario, spec=spec, events=tuple(events))
