"""Drafters by name, as the engine calls them: any system on the contract, the ideal itself, or none."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, ExtendBatch, ForwardInputs
from frontier_oracle.oracle.designs import DESIGNS, Design
from frontier_oracle.oracle.errors import HiddenSemanticUnsupported, UsageError
from frontier_oracle.oracle.executor import spec_for
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.registry import BUILT_IN, load_system
from frontier_oracle.property_tests.shield import AdapterError, Factory, shielded
from frontier_oracle.reference_impl import generic

TARGET, RECOMPUTE, GENERIC = "target", "recompute", "generic:"
ALIASES = {"lookback": "tokenspeed_lookback", "unrepaired": "tokenspeed_unrepaired"}
CAPTURED = ("cuda_graph", "cuda_tape")

Rows = list[list[int]]


class Drafter(Protocol):
    """plain: never drafts, rounds verify one row; recomputes: its drafts are the ideal's; last_chunk_at_least: what the
    scheduler owes it of a prompt's last chunk. extend and decode return [column 0, drafts] a request, on the host."""

    plain: bool
    recomputes: bool
    last_chunk_at_least: int

    def extend(self, batch: ExtendBatch) -> Rows: ...

    def decode(self, batch: DecodeBatch) -> Rows: ...

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None: ...

    def release(self, slot: int) -> None: ...


@dataclass
class NoSystem:
    """The target alone, or the ideal's drafts: nothing is cached for drafting."""

    plain: bool
    recomputes: bool
    last_chunk_at_least: int = 0

    def extend(self, batch: ExtendBatch) -> Rows:
        return [[token] for token in batch.sampled_ids.tolist()]

    def decode(self, batch: DecodeBatch) -> Rows:
        ends = batch.accept_lengths.long()[:, None] - 1
        return [[token] for token in batch.verify_ids.gather(1, ends)[:, 0].tolist()]

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None: ...

    def release(self, slot: int) -> None: ...


class SystemDrafter:
    """A contract.System on a draft model. ``model.rows`` counts the rows that its decode rounds run."""

    plain = recomputes = False

    def __init__(self, system: Any, model: CountedModel, spec: Spec, vocabulary: int) -> None:
        self.system, self.model = system, model
        self.columns, self.vocabulary = 1 + spec.steps, vocabulary
        design = DESIGNS.get(getattr(system, "declares", ""))
        scheduled = design is not None and design.stash_validity == "scheduler"
        self.last_chunk_at_least = spec.steps if scheduled else 0
        self.adopt, self.release = system.adopt, system.release

    def extend(self, batch: ExtendBatch) -> Rows:
        before = self.model.rows
        returned: Rows = self._checked("extend()", self.system.extend(batch), len(batch.is_final))
        self.model.rows = before
        return returned

    def decode(self, batch: DecodeBatch) -> Rows:
        return self._checked("decode()", self.system.decode(batch), len(batch.seq_lens))

    def _checked(self, call: str, returned: Any, requests: int) -> Rows:
        """Its rows on the host, if they are what S10 asks for: integers [requests, 1 + steps], drafts in the
        vocabulary. A prompt's inner chunks may return anything there: nobody verifies those drafts."""
        shape = (requests, self.columns)
        if not isinstance(returned, Tensor) or returned.is_floating_point() or returned.shape != shape:
            got = (
                f"{returned.dtype} {tuple(returned.shape)}" if isinstance(returned, Tensor) else type(returned).__name__
            )
            raise AdapterError(f"the system's {call} returned {got}; expected integers {shape}: [requests, 1 + steps]")
        rows: Rows = returned.tolist()
        if call == "decode()" and not all(0 <= token < self.vocabulary for row in rows for token in row[1:]):
            raise AdapterError(f"the system's {call} returned a draft outside 0..{self.vocabulary - 1}")
        return rows


class CountedModel:
    """A draft model that counts the rows it is given; everything else is the model's own."""

    def __init__(self, model: DraftModel) -> None:
        self._model, self.rows = model, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._model, name)
        if name not in ("forward", "forward_into"):
            return found

        def counted(inputs: ForwardInputs, *rest: Any) -> Any:
            self.rows += len(inputs.positions)
            return found(inputs, *rest)

        return counted


@dataclass(frozen=True)
class Named:
    """A drafter's name, resolved. factory: None for the target alone and for the ideal; design: the declaration that
    the generic drafter runs, None for any other system."""

    name: str
    factory: Factory | None
    design: Design | None = None

    def spec(self, spec: Spec) -> Spec:
        """The model's spec with the conv ring that the design needs."""
        return spec if self.design is None else replace(spec, ring_rows=spec_for(self.design, spec).ring_rows)

    def make(self, config: DraftConfig, model: DraftModel) -> Drafter:
        if self.factory is None:
            return NoSystem(self.name == TARGET, self.name == RECOMPUTE)
        counted = CountedModel(model)
        vocabulary = len(model.target.embedding.weight)  # type: ignore[attr-defined]
        return SystemDrafter(shielded(self.factory)(config, counted), counted, config.spec, vocabulary)


def chain_designs() -> list[str]:
    """Every design that a chain of heads can run. One whose rows read their own argmax cannot: a draft model reports
    the sampled rows' only."""
    return [name for name, design in DESIGNS.items() if "chain" in design.hidden and design.tokens != "own_argmax"]


def resolve(name: str) -> Named:
    """``target`` (no drafts), ``recompute`` (the ideal), a built-in system, a design of the atlas or
    ``generic:<design>``, or an adapter as pkg.mod:make. Raises UsageError with one line for anything else."""
    name = ALIASES.get(name, name)
    if name in (TARGET, RECOMPUTE):
        return Named(name, None)
    wanted = name.removeprefix(GENERIC)
    if name in BUILT_IN or (":" in wanted and not name.startswith(GENERIC)):
        return Named(name, load_system(name))
    if wanted not in DESIGNS:
        known = sorted({TARGET, RECOMPUTE, *ALIASES, *BUILT_IN, *DESIGNS})
        close = difflib.get_close_matches(wanted, known, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise UsageError(f"unknown design {name!r}{hint}: known are {', '.join(known)}, generic:<design>, pkg.mod:make")
    design = DESIGNS[wanted]
    if "chain" not in design.hidden:
        served = " or ".join(design.hidden)
        raise HiddenSemanticUnsupported(f"design {wanted} serves {served} heads, and the model's are a chain")
    if wanted not in chain_designs():
        raise UsageError(f"design {wanted} reads every row's argmax, which a draft model does not report")
    return Named(name, generic.maker(design), design)
