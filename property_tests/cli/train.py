"""``train``: the recipe of the bundled model as a command."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.cli import exits
from frontier_oracle.property_tests.cli.options import Format, FormatOption
from frontier_oracle.property_tests.gate.environment import environment

if TYPE_CHECKING:
    from frontier_oracle.reference_impl.model.train.loop import OnStep

EVERY_SECONDS = 10.0
LARGEST_SEED = 2**62  # what torch draws from has 64 bits, and each part takes a number of its own


class Size(StrEnum):
    """Which recipe. smollm2 trains depths on a frozen pretrained target (extra 'smollm2')."""

    SMOKE = "smoke"
    BUNDLED = "bundled"
    SMOLLM2 = "smollm2"


def train(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Weights, checkpoint and record.json go there.")],
    size: Annotated[Size, typer.Option("--size", help="smoke: seconds on a CPU; others: minutes on an H200.")],
    text: Annotated[
        Path | None,
        typer.Option("--text", metavar="DIR", help="Train on the .py files below DIR. Default: the standard library."),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="cpu, or cuda: bf16 matrix products.")] = "cpu",
    seed: Annotated[int, typer.Option("--seed", help="Initial weights and batches follow from it.")] = 0,
    steps: Annotated[int, typer.Option("--steps", help="Steps of the whole run; 0 is the recipe's own number.")] = 0,
    max_time: Annotated[
        float, typer.Option("--max-time", metavar="SECONDS", help="Stop at a checkpoint after so long; 0 is never.")
    ] = 0,
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the loss with torch.compile first.")] = False,
    format_: FormatOption = Format.TABLE,
) -> int:
    """Train a target and its MTP chain. The same command again goes on from the last checkpoint."""
    exits.need_torch()
    exits.need_modules("train", "torch", "safetensors")
    if device not in ("cpu", "cuda"):
        raise UsageError(f"--device {device}: expected cpu or cuda")
    if device == "cuda":
        exits.need_cuda("--device cuda")
    for option, value in (("--steps", steps), ("--max-time", max_time), ("--seed", seed)):
        if value < 0:
            raise UsageError(f"{option} {value}: expected 0 or more")
    if seed >= LARGEST_SEED:
        raise UsageError(f"--seed {seed}: expected less than {LARGEST_SEED}")
    from frontier_oracle.reference_impl.model import smollm2
    from frontier_oracle.reference_impl.model.train import corpus, loop
    from frontier_oracle.reference_impl.model.train.recipe import SIZES

    recipe = replace(SIZES[size.value], seed=seed)
    recipe = replace(recipe, steps=steps) if steps else recipe
    encode = smollm2.encode if size is Size.SMOLLM2 else corpus.as_bytes
    texts = corpus.read_corpus(text or corpus.standard_library(), encode)
    with _showing() as on_step:
        run = loop.train(recipe, texts, out, device, max_time or None, compiled, on_step)
    record = {
        "environment": environment() | {"device": _device_name(device)},
        "recipe": recipe.to_data(),
        "corpus": texts.facts(),
        "done": run.done,
        "steps": run.steps,
        "seconds": run.seconds,
        "evaluations": run.evaluations,
        "curve": run.curve,
    }
    (out / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if format_ is Format.JSON:
        print(json.dumps(record, indent=2))
    else:
        _print_table(record, out)
    return exits.EQUAL


def _device_name(device: str) -> str:
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


@contextmanager
def _showing() -> Iterator[OnStep]:
    """A bar on a terminal, a line now and then elsewhere; on stderr."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Bar(*columns, TextColumn("{task.description}"), console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def advance(done: int, total: int, loss: tuple[float, float]) -> None:
            bar.update(task, total=total, completed=done, description=_losses(loss))

        yield advance


def _lines() -> Callable[[int, int, tuple[float, float]], None]:
    started = last = time.monotonic()

    def show(done: int, total: int, loss: tuple[float, float]) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= EVERY_SECONDS:
            last = now
            print(f"train: step {done} of {total} after {now - started:.0f} s ({_losses(loss)})", file=sys.stderr)

    return show


def _losses(loss: tuple[float, float]) -> str:
    return f"loss: target {loss[0]:.3f}, depths {loss[1]:.3f} nats"


def _print_table(record: dict[str, Any], out: Path) -> None:
    console = Console(width=None if sys.stdout.isatty() else 100)
    state = "done" if record["done"] else "stopped; the same command goes on"
    last = record["evaluations"][-1]
    title = f"step {record['steps']} of {record['recipe']['steps']}, {state}; held-out text"
    grid = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for header in ("predictor", "loss (nats)", "top-1", "agrees with target", "all depths so far agree"):
        grid.add_column(header, justify="left" if header == "predictor" else "right")
    grid.add_row("target", f"{last['loss'][0]:.3f}", f"{last['top1'][0]:.1%}", "-", "-")
    for d, (agrees, prefix) in enumerate(zip(last["agrees"], last["prefix"], strict=True)):
        cells = (f"{last['loss'][d + 1]:.3f}", f"{last['top1'][d + 1]:.1%}", f"{agrees:.1%}", f"{prefix:.1%}")
        grid.add_row(f"depth {d}", *cells)
    console.print(grid)
    console.print(f"expected accept length {last['expected_accept_length']:.2f}; weights, record.json: {out}")
