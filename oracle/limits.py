"""Sizes beyond which a scenario is a slip of the pen: refused with one line, before memory is asked for."""

from __future__ import annotations

from frontier_oracle.oracle.errors import ScenarioError
from frontier_oracle.oracle.scenario import Scenario, max_batch, max_positions

MOST = {
    "k (spec_num_tokens)": 64,
    "conv width W": 64,
    "ring rows R": 65_536,
    "page size": 65_536,
    "hidden width H": 16_384,
    "slots": 1_024,
    "rows of a batch": 1_024,
    "positions of a request": 65_536,
}


def check_sizes(scenario: Scenario) -> None:
    """Raise ScenarioError naming the first size that is too large."""
    spec = scenario.spec
    sizes = (
        spec.k,
        spec.conv_width,
        spec.ring_rows,
        max(max(g.page_size, g.window or 0) for g in spec.groups),
        scenario.hidden_size,
        scenario.slots,
        max_batch(scenario),
        max_positions(scenario),
    )
    for (name, most), size in zip(MOST.items(), sizes, strict=True):
        if size > most:
            raise ScenarioError(f"{name} of {size:,}: at most {most:,} in a scenario")
