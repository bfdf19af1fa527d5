"""Drives a torch system through a timeline, with the digest probe in place of the draft model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, ExtendBatch, ForwardInputs
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.evidence import Evidence, StashImage
from frontier_oracle.oracle.play import Outcome, outcome
from frontier_oracle.oracle.rules import FO302
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.oracle.timeline import Adopted, Released, Round, Timeline
from frontier_oracle.property_tests.convert import digests_of, to_torch
from frontier_oracle.property_tests.host_guard import no_host_reads
from frontier_oracle.property_tests.probe import DigestProbe

Factory = Callable[[DraftConfig, DraftModel], Any]


class AdapterError(UsageError):
    """The system under test raised: its adapter is at fault, not its books."""


class _Unguarded:
    """The probe outside the host guard: what it does is not the system's doing, and guarding it costs most."""

    def __init__(self, probe: DigestProbe) -> None:
        self._probe = probe
        self.load_conv_state = probe.load_conv_state

    def forward(self, inputs: ForwardInputs) -> tuple[Any, Any]:
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            return self._probe.forward(inputs)


class TorchDrafter:
    """oracle.play.Drafter over a torch system. ring_rows overrides the probe's ring (for planted faults); guard
    watches ``decode`` of a system that declares "device_only" for host reads (FO302)."""

    def __init__(self, factory: Factory, config: DraftConfig, ring_rows: int | None = None, guard: bool = True) -> None:
        self.config = config
        self.probe = DigestProbe(config, ring_rows=ring_rows, record=True)
        model: DraftModel = _Unguarded(self.probe) if guard else self.probe
        self.system = _call(lambda: factory(config, model), "make(config, model)")
        capabilities = self.system.capabilities
        self._stash, self._guard = "stash" in capabilities, guard and "device_only" in capabilities

    def adopted(self, step: Adopted) -> None:
        slot, pages, length = step.request.slot, step.pages, step.length
        _call(lambda: self.system.adopt(slot, pages, length), f"adopt({slot}, {list(pages)}, {length})")

    def released(self, step: Released) -> None:
        _call(lambda: self.system.release(step.request.slot), f"release({step.request.slot})")

    def round(self, step: Round) -> Evidence:
        self.probe.calls, self.probe.contract_errors = [], []
        host_read, returned = "", None
        try:
            returned = self._run(step)
        except FO302 as divergence:
            host_read = str(divergence.finding.detail.get("operation", divergence))
        errors = list(self.probe.contract_errors)
        drafts = self._returned(step, returned, errors) if returned is not None else self._nothing(step)
        return Evidence(
            calls=self.probe.calls,
            returned=drafts,
            kv=[pool.cpu().numpy().copy() for pool in self.probe.kv],
            ring=self.probe.ring.cpu().numpy().copy(),
            ckpt=self.probe.ckpt.cpu().numpy().copy(),
            stash=self._stash_image() if self._stash else None,
            contract_errors=errors,
            host_read=host_read,
            rows=step.rows,
        )

    def _run(self, step: Round) -> Any:
        if isinstance(step.batch, ExtendBatch):
            chunk = to_torch(step.batch, self.config)
            return _call(lambda: self.system.extend(chunk), f"extend() in round {step.index}")
        batch = to_torch(placed(step), self.config)
        with no_host_reads(step.index) if self._guard else nullcontext():
            return _call(lambda: self.system.decode(batch), f"decode() in round {step.index}")

    def _returned(self, step: Round, returned: Any, errors: list[str]) -> np.ndarray:
        """[live rows, steps+1] int32; what is not, is a contract error and read as zeros."""
        want = (len(step.batch.seq_lens), self.config.spec.steps + 1)
        if not isinstance(returned, torch.Tensor) or returned.dtype != torch.int32 or returned.shape != want:
            got = f"{returned.dtype} {list(returned.shape)}" if isinstance(returned, torch.Tensor) else repr(returned)
            errors.append(f"{step.mode}() returned {got}, expected int32 {list(want)}")
            if not isinstance(returned, torch.Tensor) or returned.shape != want:
                return self._nothing(step)
        return returned.detach().cpu().numpy().astype(np.int32)[list(step.rows)]

    def _nothing(self, step: Round) -> np.ndarray:
        return np.zeros((len(step.views), self.config.spec.steps + 1), dtype=np.int32)

    def _stash_image(self) -> StashImage:
        view = self.system.stash()
        valid = None if view.valid_lens is None else view.valid_lens.cpu().numpy().copy()
        return StashImage(view.tokens.cpu().numpy().copy(), digests_of(view.hidden), valid)


def placed(step: Round) -> DecodeBatch:
    """The round's batch with its live rows where ``step.rows`` wants them and masked ones everywhere else."""
    batch = step.batch
    assert isinstance(batch, DecodeBatch)
    if not step.idles_between:
        return batch
    bs, live = len(batch.seq_lens), len(step.rows)
    order = np.full(bs, live)  # a masked row, like any other of them
    order[list(step.rows)] = np.arange(live)
    return DecodeBatch(
        req_pool_indices=batch.req_pool_indices[order],
        seq_lens=batch.seq_lens[order],
        accept_lengths=batch.accept_lengths[order],
        verify_ids=batch.verify_ids[order],
        hidden=batch.hidden.reshape(bs, -1)[order].reshape(-1),
        page_table=tuple(table[order] for table in batch.page_table),
    )


def run_scenario(
    factory: Factory,
    scenario: Scenario,
    policy: str,
    stop_at_first: bool = False,
    ring_rows: int | None = None,
    guard: bool = True,
    device: str = "cpu",
) -> Outcome:
    """Drive one scenario and judge every round. Raises AdapterError when the system raises."""
    timeline = Timeline(scenario, policy)
    return outcome(timeline, TorchDrafter(factory, timeline.config(device), ring_rows, guard), stop_at_first)


def _call(action: Callable[[], Any], what: str) -> Any:
    try:
        return action()
    except (UsageError, FO302):
        raise
    except Exception as error:  # an adapter may raise anything; the user gets one line
        where = _last_frame(error)
        raise AdapterError(f"the system raised in {what}: {type(error).__name__}: {error}{where}") from error


def _last_frame(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace is not None else ""
