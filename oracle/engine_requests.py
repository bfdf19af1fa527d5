"""What the engine holds of a request, and the steps it hands out: adopted, released, one model round."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.contract import DecodeBatch, ExtendBatch
from frontier_oracle.oracle.pages import Table
from frontier_oracle.oracle.scenario import Admit, Scenario, max_batch, max_positions, requests

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@dataclass
class Request:
    """One request as the engine holds it. tokens = x[0..K], hidden = h(0..C-1), computed = C, hit = L."""

    name: str
    number: int
    slot: int
    prompt: int
    tokens: list[int]
    chunks: list[int]
    hidden: I64
    states: I64
    tables: list[Table]
    hit: int = 0
    computed: int = 0
    drafts: I32 = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    @property
    def known(self) -> int:
        """K: the last known token's position."""
        return len(self.tokens) - 1


@dataclass(frozen=True)
class View:
    """What one request's row must be judged against in a round. tokens [K+1], hidden [C]; tables are live objects
    whose locations hold for this round; sampled: x[C] was sampled (decode, or a prompt's last chunk)."""

    request: Request
    tokens: I32
    hidden: I64
    computed: int
    before: int
    accept: int
    sampled: bool

    @property
    def known(self) -> int:
        return len(self.tokens) - 1


@dataclass(frozen=True)
class Adopted:
    """A request took a slot with ``length`` cached positions; ``pages`` are group 0's."""

    request: Request
    pages: tuple[int, ...]
    length: int


@dataclass(frozen=True)
class Released:
    """The request's slot is free again."""

    request: Request


@dataclass(frozen=True)
class Round:
    """One model round. ``batch`` holds numpy arrays, hiddens as int64 digests [N]; views are per live batch row."""

    index: int
    mode: str
    batch: ExtendBatch | DecodeBatch
    views: tuple[View, ...]
    fresh_pages: tuple[tuple[int, int], ...]


Step = Adopted | Released | Round


@dataclass(frozen=True)
class Room:
    """What an engine is built for: request slots (slot 0 not counted), hidden width, and the most it will meet of
    requests, positions of one request, rows of one request's chunk, and batch rows (padding included)."""

    slots: int
    hidden_size: int
    requests: int
    positions: int
    chunk: int
    batch: int


def room_of(scenario: Scenario) -> Room:
    """Just what a scenario needs."""
    admits = requests(scenario)
    longest = max([_longest_chunk(admit) for admit in admits.values()], default=1)
    return Room(
        slots=scenario.slots,
        hidden_size=scenario.hidden_size,
        requests=len(admits),
        positions=max_positions(scenario),
        chunk=longest,
        batch=max_batch(scenario),
    )


def run_target(tokens: list[int]) -> tuple[I64, I64]:
    """(states [P], hiddens [P]) of the target over a prompt."""
    states = np.zeros(len(tokens), dtype=np.int64)
    state = np.zeros(1, dtype=np.int64)
    for p, token in enumerate(tokens):
        state = digest.target_state(state, np.array([token], dtype=np.int64))
        states[p] = state[0]
    return states, digest.target_hidden(states, np.arange(len(tokens), dtype=np.int64))


def _longest_chunk(admit: Admit) -> int:
    """The longest EXTEND round an admission can lead to, whatever the prefix cache gives."""
    chunks = admit.chunks or (admit.prompt,)
    return max(*chunks, chunks[0] + admit.prompt - sum(chunks))
