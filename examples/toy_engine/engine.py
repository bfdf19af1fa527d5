"""The drafter of a toy engine: multi-token prediction heads over a paged cache, in plain torch.

It keeps each request's recent tokens and target hiddens in a ring by position, so a round can run any of its last rows
again. It knows nothing of Frontier Oracle. Somewhere in it is a fault that public engines have really had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Chunk:
    """A piece of a prompt: its tokens [n], the prompt tokens behind it [depths] (-1 past the prompt's end), what the
    target sampled behind it, and the target's hiddens [n, H]. last: the piece ends the prompt."""

    slot: int
    start: int
    tokens: Tensor
    lookahead: Tensor
    sampled: Tensor
    hidden: Tensor
    last: bool

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)


@dataclass(frozen=True)
class Rows:
    """What one head is given: n rows of several requests, back to back. starts [bs+1]; lens [bs]: cache length behind
    each request's last row; cells[g] [n]: where each row stores its key and value, 0 for a row that must not."""

    tokens: Tensor
    positions: Tensor
    hidden: Tensor
    cells: tuple[Tensor, ...]
    starts: Tensor
    lens: Tensor
    slots: Tensor
    blocks: tuple[Tensor, ...]


class ToyDrafter:
    """head(depth, rows) runs one draft head and returns its outputs [n, H] and one sampled token a request."""

    def __init__(
        self,
        head: Callable[[int, Rows], tuple[Tensor, Tensor]],
        window: int,
        depths: int,
        chained: bool,
        block_sizes: Sequence[int],
        slots: int,
        hidden_size: int,
        dtype: torch.dtype,
    ) -> None:
        self.head, self.window, self.depths, self.chained = head, window, depths, chained
        self.block_sizes = tuple(block_sizes)
        self.recent = 4 * window
        self.tokens = torch.zeros(slots, self.recent, dtype=torch.int32)
        self.hidden = torch.zeros(slots, self.recent, hidden_size, dtype=dtype)

    def step(
        self, slots: Tensor, frontier: Tensor, accepted: Tensor, verified: Tensor, hidden: Tensor, blocks: Any
    ) -> Tensor:
        """Draft after a verification: the rows before the new frontier run through every head. [bs, depths]."""
        slots, steps = slots.long(), torch.arange(self.window)
        self._remember(slots[:, None], frontier[:, None] + 1 + steps, verified, self.tokens)
        self._remember(slots[:, None], frontier[:, None] + steps, hidden, self.hidden)
        end = frontier + accepted
        positions = end[:, None] - self.window + steps
        live = (positions >= 0) & (slots > 0)[:, None]
        base = self.hidden[slots[:, None], positions % self.recent].masked_fill(~live[..., None], 0).flatten(0, 1)
        starts = torch.arange(len(slots) + 1, dtype=torch.int32) * self.window
        request = torch.arange(len(slots))[:, None].expand_as(positions)
        cells = self._cells(blocks, request, positions, live)
        drafts, out = [], base
        for depth in range(self.depths):
            ids = self.tokens[slots[:, None], (positions + depth + 1) % self.recent].masked_fill(~live, 0)
            passed = positions.masked_fill(~live, 0).flatten()
            given = out if self.chained and depth else base
            out, sampled = self.head(
                depth, Rows(ids.flatten(), passed, given, cells, starts, end, slots.to(torch.int32), blocks)
            )
            self._remember(slots, end + depth + 1, sampled, self.tokens)
            drafts.append(sampled)
        return torch.stack(drafts, dim=1)

    def prefill(self, chunks: Sequence[Chunk], blocks: Any) -> Tensor:
        """Read pieces of prompts, a few rows before each again: they lacked tokens that are there now. [bs, depths]."""
        firsts = [max(0, c.start - self.depths) for c in chunks]
        lines = [self._line(c, first) for c, first in zip(chunks, firsts, strict=True)]
        counts = [c.end - first for c, first in zip(chunks, firsts, strict=True)]
        base = torch.cat([self._hiddens(c, first) for c, first in zip(chunks, firsts, strict=True)])
        positions = torch.cat([torch.arange(f, c.end) for c, f in zip(chunks, firsts, strict=True)]).to(torch.int32)
        request = torch.repeat_interleave(torch.arange(len(chunks)), torch.tensor(counts))
        cells = self._cells(blocks, request, positions, torch.ones_like(positions, dtype=torch.bool))
        starts = torch.tensor([0, *counts]).cumsum(0).to(torch.int32)
        slots = torch.tensor([c.slot for c in chunks], dtype=torch.int32)
        lens = torch.tensor([c.end for c in chunks], dtype=torch.int32)
        drafts, out = [], base
        for depth in range(self.depths):
            ids = torch.cat([line[depth : depth + n] for line, n in zip(lines, counts, strict=True)])
            given = out if self.chained and depth else base
            out, sampled = self.head(depth, Rows(ids, positions, given, cells, starts, lens, slots, blocks))
            for line, n, token in zip(lines, counts, sampled, strict=True):
                if line[n + depth] < 0:
                    line[n + depth] = token
            drafts.append(sampled)
        for chunk, line in zip(chunks, lines, strict=True):
            self._keep(chunk, line)
        return torch.stack(drafts, dim=1)

    def _line(self, chunk: Chunk, first: int) -> Tensor:
        """Tokens first+1 .. end+depths: remembered ones, the piece's own, what follows; -1 where drafts will stand."""
        before = self.tokens[chunk.slot, torch.arange(first, chunk.start) % self.recent]
        return torch.cat([before, chunk.tokens, self._following(chunk)])[1:]

    def _following(self, chunk: Chunk) -> Tensor:
        """Tokens end .. end+depths: the target's sample, then what the prompt goes on with, -1 where it ends."""
        following = torch.cat([chunk.lookahead, chunk.lookahead.new_full((1,), -1)])
        following[0] = chunk.sampled
        return following

    def _hiddens(self, chunk: Chunk, first: int) -> Tensor:
        before = self.hidden[chunk.slot, torch.arange(first, chunk.start) % self.recent]
        return torch.cat([before, chunk.hidden])

    def _keep(self, chunk: Chunk, line: Tensor) -> None:
        """Remember the piece's last tokens and hiddens, and what follows it."""
        count = min(len(chunk.tokens), 2 * self.window)
        at = torch.arange(chunk.end - count, chunk.end)
        self.tokens[chunk.slot, at % self.recent] = chunk.tokens[len(chunk.tokens) - count :]
        self.hidden[chunk.slot, at % self.recent] = chunk.hidden[len(chunk.tokens) - count :]
        behind = chunk.end + torch.arange(self.depths + 1)
        self.tokens[chunk.slot, behind % self.recent] = line[len(line) - self.depths - 1 :]

    def _remember(self, slots: Tensor, positions: Tensor, values: Tensor, ring: Tensor) -> None:
        ring[slots, positions % self.recent] = values

    def _cells(self, blocks: Any, request: Tensor, positions: Tensor, live: Tensor) -> tuple[Tensor, ...]:
        """The cell of each position in every cache group; 0 for rows that store nothing."""
        out = []
        for size, table in zip(self.block_sizes, blocks, strict=True):
            place = positions.clamp(min=0).long()
            block = table[request, place // size % table.shape[1]]
            out.append((block * size + place % size).masked_fill(~live, 0).flatten())
        return tuple(out)
