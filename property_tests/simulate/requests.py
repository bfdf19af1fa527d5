"""What the engine holds of a request, what it logs of a verify round, and how a run is set up."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.simulate.memory import Holding
from frontier_oracle.property_tests.simulate.prompts import Prompt
from frontier_oracle.property_tests.simulate.sampling import Sampling
from frontier_oracle.reference_impl.model.config import EOS as END

DTYPES = ("float64", "float32", "bfloat16")
EOS, LENGTH, CONTEXT = "eos", "length", "context"


@dataclass(frozen=True)
class Options:
    """How prompts are served. k: verify rows; batch: requests at once; chunk: longest prompt chunk, 0 for whole
    prompts; context: positions of a request, prompt and output (S22). recompute: hold every round's drafts against
    those of the ideal, recomputed from scratch (S3)."""

    k: int = 8
    batch: int = 16
    max_tokens: int = 128
    context: int = 512
    chunk: int = 0
    page_size: int = 16
    dtype: str = "float64"
    device: str = "cpu"
    sampling: Sampling = Sampling()
    eos: int = END
    recompute: bool = True

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise UsageError(f"dtype {self.dtype!r}: expected {', '.join(DTYPES)}")
        if min(self.batch, self.max_tokens, self.page_size) < 1 or self.chunk < 0:
            raise UsageError("batch, max-tokens and page size are at least 1, and a chunk is not negative")


@dataclass(frozen=True)
class VerifyRound:
    """One verify round of one request. frontier: F before it; accept: a as verified, bonus included; committed: what of
    it the output took (EOS or a limit may cut it); drafts: what was verified; ideal: what a recomputation from scratch
    drafts at the same state, () where that was not asked for."""

    frontier: int
    accept: int
    committed: int
    batch_size: int
    drafts: tuple[int, ...]
    ideal: tuple[int, ...] = ()


@dataclass(eq=False)
class Request:
    """One request in a slot. ``drafts`` and ``ideal`` wait for the next verify round; noise: uniform, by position."""

    number: int
    prompt: Prompt
    slot: int
    holding: Holding
    chunks: list[int]
    noise: NDArray[np.float64]
    drafts: tuple[int, ...] = ()
    ideal: tuple[int, ...] = ()
    rounds: list[VerifyRound] = field(default_factory=list)
    finish: str = ""

    @property
    def tokens(self) -> list[int]:
        """x[0..F]."""
        return self.holding.tokens

    @property
    def computed(self) -> int:
        """F: positions whose entries stand in the caches; the last known token's position once the prompt is read."""
        return self.holding.computed

    @property
    def output(self) -> list[int]:
        return self.tokens[len(self.prompt.tokens) :]

    def take(self, tokens: list[int], options: Options) -> int:
        """Commit tokens up to EOS, the output limit or the end of the context. Returns how many were taken."""
        for count, token in enumerate(tokens, 1):
            self.tokens.append(token)
            if token == options.eos:
                self.finish = EOS
            elif len(self.output) >= options.max_tokens:
                self.finish = LENGTH
            elif len(self.tokens) >= options.context:
                self.finish = CONTEXT
            if self.finish:
                return count
        return len(tokens)


def chunk_lengths(start: int, end: int, chunk: int, last_at_least: int) -> list[int]:
    """Prompt positions start..end-1 in chunks of at most ``chunk`` (0: one chunk). A last chunk shorter than
    ``last_at_least`` goes with the one before it, as a scheduler does that vouches for a design's stash."""
    whole = end - start
    cut = [min(chunk, whole - at) for at in range(0, whole, chunk)] if chunk else [whole]
    while len(cut) > 1 and cut[-1] < last_at_least:
        cut[-2:] = [cut[-2] + cut[-1]]
    return cut
