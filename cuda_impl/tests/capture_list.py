"""Every listed operation tried in a real capture, beside the tape. On a GPU: ``capture_list.py --out FILE``.

Each has a process of its own: a capture that breaks can leave the allocator, the random generator or the whole context
of its process unusable, and the next operation must not be judged by that. The differences are what the tape's
docstring must say.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from frontier_oracle.cuda_impl.graph import CudaGraph
from frontier_oracle.cuda_impl.tape import Tape

sys.path.insert(0, str(Path(__file__).parent))
from capture_operations import OPERATIONS, WHY, outcome  # noqa: E402

LIMIT_S = 120


def captured(name: str, device: str, limit: float = LIMIT_S) -> tuple[str, str]:
    """(outcome, reason) of one operation in a graph, asked of a process of its own."""
    command = [sys.executable, __file__, "--one", name, "--device", device]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return "hung", f"no outcome in {limit} s"
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return "broke its process", last[0]
    got, reason = json.loads(done.stdout.splitlines()[-1])
    return got, reason


def tried(names: list[str], device: str) -> list[dict[str, str]]:
    """A row an operation: what the tape does, what a graph does, the graph's reason, and why they may differ."""
    with ThreadPoolExecutor(min(12, os.cpu_count() or 1)) as pool:
        graphs = list(pool.map(lambda name: captured(name, device), names))
    rows = []
    for name, (graph, reason) in zip(names, graphs, strict=True):
        tape, _ = outcome(Tape(), "cpu", OPERATIONS[name])
        why = WHY.get(name, "not foreseen") if tape != graph else ""
        rows.append({"operation": name, "tape": tape, "graph": graph, "reason": reason, "why": why})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", help="result file of all operations")
    parser.add_argument("--one", help="print the outcome of one operation")
    parser.add_argument("--device", default="cuda", help="cpu: a tape stands in for the graph")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.one:
        capture = CudaGraph() if args.device == "cuda" else Tape()
        print(json.dumps(outcome(capture, args.device, OPERATIONS[args.one])), flush=True)
        os._exit(0)  # a broken capture may trip up the teardown, which is not what was asked
    rows = tried(list(OPERATIONS), args.device)
    differences = [row["operation"] for row in rows if row["tape"] != row["graph"]]
    Path(args.out).write_text(json.dumps({"operations": rows, "differences": differences}, indent=1))
    print("differences between tape and graph:", differences)


if __name__ == "__main__":
    main()
