"""What is seen of TokenSpeed's drafters (adapters.evidence)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from frontier_oracle.oracle.designs import EAGLE_CHAIN
from frontier_oracle.oracle.executor import spec_for
from frontier_oracle.oracle.spec import CacheGroup, HiddenSemantic, Spec
from frontier_oracle.property_tests.adapters.captured import captured
from frontier_oracle.property_tests.adapters.deviations_found import deviations
from frontier_oracle.property_tests.bulk import run_bulk
from frontier_oracle.property_tests.drawing import SERVING, Limits, random_scenario
from frontier_oracle.property_tests.driver import run_scenario
from frontier_oracle.property_tests.exhaustive import run_exhaustive
from frontier_oracle.property_tests.gate.system import resolve
from frontier_oracle.property_tests.inductive import inductive_specs, run_inductive
from frontier_oracle.property_tests.shield import Factory

MTP = ("tokenspeed", "tokenspeed_backend")
FILES = (
    "tokenspeed/runtime/execution/drafter/base.py",
    "tokenspeed/runtime/execution/drafter/mtp.py",
    "tokenspeed/runtime/execution/drafter/eagle.py",
    "tokenspeed/runtime/layers/attention/backends/cache_groups.py",
)
LAYOUTS = ((CacheGroup(16),), (CacheGroup(4), CacheGroup(3, 8)), (CacheGroup(1, 5), CacheGroup(8)))
KS = (2, 3, 4, 8)
HEADS: tuple[HiddenSemantic, ...] = ("chain", "target")
BATCH, ROUNDS = 256, 16

Row = dict[str, Any]


def one_shot(make: Factory, k: int, seed: int, least: int) -> Row:
    """Prompts of k tokens and more, each in one chunk; every cell of every round is checked."""
    row: Row = {"k": k, "request_rounds": 0, "findings": []}
    case = 0
    while row["request_rounds"] < least:
        rng = np.random.Generator(np.random.Philox(key=[seed, 1000 * k + case]))
        steps, hidden = (k - 1, HEADS[case % 2]) if case % 3 < 2 else (1 + case % k, "chain")
        spec = Spec(k, steps, hidden, 1 + case % 4, LAYOUTS[case % len(LAYOUTS)])
        accepts = rng.integers(1, spec.max_accept + 1, (BATCH, ROUNDS))
        padded = BATCH + case % 3
        result = run_bulk(make, spec, accepts, prompt=k + case * 5 % 17, pad_to=padded, threads=1, seed=seed)
        row["request_rounds"] += result.request_rounds
        row["findings"] += [list(failure) for failure in result.failures]
        case += 1
    return row


def mtp(seed: int, device: str, least: int) -> dict[str, list[Row]]:
    """Both ways to a row's cell: eager, captured, every accept sequence, the inductive step."""
    found: dict[str, list[Row]] = {"eager": [], "captured": [], "exhaustive": [], "inductive": []}
    for name in MTP:
        make = resolve(name).factory
        for k in KS:
            found["eager"].append({"system": name, **one_shot(make, k, seed, least)})
            found["captured"].append({"system": name, **one_shot(captured(make, device), k, seed + 1, least)})
        for k, rounds in ((2, 8), (3, 6), (4, 6)):
            run = run_exhaustive(make, Spec(k), rounds, threads=1)
            row = {"system": name, "k": k, "R": rounds, "request_rounds": run.request_rounds}
            found["exhaustive"].append({**row, "findings": [list(f) for f in run.failures]})
        for spec in inductive_specs("dev"):
            step = run_inductive(make, spec, "declared")
            row = {"system": name, "k": spec.k, "steps": spec.steps, "hidden": spec.hidden, "cases": step.cases}
            found["inductive"].append({**row, "findings": [list(map(str, f)) for f in step.failures] + [*step.skipped]})
    return found


def eagle(seed: int, scenarios: int) -> list[Row]:
    """Random scenarios, pages keyed by bigrams as a one-layer drafter needs (S21), and by tokens for contrast."""
    rows = []
    for policy in ("bigram", "tokens"):
        row: Row = {"policy": policy, "scenarios": scenarios, "request_rounds": 0, "findings": 0, "codes": {}}
        for index in range(scenarios):
            drawn = random_scenario(seed, index, Limits(events=SERVING if index % 2 else frozenset()))
            spec = spec_for(EAGLE_CHAIN, drawn.spec)
            scenario = type(drawn)(spec, drawn.hidden_size, drawn.slots, drawn.events, drawn.context)
            outcome = run_scenario(resolve("tokenspeed_eagle").factory, scenario, policy, guard=index % 8 == 0)
            row["request_rounds"] += outcome.request_rounds
            row["findings"] += len(outcome.findings)
            for finding in outcome.findings:
                row["codes"][finding.code] = row["codes"].get(finding.code, 0) + 1
        rows.append(row)
    return rows


def parts(seed: int, device: str, request_rounds: int, scenarios: int) -> Iterator[tuple[str, Any]]:
    """The result's parts, one after the other."""
    yield "one_shot", mtp(seed, device, request_rounds)
    yield "random", [deviations(system, seed, scenarios) for system in MTP]
    yield "eagle", eagle(seed, scenarios)


def clean(result: Row) -> bool:
    """Whether nothing undeclared was seen."""
    found = [row["findings"] for rows in result["one_shot"].values() for row in rows]
    found += [row["undeclared"] for row in result["random"]]
    return not any(found) and not result["eagle"][0]["findings"]
