"""The same prompts under several drafter designs: what each put out, and what its drafts were worth."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from frontier_oracle.oracle.contract import DraftConfig
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.property_tests.simulate.drafters import CAPTURED, RECOMPUTE, TARGET, Named, SystemDrafter
from frontier_oracle.property_tests.simulate.engine import Engine
from frontier_oracle.property_tests.simulate.ideal import Ideal
from frontier_oracle.property_tests.simulate.lossless import compare_outputs
from frontier_oracle.property_tests.simulate.memory import Memory
from frontier_oracle.property_tests.simulate.prompts import Prompt
from frontier_oracle.property_tests.simulate.requests import Options, Request
from frontier_oracle.property_tests.simulate.sampling import Verify, exact
from frontier_oracle.reference_impl.model.paged_head import PagedHead
from frontier_oracle.reference_impl.model.paged_target import PagedTarget
from frontier_oracle.reference_impl.model.weights import BUNDLED, Model


@dataclass(frozen=True)
class DesignRun:
    """One design on all prompts. rows: draft rows of the decode rounds, masked ones included, None where a captured
    round hides them; seconds: all but what the comparison with the ideal took; decode_seconds: the drafter's own, a
    verify round each."""

    name: str
    requests: list[Request]
    rows: int | None
    seconds: float
    decode_seconds: list[float] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(len(r.output) for r in self.requests)

    @property
    def verify_rounds(self) -> int:
        """Counted by request: a batch's round is one for each of its rows."""
        return sum(len(r.rounds) for r in self.requests)

    @property
    def accept_length(self) -> float:
        """Mean accept length as verified, bonus included: what the end of an output cuts off counts too."""
        return sum(v.accept for r in self.requests for v in r.rounds) / max(1, self.verify_rounds)

    @property
    def equal_rounds(self) -> int | None:
        """Verify rounds whose drafts were the ideal's; None where no ideal was asked for."""
        rounds = [v for r in self.requests for v in r.rounds]
        return sum(v.drafts == v.ideal for v in rounds) if any(v.ideal for v in rounds) else None

    @property
    def output_sha256(self) -> str:
        outputs = [np.array([len(r.output), *r.output], dtype="<i4").tobytes() for r in self.requests]
        return hashlib.sha256(b"".join(outputs)).hexdigest()

    def as_data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "tokens": self.tokens,
            "verify_rounds": self.verify_rounds,
            "accept_length": self.accept_length,
            "output_sha256": self.output_sha256,
            "drafts_equal_recompute": self.equal_rounds,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
        }


Progress = Callable[[str, int], None]


def serve(
    model: Model,
    design: Named,
    prompts: Sequence[Prompt],
    options: Options,
    ideal: Ideal | None = None,
    verify: Verify = exact,
    progress: Progress = lambda name, tokens: None,
) -> DesignRun:
    """Serve the prompts with one drafter. model: in the dtype and on the device of ``options``; ideal: what its drafts
    are held against, and those of "recompute" itself."""
    if design.name == TARGET:
        ideal = None
    elif design.name == RECOMPUTE and ideal is None:
        ideal = Ideal(model.target, model.chain, model.config.spec(options.k).steps)
    engine = prepare(model, design, options, max(len(p.tokens) for p in prompts), ideal, verify)
    started = time.perf_counter()
    requests = engine.run(prompts, lambda tokens: progress(design.name, tokens))
    seconds = time.perf_counter() - started
    if design.name == RECOMPUTE:
        rows = sum(engine.steps * (v.frontier + v.accept) for r in requests for v in r.rounds[:-1])
        return DesignRun(design.name, requests, rows, seconds)
    counted: int | None = engine.drafter.model.rows if isinstance(engine.drafter, SystemDrafter) else 0
    if design.name in CAPTURED:
        counted = None
    return DesignRun(design.name, requests, counted, seconds - engine.ideal_seconds, engine.decode_seconds)


def prepare(
    model: Model, design: Named, options: Options, longest: int, ideal: Ideal | None = None, verify: Verify = exact
) -> Engine:
    """An engine with its pages, target and drafter, for prompts of at most ``longest`` tokens."""
    spec = design.spec(model.config.spec(options.k, options.page_size))
    positions = options.context + 2 * options.k + spec.steps
    memory = Memory(spec, options.page_size, options.batch, positions, longest, kept=2 * options.batch)
    config = DraftConfig(
        spec=spec,
        num_slots=options.batch + 1,
        max_batch=options.batch,
        num_pages=tuple(pool.num_pages for pool in memory.pools[1:]),
        cols=memory.cols[1:],
        hidden_size=model.config.hidden_size,
        dtype=options.dtype,
        device=options.device,
    )
    dtype = getattr(torch, options.dtype)
    target = PagedTarget(model.target, memory.pools[0].num_pages, options.page_size, options.device, dtype)
    drafter = design.make(config, PagedHead(config, model.chain, model.target))
    return Engine(options, memory, target, drafter, ideal, verify)


@dataclass(frozen=True)
class Simulation:
    """All designs on the same prompts. findings: FO501, by design, against the target's own output where it was
    asked for."""

    prompts: list[Prompt]
    options: Options
    runs: list[DesignRun]
    findings: dict[str, list[Finding]]

    def run(self, name: str) -> DesignRun:
        return next(run for run in self.runs if run.name == name)

    def as_data(self) -> dict[str, Any]:
        """{prompts, tokens, hits, designs}: tokens are those of the first design's output, hits its requests that met a
        cached prefix."""
        return {
            "prompts": len(self.prompts),
            "tokens": self.runs[0].tokens,
            "hits": sum(r.holding.hit > 0 for r in self.runs[0].requests),
            "designs": [run.as_data() for run in self.runs],
            "output_differs": {name: len(found) for name, found in self.findings.items()},
        }


def simulate(
    model: Model,
    designs: Sequence[Named],
    prompts: Sequence[Prompt],
    options: Options,
    verify: Verify = exact,
    progress: Progress = lambda name, tokens: None,
) -> Simulation:
    """Serve the prompts under each design in turn, the ideal first: its drafts, a function of the tokens, are then
    known to the comparison of the others, and its own time is what they take."""
    ideal = None
    if options.recompute:
        ideal = Ideal(model.target, model.chain, model.config.spec(options.k).steps)
    served = {
        design.name: serve(model, design, prompts, options, ideal, verify, progress)
        for design in sorted(designs, key=lambda design: design.name != RECOMPUTE)
    }
    runs = [served[design.name] for design in designs]
    own = next((run for run in runs if run.name == TARGET), None)
    findings = {}
    if own is not None:
        findings = {run.name: compare_outputs(own.requests, run.requests) for run in runs if run is not own}
    return Simulation(list(prompts), options, runs, findings)


def digest(weights: Path | None) -> str:
    """sha256 over the weights' files in order of their names; None for the bundled ones."""
    files = sorted((weights or BUNDLED).glob("*.safetensors"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
