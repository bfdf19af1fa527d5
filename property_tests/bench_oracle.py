"""How fast bulk checking is: request-rounds per second, and how that grows with batch, k and context.

One request-round is one DECODE round of one request with everything checked: drafts, every cell of KV, conv rings and
checkpoints, the stash, and no write elsewhere. System, probe, oracle and checks are inside the time, setting up is not.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.bulk import MakeSystem, run_bulk
from frontier_oracle.reference_impl import frontier

Row = dict[str, Any]
ALONE = 16


def bench(
    make_system: MakeSystem = frontier.make,
    k: int = 4,
    rounds: int = 16,
    batch: int = 1024,
    context: int = 16,
    ks: Sequence[int] = (2, 3, 4, 6, 8),
    batches: Sequence[int] = (1, 16, 64, 256, 1024, 4096),
    contexts: Sequence[int] = (16, 64, 256, 1024),
    repeats: int = 3,
    threads: int | None = 1,
) -> list[Row]:
    """The base point, then one sweep each of batch, k and context (the prompt's length) around it, then the base's
    requests one at a time.

    Rows: ``sweep`` ("base", "batch", "k", "context", "one at a time"), k, rounds, batch, context, request_rounds,
    seconds, request_rounds_per_second (best of ``repeats``); the last row has ``ratio``, base over one at a time.
    The calls work on a few thousand rows, too few for torch to split well: on two idle cores threads=2 gains a tenth
    at batch 1024 and a quarter at 4096, on busy ones it is several times slower than threads=1.
    """
    base = {"k": k, "batch": batch, "context": context}
    points: list[tuple[str, dict[str, int]]] = [("base", base)]
    for name, values in (("batch", batches), ("k", ks), ("context", contexts)):
        points += [(name, {**base, name: value}) for value in values]
    rows = [measure(make_system, sweep, rounds, repeats, threads, **point) for sweep, point in points]
    alone = one_at_a_time(make_system, rounds, threads, k, context)
    alone["ratio"] = rows[0]["request_rounds_per_second"] / alone["request_rounds_per_second"]
    return [*rows, alone]


def measure(
    make_system: MakeSystem,
    sweep: str,
    rounds: int,
    repeats: int,
    threads: int | None,
    k: int,
    batch: int,
    context: int,
) -> Row:
    """One point: random accepts, the fastest of ``repeats`` runs. Raises AssertionError if the system is not exact."""
    spec = Spec(k)
    accepts = np.random.Generator(np.random.Philox(key=k)).integers(1, spec.max_accept + 1, (batch, rounds))
    runs = [run_bulk(make_system, spec, accepts, context, threads=threads) for _ in range(repeats)]
    assert not any(run.failures for run in runs), f"not exact, so not worth timing: {runs[0].failures[:1]}"
    return _row(sweep, spec, rounds, batch, context, runs[0].request_rounds, min(run.seconds for run in runs))


def one_at_a_time(make_system: MakeSystem, rounds: int, threads: int | None, k: int, context: int) -> Row:
    """The same checks on one request after the other."""
    spec = Spec(k)
    accepts = np.random.Generator(np.random.Philox(key=k)).integers(1, spec.max_accept + 1, (ALONE, rounds))
    runs = [run_bulk(make_system, spec, one[None], context, threads=threads) for one in accepts]
    total, seconds = sum(run.request_rounds for run in runs), sum(run.seconds for run in runs)
    return _row("one at a time", spec, rounds, 1, context, total, seconds)


def _row(sweep: str, spec: Spec, rounds: int, batch: int, context: int, total: int, seconds: float) -> Row:
    return {
        "sweep": sweep,
        "k": spec.k,
        "rounds": rounds,
        "batch": batch,
        "context": context,
        "request_rounds": total,
        "seconds": seconds,
        "request_rounds_per_second": total / seconds,
    }


def plot(rows: Sequence[Row], path: str | Path) -> None:
    """Request-rounds per second over batch, k and context, side by side. Needs matplotlib (extra ``reports``)."""
    # By name: the plot is an extra, the numbers are not.
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(11, 3.2), layout="constrained")
    for axes, name in zip(figure.subplots(1, 3), ("batch", "k", "context"), strict=True):
        points = sorted((row[name], row["request_rounds_per_second"]) for row in rows if row["sweep"] == name)
        axes.plot(*zip(*points, strict=True), marker="o")
        axes.set(xlabel=name, ylim=(0, None))
        if name != "k":
            axes.set_xscale("log", base=2)
    figure.axes[0].set_ylabel("checked request-rounds / s")
    figure.savefig(path)
