"""What a planted fault is, and how it is made of a base system: data, and a small class that replaces an index term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, ExtendBatch, ForwardInputs
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.shield import Factory
from frontier_oracle.reference_impl.frontier import Frontier
from frontier_oracle.reference_impl.tokenspeed import TokenspeedFrontier

FRONTIER, TOKENSPEED = "frontier", "tokenspeed_frontier"
BASES: dict[str, type[Frontier]] = {FRONTIER: Frontier, TOKENSPEED: TokenspeedFrontier}
BOTH = (FRONTIER, TOKENSPEED)


@dataclass(frozen=True)
class Mutant:
    """One planted fault. code: the rule that names it, which must be the first undeclared finding; bases: where it is
    a fault at all; apply: the class that overrides the index term; guard: whether host reads are watched (slow);
    ring_rows: the probe's conv ring, where the fault lies in the harness; why: what the code or the bases rest on."""

    id: str
    title: str
    code: str
    bases: tuple[str, ...]
    apply: type[Any]
    guard: bool = False
    ring_rows: Callable[[Spec], int] | None = None
    why: str = ""

    def policy(self, base: str) -> str:
        """The prefix policy of the faulty system."""
        return str(self.system(base).prefix_policy)

    def system(self, base: str) -> Any:
        """The base with the fault planted in it: a class."""
        return type(self.apply.__name__, (self.apply, BASES[base]), {})

    def factory(self, base: str) -> Factory:
        made: Factory = self.system(base)
        return made

    def eager(self, base: str) -> Factory | None:
        """The faulty system run eagerly, for faults of capture: what differs from it is FO301."""
        return None


PLANTED: dict[str, Mutant] = {}


def planted(id: str, title: str, code: str, bases: tuple[str, ...] = BOTH, **more: Any) -> Callable[[type], type]:
    """Class decorator: registers the class as the mutant ``id``. See Mutant for ``more``."""

    def register(apply: type[Frontier]) -> type[Frontier]:
        assert id not in PLANTED, f"two mutants named {id}"
        PLANTED[id] = Mutant(id, title, code, bases, apply, **more)
        return apply

    return register


class Watching(Frontier):
    """For faults that need the round's batch, or that lie in what a call is given: ``tamper`` sees every call."""

    batch: Any
    decoding: bool

    def __init__(self, config: DraftConfig, model: DraftModel) -> None:
        super().__init__(config, model)
        self.probe, self.model = model, _Tampered(model, self)

    def decode(self, batch: DecodeBatch) -> Tensor:
        self.batch, self.decoding = batch, True
        return super().decode(batch)

    def extend(self, batch: ExtendBatch) -> Tensor:
        self.batch, self.decoding = batch, False
        return super().extend(batch)

    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        """What the model is given in place of ``inputs``."""
        return inputs


class _Tampered:
    """The injected model behind a Watching system."""

    def __init__(self, model: DraftModel, system: Watching) -> None:
        self._model, self._system = model, system
        self.load_conv_state = model.load_conv_state

    def forward(self, inputs: ForwardInputs) -> tuple[Any, Any]:
        return self._model.forward(self._system.tamper(inputs))
