"""The serving engine: requests in slots, prompts in chunks, verify rounds on the target, drafts from any system.

EXTEND and DECODE rounds are forwards of their own (S15). Requests arrive as slots fall free. What a round needs on the
host (tokens, lengths) is read back once a round, as engines without overlap do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, ExtendBatch
from frontier_oracle.property_tests.simulate.drafters import Drafter
from frontier_oracle.property_tests.simulate.ideal import Ideal
from frontier_oracle.property_tests.simulate.memory import Memory
from frontier_oracle.property_tests.simulate.prompts import Prompt
from frontier_oracle.property_tests.simulate.requests import Options, Request, VerifyRound, chunk_lengths
from frontier_oracle.property_tests.simulate.sampling import Verify, accept_lengths, exact
from frontier_oracle.reference_impl.pages import locations

Progress = Callable[[int], None]


@dataclass
class Engine:
    """Serves prompts once: ``run``. target: a PagedTarget; drafter: how drafts come about;
    verify: ``sampling.exact``, or a planted fault. decode_seconds: what each call of the drafter took; round_seconds:
    what each verify round took, and how many requests were in it."""

    options: Options
    memory: Memory
    target: Any
    drafter: Drafter
    ideal: Ideal | None = None
    verify: Verify = exact
    live: list[Request] = field(default_factory=list)
    done: list[Request] = field(default_factory=list)
    ideal_seconds: float = 0.0
    decode_seconds: list[float] = field(default_factory=list)
    round_seconds: list[tuple[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = list(range(self.options.batch, 0, -1))
        self.width = 1 if self.drafter.plain else self.options.k
        self.steps = self.memory.spec.steps

    def run(self, prompts: Sequence[Prompt], progress: Progress = lambda tokens: None) -> list[Request]:
        """Serve all prompts to their end, in the order given as slots fall free. progress: told the tokens put out
        since it was last told."""
        waiting = list(enumerate(prompts))
        while waiting or self.live:
            before = sum(len(r.output) for r in (*self.live, *self.done))
            self._admit(waiting)
            reading = [r for r in self.live if r.chunks]
            if reading:
                self._extend(reading)
            ready = [r for r in self.live if not r.chunks]
            if ready:
                started = time.perf_counter()
                self._decode(ready)
                self.round_seconds.append((len(ready), time.perf_counter() - started))
            progress(sum(len(r.output) for r in (*self.live, *self.done)) - before)
        return sorted(self.done, key=lambda r: r.number)

    def _admit(self, waiting: list[tuple[int, Prompt]]) -> None:
        """Fill free slots. A later turn waits for the one before it, whose pages it then takes over."""
        for number, prompt in list(waiting):
            if not self.free:
                return
            if any(r.prompt.name == prompt.name for r in self.live):
                continue
            waiting.remove((number, prompt))
            holding = self.memory.admit(list(prompt.tokens))
            chunks = chunk_lengths(
                holding.hit, len(prompt.tokens), self.options.chunk, self.drafter.last_chunk_at_least
            )
            noise = self.options.sampling.noise(number, self.memory.positions)
            request = Request(number, prompt, self.free.pop(), holding, chunks, noise)
            if holding.hit:
                self.drafter.adopt(request.slot, holding.tables[1].logical_pages(), holding.hit)
            self.live.append(request)

    # -- rounds -------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _extend(self, batch: list[Request]) -> None:
        """One chunk of each prompt (S12, S13)."""
        starts = [r.computed for r in batch]
        lens = [r.chunks.pop(0) for r in batch]
        ends = [s + n for s, n in zip(starts, lens, strict=True)]
        for r, end in zip(batch, ends, strict=True):
            self.memory.ensure(r.holding, end + self.steps)
        ids = [r.tokens[s:e] for r, s, e in zip(batch, starts, ends, strict=True)]
        hidden, logits, tables = self._target_rows(batch, ids, starts)
        last = torch.tensor(lens, device=self.options.device).cumsum(0) - 1
        sampled = self._sample(logits[last], [[r.noise[e]] for r, e in zip(batch, ends, strict=True)])
        final = [not r.chunks for r in batch]
        following = [
            (r.tokens[e : e + self.steps] + [-1] * self.steps)[: self.steps] for r, e in zip(batch, ends, strict=True)
        ]
        returned = self.drafter.extend(
            ExtendBatch(
                req_pool_indices=self._ints([r.slot for r in batch]),
                prefix_lens=tuple(starts),
                extend_lens=tuple(lens),
                is_final=tuple(final),
                input_ids=self._ints(sum(ids, [])),
                next_ids=self._ints(following),
                sampled_ids=sampled[:, 0].int(),
                hidden=hidden.clone(),  # what the drafter does to it must not reach the ideal
                seq_lens=self._ints(ends),
                page_table=tuple(tables[1:]),
            )
        )
        for r, s, e, rows in zip(batch, starts, ends, hidden.split(lens), strict=True):
            r.holding.computed = e
            self._keep(r, s, rows)
        finals = [r for r, is_final in zip(batch, final, strict=True) if is_final]
        for r, token in zip(batch, sampled[:, 0].tolist(), strict=True):
            if r in finals:
                r.take([token], self.options)
        self._settle(finals, [row for row, is_final in zip(returned, final, strict=True) if is_final])

    @torch.no_grad()
    def _decode(self, batch: list[Request]) -> None:
        """One verify round: the target over [x[F], drafts], what it accepts, and the next drafts."""
        k, width = self.options.k, self.width
        for r in batch:
            self.memory.ensure(r.holding, r.computed + 2 * k)
        starts = [r.computed for r in batch]
        candidates = [([r.tokens[-1], *r.drafts] + [0] * width)[:width] for r in batch]
        hidden, logits, tables = self._target_rows(batch, candidates, starts)
        logits, offered = logits.view(len(batch), width, -1), torch.tensor(candidates, device=self.options.device)
        noise = [r.noise[s + 1 : s + 1 + width].tolist() for r, s in zip(batch, starts, strict=True)]
        own = self.verify(logits, self._sample(logits.flatten(0, 1), noise).view(len(batch), width), offered)
        drafted = torch.tensor([len(r.drafts[: width - 1]) for r in batch], device=self.options.device)
        accepts = accept_lengths(own, offered, drafted)
        for r, a, tokens in zip(batch, accepts.tolist(), own.tolist(), strict=True):
            taken = r.take(tokens[:a], self.options)
            r.rounds.append(VerifyRound(r.computed, a, taken, len(batch), r.drafts, r.ideal))
        going = [i for i, r in enumerate(batch) if not r.finish]
        rows = torch.tensor(going, dtype=torch.int64, device=self.options.device)
        returned: list[list[int]] = []
        if going:
            drafting = DecodeBatch(
                req_pool_indices=self._ints([batch[i].slot for i in going]),
                seq_lens=self._ints([starts[i] for i in going]),
                accept_lengths=accepts[rows].int(),
                verify_ids=own[rows].int(),
                hidden=hidden.view(len(batch), width, -1)[rows].flatten(0, 1),
                page_table=tuple(table[rows] for table in tables[1:]),
            )
            self._wait()
            started = time.perf_counter()
            returned = self.drafter.decode(drafting)
            self.decode_seconds.append(time.perf_counter() - started)
        for i in going:
            r = batch[i]
            r.holding.computed = len(r.tokens) - 1
            self._keep(r, starts[i], hidden[i * width : i * width + r.computed - starts[i]])
        self._settle([batch[i] for i in going], returned)
        for r in [r for r in batch if r.finish and r in self.live]:
            self._leave(r)

    def _settle(self, batch: list[Request], returned: list[list[int]]) -> None:
        """Drafts for the next round; requests that have ended leave."""
        going = [r for r in batch if not r.finish]
        ideal = self._ideal_drafts(going)
        for r, row in zip(batch, returned, strict=True):
            r.drafts = tuple(row[1:])
        for r, drafts in zip(going, ideal, strict=True):
            r.ideal = drafts
            if self.drafter.recomputes:
                r.drafts = drafts
        for r in batch:
            if r.finish:
                self._leave(r)

    def _ideal_drafts(self, batch: list[Request]) -> list[tuple[int, ...]]:
        if self.ideal is None or not batch:
            return [()] * len(batch)
        started = time.perf_counter()
        drafts = self.ideal.drafts([r.tokens for r in batch], [r.holding.hidden for r in batch])
        self.ideal_seconds += time.perf_counter() - started
        return drafts

    def _leave(self, r: Request) -> None:
        self.live.remove(r)
        self.done.append(r)
        self.free.append(r.slot)
        self.drafter.release(r.slot)
        self.memory.leave(r.holding)

    # -- tensors ------------------------------------------------------------------------------------------------------

    def _target_rows(
        self, batch: list[Request], ids: list[list[int]], starts: list[int]
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The target over rows starts..: hiddens [n, H], logits [n, V], and all page tables."""
        tables = self.memory.page_tables([r.holding for r in batch], self.options.device)
        counts = [len(row) for row in ids]
        equal = len(set(counts)) == 1
        positions = self._ints([s + i for s, n in zip(starts, counts, strict=True) for i in range(n)])
        request = torch.repeat_interleave(torch.tensor(counts)).to(self.options.device)
        ends = [s + n for s, n in zip(starts, counts, strict=True)]
        in_use = tables[0][:, : -(-max(ends) // self.options.page_size)]
        hidden, logits = self.target.forward(
            self._ints(ids if equal else sum(ids, [])),
            positions,
            locations(in_use, self.options.page_size, request, positions),
            torch.cat([self._ints([0]), self._ints(counts).cumsum(0).int()]),
            self._ints(ends),
            in_use,
        )
        return hidden, logits, tables

    def _sample(self, logits: Tensor, noise: list[list[float]]) -> Tensor:
        """[n, V] with n numbers in rows of equal length -> the same shape as the numbers, int64."""
        numbers = torch.tensor(noise, dtype=torch.float64, device=logits.device)
        return self.options.sampling.tokens(logits, numbers.flatten()).view(numbers.shape)

    def _keep(self, r: Request, start: int, rows: Tensor) -> None:
        """Hiddens of new positions, for the ideal."""
        if self.ideal is not None:
            r.holding.hidden = [*r.holding.hidden, rows]

    def _wait(self) -> None:
        """Until the device has done what it was given, so that times are of what comes next."""
        if self.options.device != "cpu":
            torch.cuda.synchronize()

    def _ints(self, values: Any) -> Tensor:
        return torch.tensor(values, dtype=torch.int32, device=self.options.device)
