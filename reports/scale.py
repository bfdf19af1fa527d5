"""How time and memory of ``report`` grow with the rounds: synthetic Parquet, one fresh process per size.

``python -m frontier_oracle.reports.scale --out FILE`` writes it as JSON, with machine, commit, seed and command.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from frontier_oracle.oracle.files import write_whole

P, DRAFTS, PER_REQUEST, SEED = 0.6, 7, 200, 20261201
SIZES = (2_500_000, 5_000_000, 10_000_000)
_CHILD = """
import json, resource, sys, time
started = time.perf_counter()
from frontier_oracle.reports.report import report
(entry,) = report([sys.argv[1]], sys.argv[2]).summary["inputs"]
print(json.dumps({"rounds": entry["rounds"], "mean": entry["headline"]["al_raw"]["value"],
                  "whatif": entry["tables"]["whatif"]["note"], "seconds": time.perf_counter() - started,
                  "cpu_seconds": sum(resource.getrusage(resource.RUSAGE_SELF)[:2]),
                  "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


@dataclass(frozen=True)
class Measured:
    """One report in a process of its own: seconds by the clock and of the processor, imports included, peak resident
    memory in MiB, and what the what-if replay says of its sample."""

    rounds: int
    mean: float
    whatif: str
    seconds: float
    cpu_seconds: float
    mb: float


def synthetic(path: Path, requests: int, per_request: int, *, shuffled: bool = False, seed: int = SEED) -> None:
    """A canonical Parquet file of geometric rounds with every column that the analyses use."""
    n = requests * per_request
    rng = np.random.default_rng(seed)
    accepted = np.minimum(rng.geometric(1 - P, n) - 1, DRAFTS).astype(np.int32)
    ids = np.repeat(np.arange(requests, dtype=np.int32), per_request)
    total = np.cumsum(accepted + 1, dtype=np.int64)
    before = np.repeat(total[::per_request] - accepted[::per_request] - 1, per_request)
    out_pos = (total - accepted - before).astype(np.int32)
    names = pa.array([f"request-{i:08d}" for i in range(requests)])
    table = pa.table(
        {
            "request_id": pa.DictionaryArray.from_arrays(pa.array(ids), names),
            "round": np.tile(np.arange(per_request, dtype=np.int32), requests),
            "drafted": np.full(n, DRAFTS, np.int32),
            "al_raw": accepted + 1,
            "al_committed": accepted + 1,
            "out_pos": out_pos,
            "ctx_len": out_pos + 100,
            "category": pa.DictionaryArray.from_arrays(pa.array(ids % 4), pa.array(["chat", "code", "math", "rag"])),
        }
    )
    if shuffled:
        table = table.take(pa.array(rng.permutation(n)))
    pq.write_table(table, path, row_group_size=1 << 20)


def measure(path: Path, out: Path) -> Measured:
    """Report ``path`` into ``out`` in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(path), str(out)], capture_output=True, text=True, check=True
    )
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def growth(measured: list[Measured]) -> float:
    """Processor time per round of the largest size over the smallest: 1 is linear, less is a fixed cost wearing off."""
    first, last = measured[0], measured[-1]
    return (last.cpu_seconds / last.rounds) / (first.cpu_seconds / first.rounds)


def sweep(folder: Path, sizes: tuple[int, ...] = SIZES) -> list[Measured]:
    measured = []
    for n, rounds in enumerate(sizes):
        synthetic(folder / "rounds.parquet", rounds // PER_REQUEST, PER_REQUEST)
        measured.append(measure(folder / "rounds.parquet", folder / f"out-{n}"))
    return measured


def _commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m frontier_oracle.reports.scale")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    out: Path = parser.parse_args().out
    load, commit = os.getloadavg()[0], _commit()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        measured = sweep(Path(folder))
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit,
        "command": f"python -m frontier_oracle.reports.scale --out {out}",
        "seed": SEED,
        "machine": {"cpus": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version(),
                    "load_at_start": round(load, 2)},
        "limits": {"seconds": 60, "mb": 2048, "note": "other work shared the machine: cpu_seconds leave it out"},
        "sizes": [asdict(one) for one in measured],
        "time_per_round_largest_over_smallest": growth(measured),
        "whole_run_seconds": time.perf_counter() - started,
    }  # fmt: skip
    write_whole(out, json.dumps(result, indent=1) + "\n")
    for one in measured:
        print(f"{one.rounds:>12,} rounds  {one.seconds:6.1f} s  {one.cpu_seconds:6.1f} s of CPU  {one.mb:7.0f} MiB")


if __name__ == "__main__":
    main()
