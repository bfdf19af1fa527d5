"""Bulk runs: one batch of requests in lockstep, accept lengths given, every cell checked after every round.

What the scenario runner does one request at a time, with reasons, is done here for a thousand at once, with a verdict
per request; a request that fails is handed back as a scenario, to be replayed, explained and shrunk there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.bulk import BulkJudge, BulkLayout, Observed
from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, ExtendBatch
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.target import target_rows, verify_rows
from frontier_oracle.oracle.timeline import COMMIT, DISCARDED, GARBAGE, PROMPT
from frontier_oracle.property_tests import torch_digest
from frontier_oracle.property_tests.convert import torch_dtype
from frontier_oracle.property_tests.probe import DigestProbe
from frontier_oracle.property_tests.shield import device_of

MakeSystem = Callable[[DraftConfig, DraftModel], Any]
I64 = NDArray[np.int64]
STOP_AT = 20


class BrokenContract(Exception):
    """A result of another dtype or shape than the contract's: the run cannot go on."""


@dataclass
class BulkResult:
    """request_rounds: DECODE rounds checked, summed over requests (EXTEND rounds are checked too, but not counted);
    failures: (request, round, what), each request once, rounds counted from 0 with the EXTEND rounds; request -1 is a
    cell that belongs to nobody, or a broken contract. seconds: from the first EXTEND to the last check."""

    request_rounds: int = 0
    failures: list[tuple[int, int, str]] = field(default_factory=list)
    seconds: float = 0.0


def run_bulk(
    make_system: MakeSystem,
    spec: Spec,
    accepts: NDArray[np.integer],
    prompt: int = 16,
    chunks: Sequence[int] | None = None,
    hidden_size: int = 8,
    pad_to: int | None = None,
    threads: int | None = None,
    seed: int = 0,
) -> BulkResult:
    """Drive B requests of equal prompts through ``make_system(config, probe)`` and judge every cell of every round.

    accepts [B, R]: accept lengths in 1..spec.max_accept; chunks: the prompt's EXTEND rounds (default one); pad_to: rows
    of the decode bucket, the surplus padded with slot 0 (S20); threads: torch threads of this run. Stops after the
    round in which the 20th request failed.
    """
    chunks = [prompt] if chunks is None else list(chunks)
    if sum(chunks) != prompt or min(chunks) < 1:
        raise ValueError(f"chunks {chunks}: sizes >= 1 that sum to the prompt of {prompt}")
    if accepts.size and not 1 <= accepts.min() <= accepts.max() <= spec.max_accept:
        raise ValueError(f"accept lengths {accepts.min()}..{accepts.max()} outside 1..{spec.max_accept}")
    result = BulkResult()
    with torch_threads(threads), torch.no_grad():
        batch = Bulk(make_system, spec, accepts, chunks, hidden_size, pad_to, seed)
        start = time.perf_counter()
        for number, (counted, failures) in enumerate(batch.rounds()):
            result.request_rounds += counted
            result.failures += [(request, number, what) for request, what in failures]
            if len(result.failures) >= STOP_AT:
                break
        result.seconds = time.perf_counter() - start
    return result


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Runs the block with that many torch threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Bulk:
    """The engine's side of B requests: tokens, target, forced accepts; numpy inside, torch towards the system.

    tokens [B, T]: x[0..K] and what a later round overwrites; hidden [B, T]: h likewise; state [B]: the target's chain
    behind position computed - 1; computed [B]: C.
    """

    def __init__(
        self,
        make_system: MakeSystem,
        spec: Spec,
        accepts: NDArray[np.integer],
        chunks: Sequence[int],
        hidden_size: int,
        pad_to: int | None,
        seed: int,
    ) -> None:
        prompt, batch = sum(chunks), len(accepts)
        longest = int(accepts.sum(axis=1).max(initial=0))
        self.spec, self.accepts, self.chunks, self.seed = spec, accepts.astype(np.int64), chunks, seed
        self.prompt = prompt
        self.bucket = max(batch, pad_to or 0)
        # k spare positions: a verify window reaches past the last accept, garbage may stand there (S22).
        self.layout = BulkLayout(spec, batch, prompt + longest + spec.k + 1, max(chunks), seed)
        self.config = DraftConfig(
            spec,
            batch + 1,
            self.bucket,
            self.layout.num_pages,
            self.layout.cols,
            hidden_size=hidden_size,
            device=device_of(make_system),
        )
        self.probe = DigestProbe(self.config)
        self.system = make_system(self.config, self.probe)
        self.judge = BulkJudge(self.layout, hidden_size)
        self.tokens = np.zeros((batch, self.layout.max_positions), dtype=np.int64)
        self.requests = np.arange(batch)[:, None]
        self.tokens[:, :prompt] = self._scripted(PROMPT, np.arange(prompt))
        self.tokens[:, prompt] = self._scripted(COMMIT, np.array([prompt]))[:, 0]
        self.hidden = np.zeros_like(self.tokens)
        self.state = np.zeros(batch, dtype=np.int64)
        self.computed = np.zeros(batch, dtype=np.int64)
        self._tables = [self._int32(table) for table in self.layout.tables]
        self._padded = [torch.cat([t, t.new_zeros(self.bucket - batch, t.shape[1])]) for t in self._tables]

    def rounds(self) -> Iterator[tuple[int, list[tuple[int, str]]]]:
        """Run all rounds. Yields (decode request-rounds, first failures) of each; a broken contract ends the run."""
        try:
            yield from self._rounds()
        except BrokenContract as broken:
            yield 0, [(-1, str(broken))]

    def _rounds(self) -> Iterator[tuple[int, list[tuple[int, str]]]]:
        returned = self.tokens[:, : self.spec.steps + 1]
        for n in self.chunks:
            returned = self._extend(n)
            mid_prompt = self.computed[0] < self.prompt
            known = np.full_like(self.computed, self.prompt - 1) if mid_prompt else self.computed
            yield 0, self._check(known, returned, bool(mid_prompt))
        for accept in self.accepts.T:
            returned = self._decode(accept, returned[:, 1:])
            yield len(accept), self._check(self.computed, returned, False)

    def _extend(self, n: int) -> I64:
        """One EXTEND round over the next n prompt tokens of every request. Returns [B, steps+1]."""
        start, batch, steps = int(self.computed[0]), len(self.tokens), self.spec.steps
        end = start + n
        ids = self.tokens[:, start:end]
        states, hidden = target_rows(self.state, ids, start)
        self.hidden[:, start:end], self.state = hidden, states[:, -1]
        self.computed += n
        ahead = np.full((batch, steps), -1)
        known = self.tokens[:, end : min(end + steps, self.prompt)]
        ahead[:, : known.shape[1]] = known
        final = end == self.prompt
        sampled = self.tokens[:, end] if final else self._scripted(DISCARDED, np.array([end]))[:, 0]
        chunk = ExtendBatch(
            req_pool_indices=self._int32(self.layout.slots),
            prefix_lens=(start,) * batch,
            extend_lens=(n,) * batch,
            is_final=(final,) * batch,
            input_ids=self._int32(ids.reshape(-1)),
            next_ids=self._int32(ahead),
            sampled_ids=self._int32(sampled),
            hidden=self._channels(hidden),
            seq_lens=self._int32(self.computed),
            page_table=tuple(self._tables),
        )
        return self._returned(self.system.extend(chunk), batch)

    def _decode(self, accept: I64, drafts: I64) -> I64:
        """One DECODE round: verify the returned drafts, force the accepts. Returns [B, steps+1]."""
        k, frontier = self.spec.k, self.computed[:, None]
        last = self.tokens[self.requests, frontier][:, 0]
        states, hidden = verify_rows(self.state, self.computed, last, drafts, k)
        verified = self._forced(accept, drafts)
        batch = DecodeBatch(
            req_pool_indices=self._rows(self.layout.slots, 0),
            seq_lens=self._rows(self.computed, 1),
            accept_lengths=self._rows(accept, 1),
            verify_ids=self._rows(verified, 1),
            hidden=self._channels(np.concatenate([hidden, np.full((self.bucket - len(hidden), k), self.seed)])),
            page_table=tuple(self._padded),
        )
        window = frontier + np.arange(k)
        self.tokens[self.requests, window + 1], self.hidden[self.requests, window] = verified, hidden
        self.state = states[self.requests[:, 0], accept - 1]
        self.computed = self.computed + accept
        return self._returned(self.system.decode(batch), self.bucket)

    def _forced(self, accept: I64, drafts: I64) -> I64:
        """v [B, k]: returned draft i+1 for i < a-1, then a token no drafter can draw, then garbage."""
        k, j = self.spec.k, np.arange(self.spec.k)
        used = min(self.spec.steps, k)
        v = self._scripted(GARBAGE, self.computed[:, None] + 1 + j).astype(np.int64)
        v[:, :used] = np.where(j[:used] < accept[:, None] - 1, drafts[:, :used], v[:, :used])
        committed = self._scripted(COMMIT, (self.computed + accept)[:, None])[:, 0]
        v[self.requests[:, 0], accept - 1] = committed
        return v

    def _check(self, known: I64, returned: I64, mid_prompt: bool) -> list[tuple[int, str]]:
        tokens, hidden, valid = self._stash()
        probe = self.probe
        kv = [cells.cpu().numpy() for cells in probe.kv]
        seen = Observed(returned, kv, probe.ring.cpu().numpy(), probe.ckpt.cpu().numpy(), tokens, hidden, valid)
        failures = self.judge.round(self.tokens, known, self.hidden, self.computed, seen, mid_prompt)
        return failures + [(-1, message) for message in self._contract_errors()]

    def _contract_errors(self) -> list[str]:
        errors, self.probe.contract_errors = self.probe.contract_errors, []
        return errors

    def _stash(self) -> tuple[NDArray[np.integer] | None, NDArray[np.float32] | None, NDArray[np.integer] | None]:
        if "stash" not in self.system.capabilities:
            return None, None, None
        view = self.system.stash()
        valid = None if view.valid_lens is None else view.valid_lens.cpu().numpy()
        return view.tokens.cpu().numpy(), view.hidden.float().cpu().numpy(), valid

    def _returned(self, rows: Tensor, expected: int) -> I64:
        """The requests' rows of a round's result [expected, steps+1]."""
        width = self.spec.steps + 1
        if rows.dtype != torch.int32 or rows.shape != (expected, width):
            got = f"{str(rows.dtype).removeprefix('torch.')} {list(rows.shape)}"
            raise BrokenContract(f"returned {got}, expected int32 [{expected}, {width}]")
        return rows[: len(self.tokens)].cpu().numpy().astype(np.int64)

    def _rows(self, values: NDArray[np.integer], padding: int) -> Tensor:
        """[bucket, ...] int32: the requests' values, then padded rows."""
        rows = torch.full((self.bucket, *values.shape[1:]), padding, dtype=torch.int32)
        rows[: len(values)] = torch.from_numpy(values)
        return rows.to(self.config.device)

    def _channels(self, digests: I64) -> Tensor:
        """[N, H] channels of any shape of digests."""
        flat = torch.from_numpy(np.ascontiguousarray(digests).reshape(-1))
        return torch_digest.encode(flat.to(self.config.device), self.config.hidden_size, torch_dtype(self.config))

    def _scripted(self, kind: int, positions: I64) -> NDArray[np.int32]:
        """[B, n] tokens that no drafter can draw."""
        shape = np.broadcast_shapes((len(self.tokens), 1), positions.shape)
        tokens = digest.scripted_token(kind, np.arange(len(self.tokens))[:, None], positions, self.seed)
        return np.broadcast_to(tokens, shape)

    def _int32(self, values: NDArray[np.integer]) -> Tensor:
        return torch.from_numpy(values.astype(np.int32, order="C")).to(self.config.device)
