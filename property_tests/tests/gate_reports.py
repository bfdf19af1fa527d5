"""Hand-made gate reports: what the writers are tested on, whatever the gate's speed."""

from __future__ import annotations

from dataclasses import replace

from frontier_oracle.property_tests.gate.results import (
    DIVERGENCE,
    EQUAL,
    CheckResult,
    DeviationSeen,
    FindingReport,
    GateReport,
    MutantResult,
    SystemResult,
)

ENVIRONMENT = {
    "frontier_oracle": "0.1.0",
    "python": "3.11.7",
    "numpy": "2.4.6",
    "torch": "2.13.0",
    "machine": "Linux x86_64",
    "cores": "2",
    "commit": "abc1234",
}
SCENARIO = "k4 page4 | a: p9 | a1"
STORY = (
    "FO101 wrong token (S1 S5 S7 S12 S13)",
    "  where     round 1 (decode of a, accept 1, frontier 9 to 10), request a, depth 0, position 6",
    f"  scenario  {SCENARIO}",
    "  because   what it got is that of position 8, not 7: off by +1",
    f"  replay    frontier-oracle replay --system mine '{SCENARIO}'",
)
FAILURE = FindingReport(
    "FO101", "wrong token", "S1 S5 S7 S12 S13", False, 1, "a", 0, 6, {"expected": 7, "got": 8}, SCENARIO,
    "k4 page4 | a: p9 | a1, a3, a2", STORY, f"frontier-oracle replay --system mine '{SCENARIO}'",
)  # fmt: skip
BATCH_ONLY = FindingReport("FO204", "foreign write", "S19", False, -1, "", -1, -1, {"because": "only in a batch: <&>"})
DECLARED = replace(FAILURE, declared=True, scenario="k4 | a: p12 chunks 5,5,2", original="", story=())

GREEN = GateReport(
    verdict=EQUAL,
    sentence="Equal: frontier kept its books. Not proven: attention and rotary numerics, samplers, quantised KV.",
    seed=3,
    profile="ci",
    systems=(
        SystemResult(
            "frontier",
            (
                CheckResult("random", "random", 1100, 12345, seconds=12.345),
                CheckResult("traces k=4", "traces", 10, 320, seconds=1.0, notes=("7 of 320 rounds clipped to k=4",)),
                CheckResult("gpu", "host", 0, 0, skipped="no CUDA device"),
            ),
        ),
        SystemResult(
            "tokenspeed_frontier", (CheckResult("known", "known", 23, 140, findings=(DECLARED,), seconds=3.25),)
        ),
    ),
    mutants=(
        MutantResult("ids_at_accept", "frontier", "FO101", "FO101", SCENARIO, 2),
        MutantResult("stash_not_rolled", "frontier", "FO206", "FO206", SCENARIO, 2),
    ),
    deviations=(
        DeviationSeen("mid_chunk_tail", "tokenspeed_frontier", "the last rows read drafts", True),
        DeviationSeen("short_prompt", "tokenspeed_frontier", "positions clamp to 0", False),
    ),
    environment=ENVIRONMENT,
    seconds=16.6,
)
RED = replace(
    GREEN,
    verdict=DIVERGENCE,
    sentence="Divergence: mine diverged from the oracle; 1 of 2 planted faults were not killed by their own code.",
    systems=(
        SystemResult("mine", (CheckResult("known", "known", 23, 140, findings=(FAILURE, BATCH_ONLY), seconds=3.0),)),
    ),
    mutants=(GREEN.mutants[0], replace(GREEN.mutants[1], got="")),
    deviations=(),
)
NOTHING = replace(GREEN, verdict="nothing ran", sentence="Nothing ran.", systems=(), mutants=(), deviations=())
