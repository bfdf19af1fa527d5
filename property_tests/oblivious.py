"""Evidence for obliviousness: the same states under other symbols must give the same indices, call for call.

The inductive step tries one set of symbols. If a system's bookkeeping is gathers by index, no other set can differ;
that is declared, and this is evidence for it, not proof.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from frontier_oracle.oracle.calls import CallLog
from frontier_oracle.oracle.inductive import Domain, cases_of
from frontier_oracle.oracle.inductive_state import InductiveStep
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.bulk import BrokenContract
from frontier_oracle.property_tests.inductive_step import NEEDS, SteppedSystem
from frontier_oracle.property_tests.shield import Factory

I64 = NDArray[np.int64]
# An index that follows the tokens is the wrong index for some tokens: the rule of that index names it.
INDICES = {
    "positions": "FO103",
    "query_start_loc": "FO107",
    "seq_lens": "FO107",
    "conv_slots": "FO207",
    "sample_rows": "FO105",
    "masked": "FO104",
    "out_cache_loc": "FO104",
    "page_table": "FO104",
}
SPECS = (Spec(4, groups=(CacheGroup(4), CacheGroup(4, 4))), Spec(3, 3, "target", groups=(CacheGroup(3),)))
RELABELLINGS = 4


@dataclass
class ObliviousResult:
    """cases: states run; relabellings: of each; failures: (rule code, in words), the first of each relabelling."""

    cases: int = 0
    relabellings: int = RELABELLINGS
    failures: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class Run:
    """One round's calls, and what it was given and drew, to map its ids onto another run's.

    ids [B, n]: each case's input tokens in a fixed order, then the drafts that the round returned for it.
    """

    calls: list[CallLog]
    ids: I64


def run_oblivious(
    factory: Factory, domain: Domain = "full", specs: tuple[Spec, ...] = SPECS, relabellings: int = RELABELLINGS
) -> ObliviousResult:
    """Run the states of ``specs`` under several sets of symbols and compare every call with the first set's."""
    result = ObliviousResult(relabellings=relabellings)
    start = time.perf_counter()
    for spec in specs:
        (cases,) = cases_of(spec, domain).batches(1 << 30)
        result.cases += len(cases)
        try:
            first = _run(factory, InductiveStep(spec, cases, padded=2))
            for label in range(1, relabellings + 1):
                other = _run(factory, InductiveStep(spec, cases, padded=2, relabel=label))
                what = compare(first, other)
                result.failures += [what] if what else []
        except BrokenContract as broken:
            result.failures.append(("FO401", str(broken)))
    result.seconds = time.perf_counter() - start
    return result


@torch.no_grad()
def _run(factory: Factory, step: InductiveStep) -> Run:
    run = SteppedSystem(factory, step, record=True)
    if not run.capabilities >= NEEDS:
        raise BrokenContract(f"the system has no {', '.join(sorted(NEEDS - run.capabilities))}")
    returned = run.decode().astype(np.int64)
    count = step.count
    given = (step.tokens, step.batch.verify_ids[:count], step.stash_tokens[:count], returned[:, 1:])
    return Run(run.probe.take_calls(), np.concatenate(given, axis=1).astype(np.int64))


def compare(first: Run, other: Run) -> tuple[str, str] | None:
    """What differs between two runs beyond the relabelling of ids: (rule code, in words)."""
    if len(first.calls) != len(other.calls):
        return "FO401", f"{len(first.calls)} calls of the draft model became {len(other.calls)}"
    for one, two in zip(first.calls, other.calls, strict=True):
        for name, code in INDICES.items():
            if not np.array_equal(_stacked(getattr(one, name)), _stacked(getattr(two, name))):
                return code, f"depth {one.depth}: {name} depends on the tokens"
        runs = ~two.masked  # what a masked row is given counts for nothing
        if not np.array_equal(_relabelled(one, first, other)[runs], two.input_ids[runs]):
            return "FO101", f"depth {one.depth}: an id is not the one at the same place under other symbols"
    return None


def _stacked(values: Any) -> NDArray[np.generic]:
    """An index array, or those of all cache groups in one."""
    return np.concatenate([v.reshape(-1) for v in values]) if isinstance(values, tuple) else np.asarray(values)


def _relabelled(call: CallLog, first: Run, other: Run) -> I64:
    """The call's ids as the other run should have them. Ids that a case was never given (padding) stay."""
    cases = len(first.ids)
    request = np.searchsorted(call.query_start_loc[1:], np.arange(len(call.input_ids)), side="right")
    ids = call.input_ids.astype(np.int64)
    known = (np.arange(cases)[:, None] << 32 | first.ids).reshape(-1)
    order = np.argsort(known, kind="stable")
    wanted = request << 32 | ids
    at = order[np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)]
    return np.where(known[at] == wanted, other.ids.reshape(-1)[at], ids)
