"""What was seen of an engine's own drafter, as dated JSON.

``TOKENSPEED_PATH=<checkout> python -m frontier_oracle.property_tests.adapters.evidence tokenspeed`` (sglang and vllm
with TRITON_INTERPRET=1 too) writes ``reports/results/<date>-<engine>.json``. With ``--device cuda`` the rounds of
TokenSpeed that are captured are CUDA graphs, else tapes. Exit code 1 when anything unknown was found.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.adapters import (
    evidence_kernels,
    evidence_tokenspeed,
    sglang,
    tokenspeed_parts,
    vllm,
)
from frontier_oracle.property_tests.adapters.loading import Engine
from frontier_oracle.property_tests.gate.environment import environment

Row = dict[str, Any]
ENGINES: dict[str, tuple[Engine, Any]] = {
    "tokenspeed": (tokenspeed_parts.ENGINE, evidence_tokenspeed),
    "sglang": (sglang.ENGINE, evidence_kernels.SGLANG),
    "vllm": (vllm.ENGINE, evidence_kernels.VLLM),
}


def sources(engine: Engine, files: tuple[str, ...]) -> Row:
    """Which sources were run: the revision where git knows it, and the files' digests."""
    root = engine.root()
    git = ["git", "-C", str(root)]
    # A folder inside some other repository has that one's revision, and none of its files.
    tracked = subprocess.run([*git, "ls-files", "--error-unmatch", *files], capture_output=True, check=False)
    done = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    digests = {file: hashlib.sha256((root / file).read_bytes()).hexdigest() for file in files}
    return {
        "repository": engine.repository,
        "revision": (tracked.returncode == 0 and done.stdout.strip()) or engine.tried,
        "sha256": digests,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run everything and write it."""
    parser = argparse.ArgumentParser(prog="python -m frontier_oracle.property_tests.adapters.evidence")
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--out", type=Path, help="result file (default reports/results/<date>-<engine>.json)")
    parser.add_argument("--seed", type=int, default=0, help="everything random follows from it")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="cuda: captured rounds are CUDA graphs"
    )
    parser.add_argument("--request-rounds", type=int, default=12_000, help="a system and k, at least")
    parser.add_argument("--scenarios", type=int, default=400, help="random scenarios for each drafter")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    engine, evidence = ENGINES[given.engine]
    today = datetime.date.today().isoformat()
    gpu = torch.cuda.get_device_name() if given.device == "cuda" else ""
    interpreted = "TRITON_INTERPRET=1 " if os.environ.get("TRITON_INTERPRET") == "1" else ""
    options = f"--device {given.device} --seed {given.seed}"
    amount = f"--request-rounds {given.request_rounds} --scenarios {given.scenarios}"
    result: Row = {
        "date": today,
        "engine": sources(engine, evidence.FILES),
        "command": f"{engine.variable}=<checkout> {interpreted}{parser.prog} {given.engine} {options} {amount}",
        "seed": given.seed,
        "environment": environment() | {"captured as": f"CUDA graph, {gpu}" if gpu else "tape (CPU)"},
    }
    for name, part in evidence.parts(given.seed, given.device, given.request_rounds, given.scenarios):
        result[name] = part
        print(f"evidence: {name}", file=sys.stderr, flush=True)
    out = given.out or Path("reports/results") / f"{today}-{given.engine}.json"
    out.write_text(json.dumps(result, indent=1) + "\n")
    clean = evidence.clean(result)
    print(f"evidence: {out}: {'nothing unknown' if clean else 'FINDINGS, see the file'}", file=sys.stderr)
    return 0 if clean else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UsageError as error:
        sys.exit(f"evidence: {error}")
