"""What only a GPU can show, in one run: ``python -m frontier_oracle.cuda_impl.gpu_run`` from a checkout.

Writes ``reports/results/<date>-<gpu>-<commit>.json`` (or ``--out``) after each part, and its tables at the end. Exit
code 3 without a CUDA device, 1 when anything was found or a part of it failed; the other parts run all the same. The
gate, ``bench round`` and the equivalence runs stand above this package: they are programs of the checkout, started as
such.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

TESTS = Path(__file__).parent / "tests"
NO_HARDWARE = 3
BENCH_KEYS = ("bench", "bench_method", "round", "round_method")


def program(name: str, *arguments: str) -> Any:
    """Run a test program that writes JSON; returns what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        code = subprocess.run([sys.executable, str(TESTS / name), "--out", str(out), *arguments]).returncode
        if code:  # without the command: its paths name a machine
            raise RuntimeError(f"{name} ended with exit code {code}, its error stands above")
        return json.loads(out.read_text())


def verb(*arguments: str) -> Any:
    """Run a verb of the command line with ``--format json``; returns what it printed. A divergence is a result too."""
    command = [sys.executable, "-m", "frontier_oracle.property_tests.cli", *arguments, "--format", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"gpu_run: {' '.join(arguments)} failed with exit code {done.returncode}")
    return json.loads(done.stdout)


def gate() -> dict[str, Any]:
    """The gate on captured graphs, and faults planted in them: the verdict, and what each check did."""
    arguments = ["gate", "--require-cuda", "--system", "cuda_graph", "--profile", "dev"]
    report = verb(*arguments)
    (system,) = report["systems"]
    checks = [
        {name: check[name] for name in ("id", "cases", "request_rounds", "skipped")}
        | {"findings": sorted({finding["code"] for finding in check["findings"]})}
        for check in system["checks"]
    ]
    kills = [kill for kill in report["mutants"]["kills"] if kill["base"].startswith("cuda_")]
    return {
        "command": "frontier-oracle " + " ".join(arguments),
        "checks": checks,
        "planted_in_captures": [{name: kill[name] for name in ("id", "base", "expected", "got")} for kill in kills],
        "planted": report["mutants"]["total"],
        "killed": report["mutants"]["killed"],
    } | {name: report[name] for name in ("verdict", "sentence", "seed", "seconds")}


SANITIZED = "all_kernels.py"
SANITIZER_LIMIT_S = 300


def sanitize(tool: str) -> str:
    """ "clean", what compute-sanitizer reported, or "not run: " and why. A program that it stops is no "not run"."""
    path = shutil.which("compute-sanitizer")
    if path is None:
        return "not run: compute-sanitizer is not installed"
    command = [path, "--tool", tool, sys.executable, str(TESTS / SANITIZED), "cuda"]
    # torch's caching allocator hands out parts of large blocks: memcheck sees an end only of a block.
    apart = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    try:
        done = subprocess.run(command, env=apart, capture_output=True, text=True, timeout=SANITIZER_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"{SANITIZED} did not end in {SANITIZER_LIMIT_S} s"
    lines = (done.stdout + done.stderr).strip().splitlines()
    summaries = [line.removeprefix("========= ") for line in lines if "SUMMARY" in line]
    if not summaries:
        return f"not run: {lines[-1] if lines else 'no output'}"
    if "equal" not in lines:
        return f"{SANITIZED} failed: {'; '.join(summaries)}; {lines[-1]}"
    return "clean" if all("SUMMARY: 0 " in line for line in summaries) else "; ".join(summaries)


def troubles(result: dict[str, Any]) -> list[str]:
    """What of a run makes its exit code 1, a line each. A sanitizer that did not run does not."""
    failed = [f"{part}: {reason}" for part, reason in result.get("failed", {}).items()]
    found = len(result.get("equivalence", {}).get("findings", []))
    verdict = result.get("gate", {}).get("verdict", "equal")
    sanitized = result.get("sanitizer", {}).items()
    return [
        *failed,
        *([f"equivalence: {found} findings"] if found else []),
        *([f"gate: {verdict}"] if verdict != "equal" else []),
        *(f"{tool}: {said}" for tool, said in sanitized if said != "clean" and not said.startswith("not run: ")),
    ]


def machine() -> dict[str, str]:
    """Names and versions."""
    import triton

    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True
    )
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    return {
        "date": datetime.date.today().isoformat(),
        "gpu": torch.cuda.get_device_name(),
        "driver": driver.stdout.strip() or "unknown",
        "torch": torch.__version__,
        "triton": triton.__version__,
        "commit": commit.stdout.strip() or "unknown",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="result file (default reports/results/<date>-<gpu>-<commit>.json)")
    parser.add_argument("--table", help="Markdown file (default docs/gpu-results.md)", default="docs/gpu-results.md")
    parser.add_argument("--request-rounds", default="12000000", help="request-rounds to check at least")
    parser.add_argument("--commit", help="commit to note where git cannot tell")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("gpu_run: no CUDA device on this machine (torch.cuda.is_available() is false)", file=sys.stderr)
        return NO_HARDWARE
    from frontier_oracle.cuda_impl import bench_window
    from frontier_oracle.cuda_impl.gpu_table import render

    result: dict[str, Any] = machine()
    result["commit"] = args.commit or result["commit"]
    # Without the paths: they name a machine, not the run.
    result["command"] = f"python -m frontier_oracle.cuda_impl.gpu_run --request-rounds {args.request_rounds}"
    name = result["gpu"].split()[-1].lower()
    out = Path(args.out or f"reports/results/{result['date']}-{name}-{result['commit'][:7]}.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    parts: dict[str, Callable[[], Any]] = {
        "round": lambda: verb("bench", "round"),
        "equivalence": lambda: program("gpu_equivalence.py", "--request-rounds", args.request_rounds),
        "capture": lambda: program("capture_list.py"),
        "sanitizer": lambda: {tool: sanitize(tool) for tool in ("memcheck", "racecheck")},
        "gate": gate,
        "tune": bench_window.tune,
    }
    for part, run in parts.items():
        started = time.monotonic()
        print(f"gpu_run: {part}", file=sys.stderr)
        try:
            found = run()
        except (Exception, SystemExit) as error:  # device time is scarce: the other parts are still worth having
            result.setdefault("failed", {})[part] = f"{error}"
        else:
            # bench round tells of both, with their methods
            result |= {key: found[key] for key in BENCH_KEYS} if part == "round" else {part: found}
        result.setdefault("seconds", {})[part] = round(time.monotonic() - started, 1)
        out.write_text(json.dumps(result, indent=1) + "\n")
    Path(args.table).parent.mkdir(parents=True, exist_ok=True)
    Path(args.table).write_text(render(result))
    print(render(result))
    for trouble in troubles(result):
        print(f"gpu_run: {trouble}", file=sys.stderr)
    return 1 if troubles(result) else 0


if __name__ == "__main__":
    sys.exit(main())
