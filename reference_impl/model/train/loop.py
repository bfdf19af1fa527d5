"""The training loop: resumable at any checkpoint, and the same from start to end as in stretches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reference_impl.model import weights
from frontier_oracle.reference_impl.model.train import checkpoint
from frontier_oracle.reference_impl.model.train.corpus import Batches, Corpus
from frontier_oracle.reference_impl.model.train.losses import accuracy, losses
from frontier_oracle.reference_impl.model.train.recipe import Recipe
from frontier_oracle.reference_impl.model.weights import Model

EVALUATION_ROWS = 256
CURVE_POINTS = 200
# (steps done, of how many, last loss of the target and of the depths' mean)
OnStep = Callable[[int, int, tuple[float, float]], None]


@dataclass
class Run:
    """What a run produced. curve: (step, losses of target and depths in nats). evaluations: ``accuracy`` by step.
    seconds: of this and earlier stretches. done: whether every step of the recipe was taken."""

    model: Model
    done: bool
    steps: int = 0
    seconds: float = 0.0
    curve: list[tuple[int, list[float]]] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)


def train(
    recipe: Recipe,
    corpus: Corpus,
    out: Path,
    device: str = "cpu",
    max_seconds: float | None = None,
    compiled: bool = False,
    on_step: OnStep = lambda done, total, loss: None,
) -> Run:
    """Train from ``out``'s checkpoint, or from the seed where there is none; write weights and checkpoint there.

    Stops at a checkpoint once ``max_seconds`` are over. On a CPU the weights follow from recipe and corpus alone, bit
    for bit, in however many stretches; on a GPU sums are taken in an order that varies. Raises UsageError if the
    checkpoint is of another recipe or corpus."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out}: cannot be written ({error.strerror or error}); name another --out") from None
    identity = {"recipe": recipe.to_data(), "corpus": corpus.facts()}
    trainer = _Trainer(recipe, corpus, device, compiled)
    run = Run(trainer.model, done=False)
    if (progress := checkpoint.read_progress(out)) is not None:
        if progress["identity"] != identity:
            raise UsageError(f"{out / checkpoint.NAME}: another recipe or text; name another --out, or remove it")
        checkpoint.restore(out, trainer.named, trainer.optimizer)
        run.steps, run.seconds = progress["steps"], progress["seconds"]
        run.curve, run.evaluations = [tuple(point) for point in progress["curve"]], progress["evaluations"]
        if run.steps == recipe.steps:  # a run killed behind its last checkpoint may have left other weights, or none
            weights.save(run.model, out)
    started, before = time.monotonic(), run.seconds
    every = max(1, recipe.steps // CURVE_POINTS)
    while run.steps < recipe.steps:
        keep = run.steps % every == 0
        loss = trainer.step(run.steps)
        if keep:
            values = loss.tolist()
            run.curve.append((run.steps, values))
            on_step(run.steps, recipe.steps, (values[0], sum(values[1:]) / max(1, len(values) - 1)))
        run.steps += 1
        late = max_seconds is not None and time.monotonic() - started > max_seconds
        if late or run.steps % recipe.evaluate_every == 0 or run.steps == recipe.steps:
            run.seconds = before + time.monotonic() - started
            run.evaluations.append({"step": run.steps, **trainer.evaluate()})
            state = {key: getattr(run, key) for key in ("steps", "seconds", "curve", "evaluations")}
            checkpoint.write(out, trainer.named, trainer.optimizer, {**state, "identity": identity})
            weights.save(run.model, out)
        if late:
            break
    run.done = run.steps == recipe.steps
    return run


class _Trainer:
    """Model, optimizer and batches of one run."""

    def __init__(self, recipe: Recipe, corpus: Corpus, device: str, compiled: bool) -> None:
        self.recipe, self.device = recipe, device
        self.model = weights.random_model(recipe.model, recipe.seed, "float32", device)
        self.named: dict[str, Tensor] = {}
        for part, module in self.model.trained().items():
            module.requires_grad_(True)
            self.named |= {f"{part}.{name}": parameter for name, parameter in module.named_parameters()}
        decayed = [p for p in self.named.values() if p.ndim > 1]
        plain = [p for p in self.named.values() if p.ndim == 1]
        self.named = {name: p for dim in (True, False) for name, p in self.named.items() if (p.ndim > 1) is dim}
        self.optimizer = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": plain, "weight_decay": 0.0}],
            lr=recipe.learning_rate,
            betas=(0.9, 0.95),
            fused=True,
        )
        self.batches = Batches(corpus.train.tokens, recipe.batch, recipe.row, recipe.seed, device)
        self.held_out = Batches(corpus.held_out.tokens, recipe.batch, recipe.row, recipe.seed + 1, device)
        self.losses = torch.compile(losses) if compiled else losses

    def step(self, step: int) -> Tensor:
        """One update. Returns the losses [1 + depths], on the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.learning_rate_at(step)
        with self._precision():
            loss: Tensor = self.losses(self.model, self.batches(step))
        (loss[0] + self.recipe.chain_weight * loss[1:].mean()).backward()
        torch.nn.utils.clip_grad_norm_(self.named.values(), self.recipe.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def evaluate(self) -> dict[str, Any]:
        """``accuracy`` on the same held-out rows every time."""
        count = max(1, EVALUATION_ROWS // self.recipe.batch)
        with self._precision():
            return accuracy(self.model, [self.held_out(i) for i in range(count)])

    @contextmanager
    def _precision(self) -> Iterator[None]:
        """bf16 matrix products on a GPU, fp32 on a CPU."""
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device != "cpu"):
            yield
