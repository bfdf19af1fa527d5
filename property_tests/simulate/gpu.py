"""The real head under a captured graph: ``python -m frontier_oracle.property_tests.simulate.gpu --out FILE TEXT...``.

Round for round, the captured graph's drafts against those of the same kernels launched one by one, and of the reference
drafter (see ``tally``); then what a round takes and how many tokens a second come out: graph, eager, reference, no
speculation. Writes JSON after each dtype. Exit code 1 where drafts differ by more than a rounding tie, or at all
between the graph and its own kernels; 2 on wrong usage, 3 where there is no CUDA device. On a CPU (--device cpu) the
tape stands in for the graph.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from frontier_oracle.property_tests.cli import exits
from frontier_oracle.property_tests.simulate.drafters import TARGET, resolve
from frontier_oracle.property_tests.simulate.engine import Engine
from frontier_oracle.property_tests.simulate.led import compare, led
from frontier_oracle.property_tests.simulate.prompts import Prompt, cut
from frontier_oracle.property_tests.simulate.requests import Options
from frontier_oracle.property_tests.simulate.results import exit_code, heading, keep
from frontier_oracle.property_tests.simulate.run import prepare
from frontier_oracle.reference_impl.model.weights import Model, load

EAGER, REFERENCE = "cuda_eager", "frontier"
METHOD = (
    "drafter_us: median over rounds of the drafter's call, from a synchronized device until its drafts are on the "
    "host; round_us: median of a whole round (verification, acceptance on the host, drafting); tokens_per_second over "
    "the second half of the prompts, the first half having warmed up and captured every batch size."
)


def compare_drafts(model: Model, prompts: Sequence[Prompt], options: Options, graph: str) -> dict[str, Any]:
    """The graph's drafts against eager ones on the same rounds. {against: Tally.as_data()}"""
    done = compare(model, led(model, (graph, EAGER, REFERENCE)), prompts, options)
    return {tally.name: tally.as_data() for tally in done.tallies}


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
    """The graph equals its own kernels launched one by one, and nothing is a fault."""
    drafts = result["drafts"]
    return drafts[EAGER]["differing"] == 0 and all(each["faults"] == 0 for each in drafts.values())


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="TEXT", help="text files")
    parser.add_argument("--out", type=Path, required=True, help="result file (JSON)")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtypes", default="bfloat16,float32")
    parser.add_argument("--weights", type=Path, help="a folder that 'train' wrote; default: the bundled model")
    parser.add_argument("--k", type=int, default=8, help="rows of a verify window")
    parser.add_argument("--prompts", type=int, default=128)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--commit", help="commit to note where git cannot tell")
    return parser.parse_args(arguments)


def _run_all(args: argparse.Namespace) -> int:
    said = ("device", "dtypes", "k", "prompts", "max_tokens", "batch")
    result = heading("gpu", args, said) | {"method": METHOD, "runs": []}
    for dtype in args.dtypes.split(","):
        options = Options(k=args.k, batch=args.batch, max_tokens=args.max_tokens, dtype=dtype, device=args.device)
        model = load(args.weights, dtype, args.device)
        prompts = cut(args.files, model.encode, 64, limit=args.prompts)
        result["runs"].append(run(model, prompts, replace(options, eos=model.eos)))
        keep(args.out, result)  # what was measured stays, whatever comes next
        print(json.dumps({key: result["runs"][-1][key] for key in ("dtype", "times")}, indent=1), flush=True)
    return exits.EQUAL if all(clean(each) for each in result["runs"]) else exits.DIVERGENCE


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    return exit_code("gpu", lambda: _run_all(_parse(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
