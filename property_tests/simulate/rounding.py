"""Designs beside each other in lower precision: ``python -m frontier_oracle.property_tests.simulate.rounding --out FILE
TEXT...``.

The first design leads and its drafts are used; the others are given the very same rounds. Rounds whose drafts differ
are counted, and each is shown to be a rounding tie or a fault of the books, by twins of all designs in float64 (see
``tally``). Writes JSON after each dtype. Exit code 1 on a fault, 2 on wrong usage, 3 where there is no CUDA device.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from frontier_oracle.property_tests.cli import exits
from frontier_oracle.property_tests.simulate.led import Led, compare, led
from frontier_oracle.property_tests.simulate.prompts import Prompt, cut
from frontier_oracle.property_tests.simulate.requests import Options
from frontier_oracle.property_tests.simulate.results import exit_code, heading, keep
from frontier_oracle.property_tests.simulate.tally import BEYOND, BOOKS
from frontier_oracle.reference_impl.model.weights import Model, load

DESIGNS = "frontier,minimal,lookback,vllm_multi_module,recompute"
PROMPT_TOKENS = 64
EVERY_SECONDS = 10.0
METHOD = (
    "The first design's drafts are used, the others get the same rounds. Each has a twin in float64 with the same "
    "weights, batches and drafts. A round whose drafts differ is a tie if, at the first depth that differs, the twins' "
    f"logits are the same (to {BOOKS:g} of the largest), float64 tells the two tokens apart by no more than the "
    "rounding errors measured there, and those are no larger than the other design's largest times "
    f"{BEYOND:g}; else a fault. A round whose twins disagree, or whose error is larger than that, is a fault too, even "
    "if the drafts are the same."
)


class _OutOfTime(Exception):
    pass


def run(model: Model, names: Sequence[str], prompts: Sequence[Prompt], options: Options, seconds: float) -> Any:
    """One dtype, for at most so many seconds: a result file's ``runs[i]``."""
    started = shown = time.monotonic()
    last: list[Led] = []

    def progress(done: Led) -> None:
        nonlocal shown
        last[:] = [done]
        now = time.monotonic()
        if now - shown >= EVERY_SECONDS:
            shown = now
            found = ", ".join(f"{t.name} {len(t.found)}" for t in done.tallies)
            print(
                f"rounding: {options.dtype}, {done.request_rounds} request-rounds after {now - started:.0f} s; "
                f"differing: {found}",
                file=sys.stderr,
                flush=True,
            )
        if now - started > seconds:
            raise _OutOfTime

    complete = True
    try:
        compare(model, led(model, names), prompts, options, progress=progress)
    except _OutOfTime:
        complete = False
    (done,) = last
    return {
        "dtype": options.dtype,
        "k": options.k,
        "batch": options.batch,
        "prompts": len(prompts),
        "prompt_tokens": max(len(p.tokens) for p in prompts),
        "max_tokens": options.max_tokens,
        "leader": names[0],
        "complete": complete,
        "seconds": round(time.monotonic() - started, 1),
        "request_rounds": done.request_rounds,
        "designs": [tally.as_data() for tally in done.tallies],
    }


def clean(result: dict[str, Any]) -> bool:
    """Rounds were compared, and none has a fault."""
    designs = [design for each in result["runs"] for design in each["designs"]]
    return bool(designs) and all(d["request_rounds"] > 0 and d["faults"] == 0 for d in designs)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="TEXT", help="text files")
    parser.add_argument("--out", type=Path, required=True, help="result file (JSON)")
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--dtypes", default="bfloat16,float32")
    parser.add_argument("--designs", default=DESIGNS, help=f"the first leads; default: {DESIGNS}")
    parser.add_argument("--weights", type=Path, help="a folder that 'train' wrote; default: the bundled model")
    parser.add_argument("--k", type=int, default=8, help="rows of a verify window")
    parser.add_argument("--prompts", type=int, default=128)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=240.0, help="at most so long a dtype")
    parser.add_argument("--commit", help="commit to note where git cannot tell")
    return parser.parse_args(arguments)


def _run_all(args: argparse.Namespace) -> int:
    said = ("device", "dtypes", "designs", "k", "prompts", "max_tokens", "batch", "seconds")
    result = heading("rounding", args, said) | {"method": METHOD, "runs": []}
    for dtype in args.dtypes.split(","):
        options = Options(
            k=args.k, batch=args.batch, max_tokens=args.max_tokens, dtype=dtype, device=args.device, recompute=False
        )
        model = load(args.weights, dtype, args.device)
        prompts = cut(args.files, model.encode, PROMPT_TOKENS, limit=args.prompts)
        done = run(model, args.designs.split(","), prompts, replace(options, eos=model.eos), args.seconds)
        result["runs"].append(done)
        keep(args.out, result)  # what was measured stays, whatever comes next
        _tell(done)
    return exits.EQUAL if clean(result) else exits.DIVERGENCE


def _tell(done: dict[str, Any]) -> None:
    for design in done["designs"]:
        print(
            f"{done['dtype']}: {design['name']} against {done['leader']}: {design['differing']} of "
            f"{design['request_rounds']} request-rounds differ, {design['ties']} rounding ties, "
            f"{design['faults']} faults",
            flush=True,
        )


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    return exit_code("rounding", lambda: _run_all(_parse(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
