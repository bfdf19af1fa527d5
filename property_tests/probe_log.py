"""The calls that a recording probe was given: copied to the host at once, or, where a round is being captured, kept in
tensors that every replay fills anew.

So a captured round is judged by the same evidence as an eager one, call by call and index by index, though no Python
runs when it is replayed. What orders the calls is a clock on the device, which each call moves on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from frontier_oracle.oracle.calls import CallLog
from frontier_oracle.property_tests.host_guard import allow_host_reads
from frontier_oracle.property_tests.probe_inputs import CleanInputs

MOST_CAPTURED = 4096


@dataclass(frozen=True)
class Call:
    """One call on the device: its inputs, which rows are masked, hidden and output digests [n], tokens [bs]."""

    inputs: CleanInputs
    masked: Tensor
    hidden: Tensor
    outputs: Tensor
    tokens: Tensor


@dataclass
class _Captured:
    """A call inside a captured round. place: of its stamp; seen: the stamp of the replay that was taken last."""

    call: Call
    place: int
    seen: int = 0


@dataclass
class CallRecord:
    """Collects calls until they are taken. check: looks at a call's values on the host.

    Raises RuntimeError when more than 4,096 calls are captured: their stamps stand in a tensor of that length, since
    what a capture allocates holds nothing before the first replay.
    """

    device: torch.device
    check: Callable[[CleanInputs], None]
    eager: list[tuple[int, CallLog]] = field(default_factory=list)
    captured: list[_Captured] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._clock = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._stamps = torch.zeros(MOST_CAPTURED, dtype=torch.int64, device=self.device)

    def add(self, call: Call) -> None:
        """A call of the draft model, now or whenever the round that is being captured is replayed."""
        self._clock.add_(1)
        if not being_captured(self.device):
            with allow_host_reads():
                self.check(call.inputs)
                self.eager.append((int(self._clock), _log(call)))
            return
        place = len(self.captured)
        if place == MOST_CAPTURED:
            raise RuntimeError(f"more than {MOST_CAPTURED} calls of the draft model were captured")
        self._stamps[place : place + 1].copy_(self._clock)
        self.captured.append(_Captured(_kept(call), place))
        # A round is warmed up, on padding alone, before it is captured: those calls belong to no round.
        self.eager = [(stamp, log) for stamp, log in self.eager if not log.masked.all()]

    def take(self) -> list[CallLog]:
        """The calls since the last ``take``, in order; of a captured one that was replayed twice since, the last."""
        calls, self.eager = self.eager, []
        stamps = self._stamps[: len(self.captured)].tolist()
        for one in self.captured:
            if stamps[one.place] > one.seen:
                one.seen = stamps[one.place]
                self.check(one.call.inputs)
                calls.append((one.seen, _log(one.call)))
        return [log for _, log in sorted(calls, key=lambda pair: pair[0])]


def being_captured(device: torch.device) -> bool:
    """Whether what runs now is being recorded, to be replayed: in a CUDA graph, or by a dispatch mode that says so in
    its attribute ``captures`` (a tape on a CPU)."""
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return True
    return any(getattr(mode, "captures", False) for mode in _get_current_dispatch_mode_stack())


def _kept(call: Call) -> Call:
    """Copies, made where the call is made: what a system passes may be overwritten before it is read."""

    def copied(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.clone()
        return tuple(copied(v) for v in value) if isinstance(value, tuple) else value

    inputs = CleanInputs(**{f.name: copied(getattr(call.inputs, f.name)) for f in fields(CleanInputs)})
    return Call(inputs, *(copied(tensor) for tensor in (call.masked, call.hidden, call.outputs, call.tokens)))


def _log(call: Call) -> CallLog:
    def host(tensor: Tensor) -> Any:
        return tensor.detach().cpu().numpy().copy()

    inputs = call.inputs
    return CallLog(
        depth=inputs.depth,
        input_ids=host(inputs.input_ids),
        positions=host(inputs.positions),
        hidden_digest=host(call.hidden),
        out_cache_loc=tuple(host(loc) for loc in inputs.out_cache_loc),
        query_start_loc=host(inputs.query_start_loc),
        seq_lens=host(inputs.seq_lens),
        page_table=tuple(host(table) for table in inputs.page_table),
        conv_slots=host(inputs.conv_slots),
        sample_rows=host(inputs.sample_rows),
        masked=host(call.masked),
        output_digest=host(call.outputs),
        tokens=host(call.tokens),
    )
