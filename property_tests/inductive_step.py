"""The inductive step on a torch system: one DECODE round from every state that the invariant allows.

State is loaded, not driven: the digest probe's stores and the system's stash are set to what the invariant says at F,
one round runs, and all of it must be what the invariant says at F' = F + a. docs/inductive.md says what this proves.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import torch

from frontier_oracle.oracle.bulk import Observed
from frontier_oracle.oracle.contract import DecodeBatch
from frontier_oracle.oracle.inductive import DOMAINS, VERDICT, Cases, Domain, cases_of
from frontier_oracle.oracle.inductive_judge import judge_step
from frontier_oracle.oracle.inductive_state import InductiveStep
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.bulk import BrokenContract, torch_threads
from frontier_oracle.property_tests.convert import channels_of, to_tensor, to_torch
from frontier_oracle.property_tests.probe import DigestProbe
from frontier_oracle.property_tests.shield import Factory, placed_config, shielded

NEEDS = frozenset({"stash", "load_stash"})
STOP_AT = 20
ROWS = 1 << 18
MOST = 1024


@dataclass
class InductiveResult:
    """cases: (a, v, F) triples stepped; failures: (a, v, F, what), one a case, (0, 0, 0, what) for what belongs to no
    case; skipped: why nothing ran, "" otherwise. ``domain`` is part of the claim: see ``statement``."""

    spec: Spec
    domain: Domain = "full"
    cases: int = 0
    failures: list[tuple[int, int, int, str]] = field(default_factory=list)
    seconds: float = 0.0
    skipped: str = ""

    @property
    def statement(self) -> str:
        """What a result without failures claims, in one line."""
        return f"{VERDICT}: {DOMAINS[self.domain]}"


def run_inductive(
    factory: Factory,
    spec: Spec,
    domain: Domain = "full",
    ring_rows: int | None = None,
    batch: int | None = None,
    hidden_size: int = 8,
    threads: int | None = None,
    seed: int = 0,
) -> InductiveResult:
    """Step every case of ``cases_of(spec, domain)`` and judge it. Stops after the batch in which the 20th case failed.

    ring_rows: rows of the probe's conv ring (another number than spec.ring_rows is a planted fault); batch: requests of
    one round (default: at most 1,024, and 262,144 rows over all depths, which bounds memory to some tens of MiB).
    Raises AdapterError when the system raises.
    """
    result = InductiveResult(spec, domain)
    size = batch or min(MOST, ROWS // (spec.k * spec.steps))
    start = time.perf_counter()
    with torch_threads(threads), torch.no_grad():
        for cases in cases_of(spec, domain).batches(size, seed):
            step = InductiveStep(spec, cases, ring_rows, 2, hidden_size, seed=seed)
            run = SteppedSystem(factory, step)
            if not run.capabilities >= NEEDS:
                result.skipped = f"the system has no {', '.join(sorted(NEEDS - run.capabilities))}"
                break
            result.cases += len(cases)
            result.failures += _named(cases, run.failures())
            if len(result.failures) >= STOP_AT:
                break
    result.seconds = time.perf_counter() - start
    return result


def _named(cases: Cases, failures: list[tuple[int, str]]) -> list[tuple[int, int, int, str]]:
    columns = (cases.accept, cases.valid, cases.frontier)
    return [(*((int(c[row]) for c in columns) if row >= 0 else (0, 0, 0)), what) for row, what in failures]


class SteppedSystem:
    """A fresh system whose state is an inductive step's."""

    def __init__(self, factory: Factory, step: InductiveStep, record: bool = False) -> None:
        self.step, self.config = step, placed_config(factory, step.config)
        self.probe = DigestProbe(self.config, ring_rows=step.ring_rows, record=record)
        self.system = shielded(factory)(self.config, self.probe)
        self.capabilities = frozenset(self.system.capabilities)
        if self.capabilities >= NEEDS:
            self._load()

    def _load(self) -> None:
        step, config = self.step, self.config
        for store, cells in zip(self.probe.kv, step.before.kv, strict=True):
            store.copy_(torch.from_numpy(cells))
        self.probe.ring.copy_(torch.from_numpy(step.before.ring))
        self.probe.ckpt.copy_(torch.from_numpy(step.before.ckpt))
        count, width = step.stash_hidden.shape
        hidden = channels_of(step.stash_hidden.reshape(-1), config).view(count, width, -1)
        slots, tokens, valid = (to_tensor(a, config) for a in (step.stash_slots, step.stash_tokens, step.stash_valid))
        self.system.load_stash(slots, tokens, hidden, valid)

    def decode(self) -> np.ndarray:
        """Run the round. Returns the cases' rows, [B, steps+1] int32; raises BrokenContract for another result."""
        batch = to_torch(self.step.batch, self.config)
        if "padding" not in self.capabilities:
            batch = _without_padding(batch, self.step.count)
        returned = self.system.decode(batch)
        want = (len(batch.seq_lens), self.step.spec.steps + 1)
        if not isinstance(returned, torch.Tensor) or returned.dtype != torch.int32 or returned.shape != want:
            got = f"{returned.dtype} {list(returned.shape)}" if isinstance(returned, torch.Tensor) else repr(returned)
            raise BrokenContract(f"decode() returned {got}, expected int32 {list(want)}")
        rows: np.ndarray = returned[: self.step.count].cpu().numpy()
        return rows

    def failures(self) -> list[tuple[int, str]]:
        """Run the round and judge it: (row of the cases, what)."""
        try:
            returned = self.decode()
        except BrokenContract as broken:
            return [(-1, str(broken))]
        view = self.system.stash()
        seen = Observed(
            returned,
            [cells.cpu().numpy() for cells in self.probe.kv],
            self.probe.ring.cpu().numpy(),
            self.probe.ckpt.cpu().numpy(),
            view.tokens.cpu().numpy(),
            view.hidden.float().cpu().numpy(),
            None if view.valid_lens is None else view.valid_lens.cpu().numpy(),
        )
        return [(-1, error) for error in self.probe.contract_errors] + judge_step(self.step, seen)


def _without_padding(batch: DecodeBatch, count: int) -> DecodeBatch:
    rows = len(batch.hidden) // len(batch.seq_lens) * count
    return DecodeBatch(
        batch.req_pool_indices[:count],
        batch.seq_lens[:count],
        batch.accept_lengths[:count],
        batch.verify_ids[:count],
        batch.hidden[:rows],
        tuple(table[:count] for table in batch.page_table),
    )
