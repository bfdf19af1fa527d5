"""The real head under a captured graph: ``python -m frontier_oracle.property_tests.simulate.gpu --out FILE TEXT...``.

Round for round, the captured graph's drafts against those of the same kernels launched one by one, and of the reference
drafter; then what a round takes and how many tokens a second come out: graph, eager, reference, no speculation. Writes
JSON. Exit code 1 where drafts differ by more than a rounding tie, or an output differs by one. On a CPU (--device cpu)
the tape stands in for the graph.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from frontier_oracle.property_tests.gate.environment import environment
from frontier_oracle.property_tests.registry import load_system
from frontier_oracle.property_tests.simulate.drafters import TARGET, resolve
from frontier_oracle.property_tests.simulate.engine import Engine
from frontier_oracle.property_tests.simulate.pairs import Pair, PairOf
from frontier_oracle.property_tests.simulate.prompts import Prompt, cut
from frontier_oracle.property_tests.simulate.requests import Options
from frontier_oracle.property_tests.simulate.run import prepare
from frontier_oracle.reference_impl.model.weights import Model, load

EAGER, REFERENCE = "cuda_eager", "frontier"
METHOD = (
    "drafter_us: median over rounds of the drafter's call, from a synchronized device until its drafts are on the "
    "host; round_us: median of a whole round (verification, acceptance on the host, drafting); tokens_per_second over "
    "the second half of the prompts, the first half having warmed up and captured every batch size."
)


def compare_drafts(model: Model, prompts: Sequence[Prompt], options: Options, graph: str) -> dict[str, Any]:
    """The graph's drafts against eager ones on the same rounds. {against: Pair.as_data()}"""
    found = {}
    for against in (EAGER, REFERENCE):
        pair = PairOf(graph, load_system(graph), against=load_system(against))
        engine = prepare(model, pair, options, _longest(prompts))
        engine.run(prompts)
        assert isinstance(engine.drafter, Pair)
        found[against] = engine.drafter.as_data()
    return found


def measure(model: Model, prompts: Sequence[Prompt], options: Options, name: str) -> dict[str, Any]:
    """Time one drafter: half of the prompts to warm up, the other half counted."""
    engine = prepare(model, resolve(name), options, _longest(prompts))
    half = len(prompts) // 2
    engine.run(prompts[:half])
    engine.done.clear()
    engine.decode_seconds.clear()
    engine.round_seconds.clear()
    started = time.perf_counter()
    done = engine.run(prompts[half:])
    seconds = time.perf_counter() - started
    tokens = sum(len(r.output) for r in done)
    rounds = [v for r in done for v in r.rounds]
    return {
        "name": name,
        "tokens": tokens,
        "verify_rounds": len(rounds),
        "accept_length": sum(v.accept for v in rounds) / len(rounds),
        "drafter_us": _median_us(engine.decode_seconds) if name != TARGET else None,
        "round_us": _median_us(_full(engine, options)),
        "tokens_per_second": tokens / seconds,
    }


def _full(engine: Engine, options: Options) -> list[float]:
    """Rounds of a full batch, of which alone the times are comparable; all of them where none was full."""
    full = [seconds for rows, seconds in engine.round_seconds if rows == options.batch]
    return full or [seconds for _, seconds in engine.round_seconds]


def _median_us(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1e6


def _longest(prompts: Sequence[Prompt]) -> int:
    return max(len(p.tokens) for p in prompts)


def run(model: Model, prompts: Sequence[Prompt], options: Options) -> dict[str, Any]:
    """Everything, for one dtype."""
    graph = "cuda_graph" if options.device.startswith("cuda") else "cuda_tape"
    options = replace(options, recompute=False)
    return {
        "dtype": options.dtype,
        "k": options.k,
        "batch": options.batch,
        "prompts": len(prompts),
        "prompt_tokens": _longest(prompts),
        "max_tokens": options.max_tokens,
        "graph": graph,
        "drafts": compare_drafts(model, prompts, options, graph),
        "times": [measure(model, prompts, options, name) for name in (TARGET, REFERENCE, EAGER, graph)],
    }


def clean(result: dict[str, Any]) -> bool:
    """The graph equals its own kernels launched one by one, and every other difference is a tie."""
    drafts = result["drafts"]
    return drafts[EAGER]["differing"] == 0 and drafts[REFERENCE]["differing"] == drafts[REFERENCE]["ties"]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="text files")
    parser.add_argument("--out", type=Path, required=True, help="result file (JSON)")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtypes", default="bfloat16,float32")
    parser.add_argument("--weights", type=Path, help="a folder that 'train' wrote; default: the bundled model")
    parser.add_argument("--prompts", type=int, default=128)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--commit", help="commit to note where git cannot tell")
    args = parser.parse_args(arguments)
    torch.backends.cuda.matmul.allow_tf32 = False
    prompts = cut(args.files, list, 64, limit=args.prompts)
    result: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "environment": environment() | ({"commit": args.commit} if args.commit else {}),
        "gpu": torch.cuda.get_device_name() if args.device.startswith("cuda") else "none",
        "command": f"python -m frontier_oracle.property_tests.simulate.gpu --device {args.device} "
        f"--dtypes {args.dtypes} --prompts {args.prompts} --max-tokens {args.max_tokens} --batch {args.batch}",
        "files": [path.name for path in args.files],
        "method": METHOD,
        "runs": [],
    }
    for dtype in args.dtypes.split(","):
        options = Options(batch=args.batch, max_tokens=args.max_tokens, dtype=dtype, device=args.device)
        result["runs"].append(run(load(args.weights, dtype, args.device), prompts, options))
        args.out.write_text(json.dumps(result, indent=1))  # what was measured stays, whatever comes next
        print(json.dumps({key: result["runs"][-1][key] for key in ("dtype", "times")}, indent=1), flush=True)
    return 0 if all(clean(each) for each in result["runs"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
