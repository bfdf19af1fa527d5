"""What a model is made of, and the drafter's Spec that follows from it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.spec import CacheGroup, Spec

# What begins and ends a file in the text of the bundled model; ids below are bytes.
BOS, EOS = 256, 257


@dataclass(frozen=True)
class ModelConfig:
    """Shapes of a target and its MTP chain. The defaults are the bundled model's.

    vocab_size: ids 0..255 are bytes, the rest special. head_size is hidden_size / heads, even; heads is a multiple of
    kv_heads. windows[d]: attention window of depth d in positions, None for full history; rotary positions everywhere.
    conv_width: W of the depths' short convolutions. draft_intermediate_size: the depths' MLP width. pretrained: "", or
    the target that a package brings; its weights are neither trained nor saved.
    """

    vocab_size: int = 264
    hidden_size: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    intermediate_size: int = 704
    draft_intermediate_size: int = 704
    windows: tuple[int | None, ...] = (None, 128, None, 128, None, 128, None)
    conv_width: int = 4
    rope_base: float = 10000.0
    norm_eps: float = 1e-5
    pretrained: str = ""

    def __post_init__(self) -> None:
        if self.hidden_size % (2 * self.heads) or self.heads % self.kv_heads:
            raise UsageError(
                f"model: hidden_size {self.hidden_size} must be a multiple of 2 * heads and heads {self.heads} one of "
                f"kv_heads {self.kv_heads}"
            )
        if not self.windows:
            raise UsageError("model: windows is empty; a drafter has at least one depth")

    @property
    def depths(self) -> int:
        """Draft depths, each a transformer block of its own."""
        return len(self.windows)

    @property
    def head_size(self) -> int:
        """Channels of one attention head."""
        return self.hidden_size // self.heads

    def spec(self, k: int, page_size: int = 16, steps: int = 0, ring_rows: int = 0) -> Spec:
        """The drafter's Spec for verify windows of k rows (S4). steps: default k-1; ring_rows: default (W-1)+k, and a
        lookback design needs steps-1 more (S18).

        Depth d keeps its cache in group d % groups (S17), so the groups are the shortest period of ``windows``.
        Raises UsageError where k asks for more depths than the model has."""
        steps = steps or k - 1
        if steps > self.depths:
            raise UsageError(f"steps={steps}: the model has {self.depths} draft depths; choose k <= {self.depths + 1}")
        groups = tuple(CacheGroup(page_size, window) for window in _period(self.windows[:steps]))
        return Spec(k=k, steps=steps, conv_width=self.conv_width, groups=groups, ring_rows=ring_rows)

    def to_json(self) -> str:
        """One line; what the weights' metadata holds."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ModelConfig:
        """The inverse. Raises ValueError, KeyError or TypeError for what is no configuration."""
        data = json.loads(text)
        return cls(**{**data, "windows": tuple(data["windows"])})


def _period(windows: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """The shortest pattern that repeats."""
    n = 1
    while any(window != windows[i % n] for i, window in enumerate(windows)):
        n += 1
    return windows[:n]
