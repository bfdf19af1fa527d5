"""The equivalence part of the GPU run: every cell of every round of captured graphs, judged on the host.

``python gpu_equivalence.py --out FILE [--request-rounds N] [--workers N]``. Judging runs on the host's cores and bounds
the rate, so the work is spread over processes that share the GPU; each builds its own drafter and captures its graphs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from frontier_oracle.cuda_impl.errors import CaptureRefused
from frontier_oracle.cuda_impl.graph import CudaGraph
from frontier_oracle.cuda_impl.system import cuda_eager, cuda_graph
from frontier_oracle.oracle.errors import AddressChanged
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.bulk import BulkResult, run_bulk
from frontier_oracle.property_tests.bulk_random import bulk_case
from frontier_oracle.property_tests.drawing import random_scenario
from frontier_oracle.property_tests.driver import run_scenario
from frontier_oracle.property_tests.exhaustive import all_accepts
from frontier_oracle.property_tests.inductive import inductive_specs, run_inductive
from frontier_oracle.property_tests.shield import on_device

sys.path.insert(0, str(Path(__file__).parent))
from graph_faults import FAULTS, make_faulty  # noqa: E402
from slow_loops import rounds_config  # noqa: E402
from twins import buckets_of, check_twins, in_place, sizes  # noqa: E402

SEED, BATCH = 20261201, 8192
IN_PLACE = on_device(in_place(CudaGraph), "cuda")
GRAPH, EAGER = on_device(cuda_graph, "cuda"), on_device(cuda_eager, "cuda")
TWINS = ((4, 3, 16, 64), (8, 7, 1536, 13), (4, 3, 8, 13), (2, 1, 8, 13), (3, 3, 24, 13), (5, 2, 6144, 13))
Task = tuple[str, Any]


def counted(result: BulkResult) -> dict[str, Any]:
    return {"request_rounds": result.request_rounds, "findings": [list(f) for f in result.failures]}


def exhaustive(k: int, rounds: int, first: int) -> dict[str, Any]:
    """A slice of all accept sequences of ``rounds`` rounds, behind a prompt in chunks with a short last one."""
    spec = Spec(k=k, groups=(CacheGroup(16), CacheGroup(4, window=8)))
    accepts = all_accepts(spec.max_accept, rounds)[first : first + BATCH]
    return counted(run_bulk(GRAPH, spec, accepts, 16, [9, 6, 1], threads=1))


def random(index: int) -> dict[str, Any]:
    """One drawn configuration: k 2..8, depths, semantics, cache groups, chunks, padding."""
    c = bulk_case(SEED, index, batch=BATCH)
    return counted(run_bulk(GRAPH, c.spec, c.accepts, c.prompt, c.chunks, c.hidden_size, c.pad_to, 1, c.seed))


def wide(hidden_size: int) -> dict[str, Any]:
    """Wide hiddens: every block of 8 channels is checked (a fault behind the first block is seen)."""
    accepts = all_accepts(4, 4)
    return counted(run_bulk(GRAPH, Spec(k=4), accepts, 6, [3, 3], hidden_size=hidden_size, threads=1))


def sampled_in_place(k: int, rounds: int) -> dict[str, Any]:
    """The books' one kernel alone: a model that stores its drafts in the id rows, as the benchmark's heads do."""
    spec = Spec(k=k, groups=(CacheGroup(16), CacheGroup(4, window=8)))
    return counted(run_bulk(IN_PLACE, spec, all_accepts(spec.max_accept, rounds), 16, [9, 6, 1], threads=1))


def inductive(index: int) -> dict[str, Any]:
    """The inductive step of one of the gate's configurations: every accept, stash length and frontier of a period."""
    result = run_inductive(GRAPH, inductive_specs("ci")[index], threads=1)
    findings = [list(f) for f in result.failures] + ([result.skipped] if result.skipped else [])
    return {"request_rounds": result.cases, "findings": findings}


def scenarios(first: int) -> dict[str, Any]:
    """Ten drawn scenarios (chunks, padding, slot reuse, prefix hits), every call's indices checked, eager and
    captured."""
    drawn = [random_scenario(SEED, first + i) for i in range(10)]
    outcomes = [run_scenario(make, scenario, "successor") for scenario in drawn for make in (EAGER, GRAPH)]
    findings = [str(finding) for outcome in outcomes for finding in outcome.findings]
    return {"request_rounds": sum(outcome.request_rounds for outcome in outcomes), "findings": findings}


def twins(k: int, steps: int, hidden_size: int, batch: int) -> dict[str, Any]:
    """Replay against eager: every bucket with every amount of padding, growing and shrinking."""
    config = rounds_config(k, steps, hidden_size, "cuda", batch=batch)
    checked = check_twins(config, cuda_graph, seed=k)
    return {"request_rounds": checked, "findings": []}


def fault(name: str) -> dict[str, Any]:
    """A planted fault must be killed; that it was not is the finding."""
    try:
        config = rounds_config(4, device="cuda", batch=7)
        check_twins(config, lambda config, model: make_faulty(name, config, model))
    except (AssertionError, CaptureRefused, AddressChanged) as kill:
        return {"request_rounds": 0, "findings": [], "killed": f"{type(kill).__name__}: {kill}"}
    return {"request_rounds": 0, "findings": [f"{name} survived"]}


KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "exhaustive": exhaustive, "random": random, "wide": wide, "twins": twins, "fault": fault,
    "sampled in place": sampled_in_place, "inductive": inductive, "scenarios": scenarios,
}  # fmt: skip


def tasks(request_rounds: int) -> Iterator[Task]:
    """What is always run, then as many random cases as the total needs: about 10 rounds each, and every eighth has
    long prompts and few requests."""
    yield from (("exhaustive", (8, 6, first)) for first in range(0, 8**6, BATCH))
    yield from (("exhaustive", (4, 6, first)) for first in range(0, 4**6, BATCH))
    yield from (("wide", (h,)) for h in (1536, 6144))
    yield from (("sampled in place", shape) for shape in ((4, 6), (8, 4)))
    yield from (("twins", shape) for shape in TWINS)
    yield from (("fault", (name,)) for name in FAULTS)
    yield from (("inductive", (i,)) for i in range(len(inductive_specs("ci"))))
    yield from (("scenarios", (first,)) for first in range(0, 100, 10))
    left = request_rounds - 6 * (8**6 + 4**6)
    yield from (("random", (i,)) for i in range(max(1, -(-left // (BATCH * 8)))))


def work(task: Task) -> tuple[Task, dict[str, Any]]:
    torch.set_num_threads(1)
    kind, arguments = task
    try:
        return task, KINDS[kind](*arguments)
    except Exception as error:  # one broken task must not hide what the others found
        return task, {"request_rounds": 0, "findings": [f"{type(error).__name__}: {error}"]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--request-rounds", type=int, default=12_000_000)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    args = parser.parse_args()
    start = time.perf_counter()
    with ProcessPoolExecutor(args.workers, multiprocessing.get_context("spawn")) as pool:
        done = list(pool.map(work, tasks(args.request_rounds)))
    seconds = time.perf_counter() - start
    total = sum(result["request_rounds"] for _, result in done)
    findings = [[list(task), finding] for task, result in done for finding in result["findings"]]
    parts = {
        kind: {
            "runs": sum(task[0] == kind for task, _ in done),
            "request_rounds": sum(result["request_rounds"] for task, result in done if task[0] == kind),
        }
        for kind in KINDS
    }
    summary = {
        "request_rounds": total,
        "findings": findings,
        "exhaustive": [{"k": k, "R": 6, "requests": k**6} for k in (4, 8)],
        "parts": parts,
        "twins": [
            {"k": k, "steps": steps, "H": h, "buckets": buckets_of(batch), "rounds": len(sizes(batch))}
            for k, steps, h, batch in TWINS
        ],
        "faults_killed": {task[1][0]: result.get("killed") for task, result in done if task[0] == "fault"},
        "seconds": seconds,
        "request_rounds_per_second": total / seconds,
        "bound": f"judging on the host: {args.workers} processes of one thread",
        "seed": SEED,
    }
    Path(args.out).write_text(json.dumps(summary, indent=1))
    print(json.dumps(summary | {"findings": findings[:5]}))


if __name__ == "__main__":
    main()
