"""``simulate``: text files served by a real model with speculative decoding, under any drafter design."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.cli import exits
from frontier_oracle.property_tests.cli.options import Format, FormatOption, own_stdout

if TYPE_CHECKING:
    from frontier_oracle.property_tests.simulate.run import Simulation

DESIGNS = "target,frontier,lookback,unrepaired"
EVERY_SECONDS = 10.0


def simulate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Text files.", show_default=False)],
    designs: Annotated[
        str,
        typer.Option(
            metavar="A,B,...",
            help="target (no drafts), recompute (the ideal), systems, designs of the atlas, pkg.mod:make; all: every "
            "design that a chain of heads can run.",
        ),
    ] = DESIGNS,
    k: Annotated[int, typer.Option("--k", min=2, help="Rows of a verify window.")] = 8,
    batch: Annotated[int, typer.Option(min=1, help="Requests served at once.")] = 16,
    dtype: Annotated[
        str, typer.Option(metavar="float64|float32|bfloat16", help="Default: float64 on a CPU, else bfloat16.")
    ] = "",
    prompts: Annotated[int, typer.Option(min=1, help="Prompts at most, at even distances over all files.")] = 64,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a prompt.")] = 64,
    turns: Annotated[
        int, typer.Option(min=1, help="Prompts of a piece, growing to its length: later ones meet cached pages.")
    ] = 1,
    max_tokens: Annotated[int, typer.Option(min=1, help="Output tokens of a request at most.")] = 64,
    context: Annotated[int, typer.Option(min=2, help="Positions of a request, prompt and output.")] = 512,
    chunk: Annotated[int, typer.Option(min=0, help="Longest prompt chunk; 0: whole prompts.")] = 0,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Draw from the likeliest tokens that reach this share.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="What sampling follows from.")] = 0,
    device: Annotated[str, typer.Option(metavar="cpu|cuda", help="Where the model runs.")] = "cpu",
    weights: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder that 'train' wrote; default: the bundled model.")
    ] = None,
    recompute: Annotated[bool, typer.Option(help="Hold every round's drafts against the ideal's.")] = True,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write canonical traces, one a design: .jsonl or .parquet, for 'report'."),
    ] = None,
    ab: Annotated[
        Path | None,
        typer.Option(
            "--ab",
            metavar="FILE",
            help="Write JSON: each design against the ideal, with paired intervals, by depth, position and request; "
            "needs 'recompute' among the designs, as in 'all'.",
        ),
    ] = None,
    format: FormatOption = Format.TABLE,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Without progress.")] = False,
) -> int:
    """Cut text files into prompts, serve them under each design, and compare: output, verify rounds, accept length.

    Each file is cut into pieces of --prompt-tokens tokens one behind the other; every piece is a prompt. Exit 1 if, in
    float64, a design's output is not the target's own (FO501)."""
    exits.need_torch()
    exits.need_modules("simulate", "torch", "safetensors")
    from frontier_oracle.property_tests.render import jsonout, simulated
    from frontier_oracle.property_tests.simulate import drafters, run, traces
    from frontier_oracle.property_tests.simulate.prompts import cut
    from frontier_oracle.property_tests.simulate.requests import Options
    from frontier_oracle.property_tests.simulate.sampling import Sampling
    from frontier_oracle.reference_impl.model import weights as files_of

    kind = _device(device)
    sampling = Sampling(temperature, top_p, seed)
    dtype = dtype or ("float64" if kind == "cpu" else "bfloat16")
    options = Options(k, batch, max_tokens, context, chunk, 16, dtype, device, sampling, recompute=recompute)
    if prompt_tokens >= context:
        raise UsageError(f"prompts of {prompt_tokens} tokens leave no room for output in a context of {context}")
    if trace is not None:
        traces.check(trace)
    names = [drafters.TARGET, *drafters.chain_designs(), drafters.RECOMPUTE] if designs == "all" else designs.split(",")
    wanted = [drafters.resolve(name.strip()) for name in dict.fromkeys(names)]
    if ab is not None and (not recompute or drafters.RECOMPUTE not in [design.name for design in wanted]):
        raise UsageError(
            f"--ab needs the ideal's drafts: add {drafters.RECOMPUTE} to --designs, without --no-recompute"
        )
    model = files_of.load(weights, dtype, device)
    options = replace(options, eos=model.eos)
    served = cut(files, model.encode, prompt_tokens, turns, prompts)
    with own_stdout(), _showing(len(served) * max_tokens * len(wanted), quiet) as progress:
        done = run.simulate(model, wanted, served, options, progress=progress)
    if trace is not None:
        traces.write(done, trace)
    if ab is not None:
        _write_ab(ab, done, weights)
    typer.echo(jsonout.dumps(done.as_data()) if format is Format.JSON else simulated.render(done))
    return _verdict(done)


def _write_ab(path: Path, done: Simulation, weights: Path | None) -> None:
    from frontier_oracle.property_tests.gate.environment import environment
    from frontier_oracle.property_tests.render import jsonout
    from frontier_oracle.property_tests.simulate import ab
    from frontier_oracle.property_tests.simulate.run import digest

    data = {
        "date": datetime.date.today().isoformat(),
        "environment": environment(),
        "command": " ".join(["frontier-oracle", *sys.argv[1:]]),
        "weights_sha256": digest(weights),
        "files": sorted({prompt.category for prompt in done.prompts}),
        "prompt_tokens": max(len(p.tokens) for p in done.prompts),
        "options": asdict(done.options),
        "simulate": done.as_data(),
        "designs": ab.compare(done),
    }
    try:
        path.write_text(jsonout.dumps(data) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--ab {path}: cannot be written ({error.strerror or error})") from None


def _verdict(done: Simulation) -> int:
    """Lower precision may break a tie of two tokens otherwise; float64 has none."""
    differs = any(done.findings.values()) and done.options.dtype == "float64"
    return exits.DIVERGENCE if differs else exits.EQUAL


def _device(device: str) -> str:
    kind = device.split(":")[0]
    if kind not in ("cpu", "cuda"):
        raise UsageError(f"--device {device}: expected cpu or cuda")
    if kind == "cuda":
        exits.need_cuda(f"--device {device}")
    return kind


@contextmanager
def _showing(tokens: int, quiet: bool) -> Iterator[Callable[[str, int], None]]:
    """A bar on a terminal, a line now and then elsewhere. tokens: at most, since an output may end early."""
    if quiet:
        yield lambda name, done: None
    elif sys.stderr.isatty():
        from frontier_oracle.property_tests.cli.progress import bar as new_bar

        with new_bar() as bar:
            task: Any = bar.add_task("starting", total=tokens)
            yield lambda name, done: bar.update(task, advance=done, description=f"{name}, tokens")
    else:
        yield _Lines(tokens).show


class _Lines:
    def __init__(self, tokens: int) -> None:
        self.tokens, self.done = tokens, 0
        self.started = self.last = time.monotonic()

    def show(self, name: str, done: int) -> None:
        now, self.done = time.monotonic(), self.done + done
        if now - self.last >= EVERY_SECONDS:
            self.last = now
            line = f"simulate: {self.done} of at most {self.tokens} tokens after {now - self.started:.0f} s ({name})"
            print(line, file=sys.stderr, flush=True)
