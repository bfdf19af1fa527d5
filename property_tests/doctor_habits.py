"""Habits of adapters that types and shapes do not show: each compares a system with itself, never with the oracle.

A system that passes here can still keep its books wrong; one that fails would blame them for what its adapter does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, ExtendBatch
from frontier_oracle.oracle.spec import CacheGroup
from frontier_oracle.property_tests.convert import to_torch
from frontier_oracle.property_tests.doctor_trial import (
    SLOTS,
    RoundReport,
    decode_batch,
    describe,
    doctor_config,
    extend_batch,
)
from frontier_oracle.property_tests.probe import DigestProbe

# name -> (arguments, as the contract has them)
CALLED_WITH: dict[str, tuple[Any, ...]] = {
    "extend": (None,),
    "decode": (None,),
    "adopt": (1, (1, 2), 8),
    "release": (1,),
    "stash": (),
    "load_stash": (None, None, None, None),
    "init_forward_metadata": ("decode",),
}
PAGE = 4


@dataclass(frozen=True)
class Habit:
    """What was looked at, what was found ("" if nothing is wrong), and how to mend it."""

    check: str
    wrong: str
    right: str
    mend: str


def signatures(system: Any) -> Habit:
    """Methods that cannot be called as the contract calls them."""
    wrong = []
    for name, arguments in CALLED_WITH.items():
        method = getattr(system, name, None)
        if not callable(method):
            continue
        try:
            inspect.signature(method).bind(*arguments)
        except TypeError as error:
            wrong.append(f"{name}{inspect.signature(method)} cannot be called with {len(arguments)} arguments: {error}")
        except ValueError:  # a C callable without a signature
            continue
    return Habit("signatures", "; ".join(wrong), "methods take what the contract passes",
                 "take the contract's arguments: adopt(slot, pages, length), release(slot)")  # fmt: skip


def columns(report: RoundReport, batch: ExtendBatch | DecodeBatch, config: DraftConfig) -> Habit:
    """S10: the committed token, then the drafts, first depth first."""
    live = len(SLOTS)
    if isinstance(batch, ExtendBatch):
        committed = batch.sampled_ids[:live]
    else:
        committed = batch.verify_ids[np.arange(live), batch.accept_lengths[:live] - 1]
    got = report.result[:live].cpu().numpy()
    sampled = np.stack([tokens[:live] for tokens in report.sampled], axis=1)
    name = f"{report.method}()"
    said = ""
    if np.array_equal(got[:, 0], committed) and not np.array_equal(got[:, 1:], sampled):
        reverse = np.array_equal(got[:, 1:], sampled[:, ::-1]) and sampled.shape[1] > 1
        order = "in reverse order" if reverse else "not what the model sampled"
        said = f"{name} returned drafts {order}"
    elif np.array_equal(got[:, : sampled.shape[1]], sampled):
        said = f"{name} returned the drafts from column 0 on, and no committed token in front"
    elif not np.array_equal(got[:, 0], committed):
        what = "the sampled token" if report.method == "extend" else "v[a-1]"
        said = f"{name} returned {got[:, 0].tolist()} in column 0, expected {what}: {committed.tolist()}"
    return Habit(f"{report.method} columns", said, "column 0 is the committed token, then one draft a depth, in order",
                 "return torch.cat([committed[:, None], drafts], dim=1), depth 0's draft first (S10)")  # fmt: skip


def device(report: RoundReport, config: DraftConfig) -> Habit:
    found = report.result.device.type
    said = "" if found == torch.device(config.device).type else f"{report.method}() returned a tensor on {found}"
    return Habit(f"{report.method} device", said, f"the result is on {config.device}",
                 f"return tensors on config.device ({config.device}), where the batch is")  # fmt: skip


def habits(make: Callable[..., Any], config: DraftConfig, capabilities: frozenset[str]) -> Iterator[Habit]:
    """Everything that takes runs of its own. Never raises for what the adapter does."""
    padded = "padding" in capabilities
    whole = _Run(make, config, capabilities)
    usual = whole.rounds(padded)
    for name, wrong, right, mend, other in _variants(make, config, capabilities, padded):
        try:
            said = "" if _same(usual, other()) else wrong
        except (Exception, SystemExit) as error:
            said = f"{wrong.split(':')[0]}: it raised {describe(error)}"
        yield Habit(name, said, right, mend)
    yield _results_kept(make, config, capabilities, padded)
    if {"adopt", "extend"} <= capabilities and config.spec.taps:
        yield _adopted(make, config, capabilities)


Variant = tuple[str, str, str, str, Callable[[], list[Tensor]]]


def _variants(
    make: Callable[..., Any], config: DraftConfig, capabilities: frozenset[str], padded: bool
) -> Iterator[Variant]:
    """(check, what is wrong, what is right, how to mend it, rounds that must come out as the usual ones)."""

    def run() -> _Run:
        return _Run(make, config, capabilities)

    yield ("batch order", "results depend on the order of the batch: state is kept by batch row, not by slot",
           "results go with the slot, in whatever order the batch stands",
           "index every buffer of the drafter by req_pool_indices, never by the batch row",
           lambda: run().rounds(padded, order=(1, 0)))  # fmt: skip
    yield ("kept batches", "a round reads tensors of an earlier batch: the scheduler has overwritten them by then",
           "nothing of a batch is read after its round",
           "copy what is kept across rounds (.clone(), or copy_ into a buffer of the drafter)",
           lambda: run().rounds(padded, scribble=True))  # fmt: skip
    if "extend" in capabilities:
        yield ("slot reuse", "a slot's second owner drafts otherwise than its first: state of the first was left in it",
               "a slot's second owner drafts like its first",
               "reset a slot when a request starts in it: at prefix_lens == 0 in extend(), and in adopt() (S19)",
               lambda: run().rounds(padded, tenants=2))  # fmt: skip
    if padded:
        yield ("padded rows", "drafts of live rows depend on the padded rows beside them",
               "padded rows change nothing",
               "mask rows of slot 0: location 0 on the null page, and no write to any live slot (S20)",
               lambda: run().rounds(False))  # fmt: skip


class _Run:
    """A fresh system, driven through one EXTEND (where it takes them) and two DECODE rounds."""

    def __init__(self, make: Callable[..., Any], config: DraftConfig, capabilities: frozenset[str]) -> None:
        self.config, self.extends = config, "extend" in capabilities
        self.probe = DigestProbe(config)
        self.system = make(config, self.probe)

    def rounds(
        self, padded: bool, order: tuple[int, ...] = (0, 1), scribble: bool = False, tenants: int = 1
    ) -> list[Tensor]:
        """What live rows got in each round, in the usual order. order: where batch rows stand; scribble: overwrite a
        batch once its round is over; tenants: how many pairs of requests have the slots, of the last the results."""
        out: list[Tensor] = []
        for tenant in range(tenants):
            out = []
            shift = 1000 * (tenants - 1 - tenant)  # the last tenant is the usual one
            if self.extends:
                out.append(
                    self._call("extend", _ordered_extend(extend_batch(self.config), order), order, scribble, shift)
                )
            for number in range(2):
                batch = decode_batch(self.config, padded)
                batch = replace(batch, seq_lens=_later(batch, number), verify_ids=batch.verify_ids + number)
                out.append(self._call("decode", _ordered(batch, order), order, scribble, shift))
            if tenant < tenants - 1:
                for slot in SLOTS:
                    self.system.release(slot)
        return out

    def _call(self, method: str, batch: Any, order: tuple[int, ...], scribble: bool, shift: int) -> Tensor:
        if shift:
            names = ("input_ids", "sampled_ids") if method == "extend" else ("verify_ids",)
            batch = replace(batch, **{name: getattr(batch, name) + shift for name in names})
        given = to_torch(batch, self.config)
        result: Tensor = getattr(self.system, method)(given)[: len(order)].clone()
        for field in fields(given) if scribble else ():
            value = getattr(given, field.name)
            for tensor in value if isinstance(value, tuple) else (value,):
                if isinstance(tensor, Tensor):
                    tensor.fill_(1)
        return result[list(np.argsort(order))]


def _later(batch: DecodeBatch, number: int) -> np.ndarray:
    """F of the second round: the first one's accepts further on."""
    live = np.arange(len(batch.seq_lens)) < len(SLOTS)
    return np.where(live & (number > 0), batch.seq_lens + batch.accept_lengths, batch.seq_lens).astype(np.int32)


def _ordered(batch: DecodeBatch, order: tuple[int, ...]) -> DecodeBatch:
    bs = len(batch.seq_lens)
    rows = np.array([*order, *range(len(order), bs)])
    return DecodeBatch(
        req_pool_indices=batch.req_pool_indices[rows],
        seq_lens=batch.seq_lens[rows],
        accept_lengths=batch.accept_lengths[rows],
        verify_ids=batch.verify_ids[rows],
        hidden=batch.hidden.reshape(bs, -1)[rows].reshape(-1),
        page_table=tuple(table[rows] for table in batch.page_table),
    )


def _ordered_extend(batch: ExtendBatch, order: tuple[int, ...]) -> ExtendBatch:
    rows, ends = list(order), np.cumsum(batch.extend_lens)
    pieces = [np.arange(end - n, end) for end, n in zip(ends, batch.extend_lens, strict=True)]
    tokens = np.concatenate([pieces[r] for r in rows])
    return ExtendBatch(
        req_pool_indices=batch.req_pool_indices[rows],
        prefix_lens=tuple(batch.prefix_lens[r] for r in rows),
        extend_lens=tuple(batch.extend_lens[r] for r in rows),
        is_final=tuple(batch.is_final[r] for r in rows),
        input_ids=batch.input_ids[tokens],
        next_ids=batch.next_ids[rows],
        sampled_ids=batch.sampled_ids[rows],
        hidden=batch.hidden[tokens],
        seq_lens=batch.seq_lens[rows],
        page_table=tuple(table[rows] for table in batch.page_table),
    )


def _same(usual: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(usual, other, strict=True))


def _results_kept(make: Callable[..., Any], config: DraftConfig, capabilities: frozenset[str], padded: bool) -> Habit:
    """A result is the caller's: the next round must not write to it."""
    run = _Run(make, config, capabilities)
    if run.extends:
        run.system.extend(to_torch(extend_batch(config), config))
    batches = [to_torch(decode_batch(config, padded), config) for _ in range(2)]
    batches[1].verify_ids.add_(1)
    first = run.system.decode(batches[0])
    before = first.clone()
    run.system.decode(batches[1])
    said = "" if torch.equal(first, before) else "decode() writes to the tensor that it returned the round before"
    return Habit("kept results", said, "a result stays as it was returned",
                 "return a new tensor each round (.clone()), the scheduler reads it later")  # fmt: skip


class _Loads:
    """The probe, and what was loaded into its conv rings."""

    def __init__(self, probe: DigestProbe) -> None:
        self.probe, self.loads = probe, list[tuple[int, int, int]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.probe, name)

    def load_conv_state(self, slot: int, page: int, length: int) -> None:
        self.loads.append((int(slot), int(page), int(length)))
        self.probe.load_conv_state(slot, page, length)


def _adopted(make: Callable[..., Any], config: DraftConfig, capabilities: frozenset[str]) -> Habit:
    """S18, S21: after a prefix hit the conv ring comes from the checkpoint of the page that ends at the hit."""
    config = doctor_config(replace(config.spec, groups=(CacheGroup(PAGE),)))
    model = _Loads(DigestProbe(config))
    check, mend = (
        "adopt",
        "call model.load_conv_state(slot, pages[(length-1) // page_size], length) in adopt() (S18, S21)",
    )
    try:
        system = make(config, model)
        batch = extend_batch(config)
        system.extend(to_torch(batch, config))
        pages, slot, length = tuple(batch.page_table[0][0, :2].tolist()), 3, 2 * PAGE
        model.loads.clear()
        system.adopt(slot, pages, length)
    except (Exception, SystemExit) as error:
        return Habit(check, f"adopt() raised {describe(error)}", "", "mend what adopt() raises")
    want = (slot, pages[1], length)
    if not model.loads:
        said = "adopt() did not load the conv state of the prefix"
    else:
        said = "" if model.loads == [want] else f"adopt() loaded (slot, page, length) {model.loads}, expected {want}"
    return Habit(check, said, "adopt() loaded the conv state of the prefix", mend)
