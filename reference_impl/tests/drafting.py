"""A tiny engine for the reference's own tests: requests, shuffled page tables, a made-up target, a recording model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, ExtendBatch, ForwardInputs, System
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.reference_impl.model.config import ModelConfig
from frontier_oracle.reference_impl.model.paged_head import PagedHead
from frontier_oracle.reference_impl.model.weights import random_model

VOCAB = 64


def draft_config(
    spec: Spec, max_positions: int = 64, num_slots: int = 5, dtype: str = "float64", size: int = 8
) -> DraftConfig:
    cols = tuple(group.cols(max_positions, spec.k) for group in spec.groups)
    num_pages = tuple(1 + num_slots * c for c in cols)
    return DraftConfig(spec, num_slots, num_slots, num_pages, cols, size, dtype)


def paged_head(config: DraftConfig, seed: int = 0) -> PagedHead:
    """A small random head that fits ``config``; its convolutions weigh as much as its streams."""
    spec = config.spec
    windows = tuple(spec.window_of(d) for d in range(spec.steps))
    model = random_model(
        ModelConfig(VOCAB, config.hidden_size, 1, 2, 1, 24, 24, windows, spec.conv_width), seed, config.dtype
    )
    for block in model.chain.depths:
        for conv in block.convs:
            conv.weight.mul_(2)
    return PagedHead(config, model.chain, model.target)


class StubModel:
    """Records its calls. Row outputs are unique numbers; drafts are unique negative tokens -2, -3, ..."""

    def __init__(self) -> None:
        self.calls: list[ForwardInputs] = []
        self.outputs: list[Tensor] = []
        self.tokens: list[Tensor] = []
        self.loaded: list[tuple[int, int, int]] = []

    def forward(self, inputs: ForwardInputs) -> tuple[Tensor, Tensor]:
        number = len(self.calls)
        tokens = -2 - number * 100 - torch.arange(len(inputs.sample_rows), dtype=torch.int32)
        rows = torch.arange(1, len(inputs.input_ids) + 1, dtype=inputs.hidden.dtype)
        masked = torch.stack([loc == 0 for loc in inputs.out_cache_loc]).all(0)
        output = torch.where(masked, 0, 1000.0 * (number + 1) + rows)[:, None].expand_as(inputs.hidden)
        self.calls.append(replace(inputs, input_ids=inputs.input_ids.clone(), hidden=inputs.hidden.clone()))
        self.outputs.append(output)
        self.tokens.append(tokens)
        return output, tokens

    def load_conv_state(self, slot: int, page: int, length: int) -> None:
        self.loaded.append((slot, page, length))


@dataclass
class Request:
    """tokens: everything committed, x[0..F] once the prompt is read; computed: C; drafts: this round's."""

    prompt_len: int
    tokens: list[int]
    slot: int
    tables: tuple[Tensor, ...]
    computed: int = 0
    drafts: list[int] = field(default_factory=list)


class Engine:
    """Drives one system. The target's hidden h(p) is a random vector that depends on tokens 0..p."""

    def __init__(
        self,
        config: DraftConfig,
        make: Callable[[DraftConfig, DraftModel], System],
        model: DraftModel,
        seed: int = 0,
        low: int = 0,
        high: int = VOCAB,
    ) -> None:
        self.config, self.model = config, model
        self.system = make(config, model)
        self.k, self.steps = config.spec.k, config.spec.steps
        self.rng = np.random.default_rng(seed)
        self.low, self.high = low, high
        self.pages = [list(self.rng.permutation(np.arange(1, n))) for n in config.num_pages]

    def token(self) -> int:
        return int(self.rng.integers(self.low, self.high))

    def hidden(self, tokens: Sequence[int], position: int) -> Tensor:
        drawn = np.random.default_rng([t + 10**6 for t in tokens[: position + 1]]).standard_normal(
            self.config.hidden_size
        )
        return torch.from_numpy(drawn).to(getattr(torch, self.config.dtype))

    def admit(self, prompt_len: int, slot: int) -> Request:
        tables = tuple(
            torch.tensor([pages.pop() for _ in range(cols)], dtype=torch.int32)
            for pages, cols in zip(self.pages, self.config.cols, strict=True)
        )
        return Request(prompt_len, [self.token() for _ in range(prompt_len + 1)], slot, tables)

    def finish(self, request: Request) -> None:
        self.system.release(request.slot)
        for pages, table in zip(self.pages, request.tables, strict=True):
            pages.extend(table.tolist())
            self.rng.shuffle(pages)

    def tables(self, requests: Sequence[Request], rows: int) -> tuple[Tensor, ...]:
        tables = []
        for g, cols in enumerate(self.config.cols):
            table = torch.zeros(rows, cols, dtype=torch.int32)
            for r, request in enumerate(requests):
                table[r] = request.tables[g]
            tables.append(table)
        return tuple(tables)

    def extend(self, chunks: Sequence[tuple[Request, int]]) -> Tensor:
        requests = [request for request, _ in chunks]
        ends = [request.computed + n for request, n in chunks]
        final = tuple(end == request.prompt_len for (request, _), end in zip(chunks, ends, strict=True))
        spans = [(request, range(request.computed, end)) for request, end in zip(requests, ends, strict=True)]
        following = [
            [q.tokens[end + i] if end + i < q.prompt_len else -1 for i in range(self.steps)]
            for q, end in zip(requests, ends, strict=True)
        ]
        sampled = [q.tokens[-1] if f else self.token() for q, f in zip(requests, final, strict=True)]
        batch = ExtendBatch(
            req_pool_indices=torch.tensor([q.slot for q in requests], dtype=torch.int32),
            prefix_lens=tuple(q.computed for q in requests),
            extend_lens=tuple(n for _, n in chunks),
            is_final=final,
            input_ids=torch.tensor([q.tokens[p] for q, span in spans for p in span], dtype=torch.int32),
            next_ids=torch.tensor(following, dtype=torch.int32),
            sampled_ids=torch.tensor(sampled, dtype=torch.int32),
            hidden=torch.stack([self.hidden(q.tokens, p) for q, span in spans for p in span]),
            seq_lens=torch.tensor(ends, dtype=torch.int32),
            page_table=self.tables(requests, len(requests)),
        )
        result = self.system.extend(batch)
        for request, end, row in zip(requests, ends, result.tolist(), strict=True):
            request.computed, request.drafts = end, row[1:]
        return result

    def decode(self, accepts: Sequence[tuple[Request, int]], pad_to: int = 0) -> Tensor:
        rows = max(pad_to, len(accepts))
        verify = torch.zeros(rows, self.k, dtype=torch.int32)
        hidden = torch.full((rows, self.k, self.config.hidden_size), 7.0, dtype=getattr(torch, self.config.dtype))
        before = [request.computed for request, _ in accepts]
        for r, (request, a) in enumerate(accepts):
            committed = [*request.drafts[: a - 1], self.token()]
            request.tokens += committed
            verify[r] = torch.tensor(committed + [self.token() for _ in range(self.k - a)])
            for j in range(self.k):
                known = j < a
                hidden[r, j] = self.hidden(request.tokens, before[r] + j) if known else torch.rand(hidden.shape[-1])
        requests = [request for request, _ in accepts]
        pad = [0] * (rows - len(requests))
        batch = DecodeBatch(
            req_pool_indices=torch.tensor([q.slot for q in requests] + pad, dtype=torch.int32),
            seq_lens=torch.tensor(before + [1 for _ in pad], dtype=torch.int32),
            accept_lengths=torch.tensor([a for _, a in accepts] + [1 for _ in pad], dtype=torch.int32),
            verify_ids=verify,
            hidden=hidden.flatten(0, 1),
            page_table=self.tables(requests, rows),
        )
        result = self.system.decode(batch)
        for (request, a), row in zip(accepts, result.tolist(), strict=False):
            assert row[0] == request.tokens[-1]
            request.computed, request.drafts = request.computed + a, row[1:]
        return result
