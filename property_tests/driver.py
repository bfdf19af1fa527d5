"""Drives a torch system through a timeline, with the digest probe in place of the draft model."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import _disable_current_modes

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, ExtendBatch, ForwardInputs, StashView
from frontier_oracle.oracle.errors import AddressChanged
from frontier_oracle.oracle.evidence import Evidence, StashImage
from frontier_oracle.oracle.play import Outcome, outcome
from frontier_oracle.oracle.rules import FO302
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.oracle.timeline import Adopted, Released, Round, Timeline
from frontier_oracle.property_tests.convert import digests_of, to_torch
from frontier_oracle.property_tests.host_guard import no_host_reads
from frontier_oracle.property_tests.probe import DigestProbe
from frontier_oracle.property_tests.shield import Factory, placed_config, shielded


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
        self.config = config = placed_config(factory, config)
        self.probe = DigestProbe(config, ring_rows=ring_rows, record=True)
        model: DraftModel = _Unguarded(self.probe) if guard else self.probe
        self.system = shielded(factory)(config, model)
        capabilities = self.system.capabilities
        self._stash, self._guard = "stash" in capabilities, guard and "device_only" in capabilities

    def adopted(self, step: Adopted) -> None:
        self.system.adopt(step.request.slot, step.pages, step.length)

    def released(self, step: Released) -> None:
        self.system.release(step.request.slot)

    def round(self, step: Round) -> Evidence:
        self.probe.take_calls()  # of a round that was cut short
        self.probe.contract_errors = []
        host_read, moved, drafts = "", "", self._nothing(step)
        errors: list[str] = []
        try:
            drafts = self._returned(step, self._run(step), errors)
        except FO302 as divergence:
            host_read = str(divergence.finding.detail.get("operation", divergence))
        except AddressChanged as error:
            moved = str(error)
        calls = self.probe.take_calls()
        errors += self.probe.contract_errors
        return Evidence(
            calls=calls,
            returned=drafts,
            kv=[pool.cpu().numpy().copy() for pool in self.probe.kv],
            ring=self.probe.ring.cpu().numpy().copy(),
            ckpt=self.probe.ckpt.cpu().numpy().copy(),
            stash=self._stash_image(errors) if self._stash else None,
            contract_errors=errors,
            host_read=host_read,
            moved=moved,
            rows=step.rows,
        )

    def _run(self, step: Round) -> Any:
        if isinstance(step.batch, ExtendBatch):
            return self.system.extend(to_torch(step.batch, self.config))
        batch = to_torch(placed(step), self.config)
        with no_host_reads(step.index) if self._guard else nullcontext():
            return self.system.decode(batch)

    def _returned(self, step: Round, returned: Any, errors: list[str]) -> NDArray[np.int32]:
        """[live rows, steps+1] int32; what is not, is a contract error and read as zeros."""
        want = (len(step.batch.seq_lens), self.config.spec.steps + 1)
        rows = _plain(returned, want, (torch.int32,), f"{step.mode}() returned", errors)
        return self._nothing(step) if rows is None else rows[list(step.rows)].astype(np.int32)

    def _nothing(self, step: Round) -> NDArray[np.int32]:
        return np.zeros((len(step.views), self.config.spec.steps + 1), dtype=np.int32)

    def _stash_image(self, errors: list[str]) -> StashImage | None:
        view, slots, k = self.system.stash(), self.config.num_slots, self.config.spec.k
        if not isinstance(view, StashView):
            errors.append(f"stash() returned {type(view).__name__}, expected contract.StashView")
            return None
        tokens = _plain(view.tokens, (slots, k - 1), (torch.int32,), "stash().tokens is", errors)
        shape = (slots, k - 1, self.config.hidden_size)
        hidden = _plain(view.hidden, shape, (getattr(torch, self.config.dtype),), "stash().hidden is", errors)
        valid = None
        if view.valid_lens is not None:
            valid = _plain(view.valid_lens, (slots,), (torch.int32, torch.int64), "stash().valid_lens is", errors)
        if tokens is None or hidden is None or (valid is None) != (view.valid_lens is None):
            return None
        return StashImage(tokens, digests_of(view.hidden), valid)


def _plain(
    value: Any, shape: tuple[int, ...], dtypes: tuple[torch.dtype, ...], what: str, errors: list[str]
) -> NDArray[Any] | None:
    """A system's tensor on the host, None (and a contract error) where shape, dtype or storage are not as agreed."""
    expected = f"expected {' or '.join(str(d).removeprefix('torch.') for d in dtypes)} {list(shape)}"
    if not isinstance(value, torch.Tensor):
        errors.append(f"{what} {type(value).__name__}, {expected}")
        return None
    stored = value.layout is torch.strided and not value.is_meta
    got = f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}{'' if stored else ' without storage'}"
    if value.dtype not in dtypes or value.shape != shape or not stored:
        errors.append(f"{what} {got}, {expected}")
    if value.shape != shape or not stored:
        return None
    host = value.detach().cpu()
    if host.dtype is torch.bfloat16:
        return host.float().numpy()
    if not host.dtype.is_floating_point:
        return host.numpy().copy()
    return host.nan_to_num().numpy().copy()


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
) -> Outcome:
    """Drive one scenario and judge every round. Raises AdapterError when the system raises."""
    timeline = Timeline(scenario, policy)
    return outcome(timeline, TorchDrafter(factory, timeline.config(), ring_rows, guard), stop_at_first)
