"""Two hand-built rounds for a system that nobody trusts yet: one EXTEND, one DECODE, everything watched."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, ExtendBatch
from frontier_oracle.oracle.rules import FO302
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.convert import to_torch
from frontier_oracle.property_tests.host_guard import no_host_reads
from frontier_oracle.property_tests.probe import DigestProbe
from frontier_oracle.property_tests.shield import in_words

I32 = np.int32
SLOTS = (2, 1)


@dataclass
class RoundReport:
    """What one call of extend() or decode() did. ``error`` and ``host_read`` are "" where nothing happened. sampled:
    what each model call sampled; batch: what the round was given, in numpy."""

    method: str
    result: Any = None
    error: str = ""
    host_read: str = ""
    changed: list[str] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    contract_errors: list[str] = field(default_factory=list)
    sampled: list[np.ndarray] = field(default_factory=list)
    batch: Any = None
    rows: int = 0


@dataclass
class Trial:
    """A fresh system and its rounds, in order; no round follows one that raised."""

    system: Any
    rounds: list[RoundReport]
    probe: DigestProbe

    def fingerprint(self) -> list[bytes]:
        """Every byte that the rounds returned or wrote."""
        returned = [r.result.cpu().numpy().tobytes() for r in self.rounds if isinstance(r.result, Tensor)]
        written = [cells.cpu().numpy().tobytes() for cells in (*self.probe.kv, self.probe.ring, self.probe.ckpt)]
        return returned + written


def doctor_config(spec: Spec) -> DraftConfig:
    """Room for the two requests and a padded row; two blocks of channels, so that a torn hidden shows."""
    cols = tuple(group.cols(sum(prompt_lens(spec)) + 2 * spec.k, spec.k) for group in spec.groups)
    pages = tuple(1 + len(SLOTS) * c for c in cols)
    return DraftConfig(spec, num_slots=4, max_batch=3, num_pages=pages, cols=cols, hidden_size=16)


def prompt_lens(spec: Spec) -> tuple[int, int]:
    """One prompt that fills two windows and one that is longer than one: neither meets an edge case."""
    return (2 * spec.k + 3, spec.k + 1)


def extend_batch(config: DraftConfig) -> ExtendBatch:
    """Both prompts, whole, in one round (hidden as digests)."""
    lens, bs = prompt_lens(config.spec), len(SLOTS)
    return ExtendBatch(
        req_pool_indices=np.array(SLOTS, I32),
        prefix_lens=(0,) * bs,
        extend_lens=lens,
        is_final=(True,) * bs,
        input_ids=_tokens(1, sum(lens)),
        next_ids=np.full((bs, config.spec.steps), -1, I32),
        sampled_ids=_tokens(2, bs),
        hidden=_digests(1, sum(lens)),
        seq_lens=np.array(lens, I32),
        page_table=_tables(config, bs),
    )


def decode_batch(config: DraftConfig, padded: bool) -> DecodeBatch:
    """The longest accept and the shortest, and a padded row behind them where the system takes one."""
    spec, pad = config.spec, int(padded)
    bs = len(SLOTS) + pad
    return DecodeBatch(
        req_pool_indices=np.array((*SLOTS, *[0] * pad), I32),
        seq_lens=np.array((*prompt_lens(spec), *[1] * pad), I32),
        accept_lengths=np.array((spec.max_accept, 1, *[1] * pad), I32),
        verify_ids=_tokens(3, bs * spec.k).reshape(bs, spec.k),
        hidden=_digests(2, bs * spec.k),
        page_table=_tables(config, bs),
    )


def run_trial(make: Callable[..., Any], config: DraftConfig, guard: bool = False) -> Trial:
    """Build a system and run its rounds. ``guard`` forbids host reads in decode(). Raises what ``make`` raises."""
    probe = DigestProbe(config, record=True)
    system = make(config, probe)
    trial = Trial(system, [], probe)
    capabilities = frozenset(getattr(system, "capabilities", ()))
    if "extend" in capabilities:
        trial.rounds.append(_round(trial, "extend", extend_batch(config), guard=False))
    if not any(r.error for r in trial.rounds):
        trial.rounds.append(_round(trial, "decode", decode_batch(config, "padding" in capabilities), guard))
    return trial


def _round(trial: Trial, method: str, batch: Any, guard: bool) -> RoundReport:
    given, kept = (to_torch(batch, trial.probe.config) for _ in range(2))
    report = RoundReport(method, rows=len(batch.seq_lens), batch=batch)
    trial.probe.contract_errors = []
    try:
        with no_host_reads() if guard else nullcontext():
            report.result = getattr(trial.system, method)(given)
    except FO302 as finding:
        report.host_read = str(finding.finding.detail["operation"])
    except (Exception, SystemExit) as error:  # whatever the adapter raises is its diagnosis
        report.error = describe(error)
    report.changed = [f.name for f in fields(kept) if not _same(getattr(given, f.name), getattr(kept, f.name))]
    calls = trial.probe.take_calls()
    report.depths = [call.depth for call in calls]
    report.sampled = [np.array(call.tokens) for call in calls]
    report.contract_errors = list(trial.probe.contract_errors)
    return report


def describe(error: BaseException) -> str:
    """One line: type, message, and the innermost place in the source."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})" if trace is not None else ""
    return f"{in_words(error)}{where}"


def _same(given: Any, kept: Any) -> bool:
    if isinstance(kept, tuple):
        return len(given) == len(kept) and all(_same(a, b) for a, b in zip(given, kept, strict=True))
    if isinstance(kept, Tensor):
        return isinstance(given, Tensor) and given.shape == kept.shape and torch.equal(given, kept)
    return bool(given == kept)


def _tokens(kind: int, n: int) -> np.ndarray:
    return digest.scripted_token(kind, 0, np.arange(n))


def _digests(kind: int, n: int) -> np.ndarray:
    return digest.target_hidden(np.full(n, kind), np.arange(n))


def _tables(config: DraftConfig, bs: int) -> tuple[np.ndarray, ...]:
    """Pages of their own for each request, the null page for padding."""
    tables = []
    for cols in config.cols:
        table = np.zeros((bs, cols), I32)
        table[: len(SLOTS)] = np.arange(1, 1 + len(SLOTS) * cols).reshape(len(SLOTS), cols)
        tables.append(table)
    return tuple(tables)
