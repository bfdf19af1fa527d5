"""How a model is trained: numbers only. Loss, learning rate and batches follow from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from frontier_oracle.reference_impl.model import smollm2
from frontier_oracle.reference_impl.model.config import ModelConfig


@dataclass(frozen=True)
class Recipe:
    """context: positions a row; batch: rows a step. learning_rate rises over ``warmup`` steps, stands, and falls to
    zero in a straight line over the last part ``decay`` of all ``steps``. chain_weight: weight of the depths' mean loss
    beside the target's. evaluate_every: steps between evaluations on held-out text, checkpoints too."""

    model: ModelConfig = field(default_factory=ModelConfig)
    steps: int = 10800
    batch: int = 64
    context: int = 1024
    learning_rate: float = 2e-3
    warmup: int = 200
    decay: float = 0.6
    weight_decay: float = 0.1
    clip: float = 1.0
    chain_weight: float = 0.5
    evaluate_every: int = 500
    seed: int = 0

    @property
    def row(self) -> int:
        """Tokens a row needs: the deepest depth's label stands depths + 1 behind the last position."""
        return self.context + self.model.depths + 1

    def learning_rate_at(self, step: int) -> float:
        """Of 0-based ``step``."""
        left = (self.steps - step) / max(1.0, self.decay * self.steps)
        return self.learning_rate * min(1.0, (step + 1) / max(1, self.warmup), left)

    def to_data(self) -> dict[str, Any]:
        """JSON data; two runs with equal data take the same steps."""
        return {**asdict(self), "model": {**asdict(self.model), "windows": list(self.model.windows)}}


SMOKE = Recipe(
    ModelConfig(hidden_size=64, layers=2, intermediate_size=128, draft_intermediate_size=128, windows=(None, 16, None)),
    steps=40,
    batch=8,
    context=64,
    warmup=5,
    evaluate_every=20,
)
SMOLLM2 = Recipe(smollm2.CONFIG, steps=2000, batch=16, learning_rate=1e-3, evaluate_every=250)
SIZES = {"smoke": SMOKE, "bundled": Recipe(), smollm2.NAME: SMOLLM2}
