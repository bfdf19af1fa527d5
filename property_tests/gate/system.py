"""A system under test as the gate sees it: its factory, what it can do, and what it declares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from frontier_oracle.oracle.designs import DESIGNS, VARIANTS, Design
from frontier_oracle.oracle.errors import HiddenSemanticUnsupported
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.timeline import POLICIES, Timeline
from frontier_oracle.property_tests.probe import DigestProbe
from frontier_oracle.property_tests.registry import load_system
from frontier_oracle.property_tests.shield import AdapterError, Factory, placed_config, shielded

# A smallest configuration for every kind of head: a system need not serve them all.
SMALLEST = tuple(f"k2 page1 W1 {hidden}| a: p1" for hidden in ("", "target ", "single ", "shifted ", "previous "))


@dataclass(frozen=True)
class SystemUnderTest:
    """design: the declaration whose deviations the gate tolerates, None for a system that must be exact."""

    name: str
    factory: Factory
    policy: str
    capabilities: frozenset[str]
    design: Design | None

    @property
    def deviates(self) -> bool:
        return self.design is not None and bool(self.design.deviations)


def resolve(name: str) -> SystemUnderTest:
    """Load a system by name and read what it declares: ``capabilities``, ``prefix_policy``, and ``declares``, the name
    of a design in oracle.designs (optional). Raises UsageError (AdapterError where the adapter itself raises)."""
    factory = shielded(load_system(name))
    system = _smallest(factory)
    for attribute in ("extend", "decode", "adopt", "release", "capabilities", "prefix_policy"):
        if not hasattr(system, attribute):
            raise AdapterError(f"system {name!r} has no {attribute!r}: run 'frontier-oracle doctor --system {name}'")
    capabilities = system.capabilities
    if isinstance(capabilities, str) or not isinstance(capabilities, Iterable):
        raise AdapterError(f"system {name!r}: capabilities is {capabilities!r}, expected a set of names")
    if system.prefix_policy not in POLICIES:
        known = ", ".join(POLICIES)
        raise AdapterError(f"system {name!r}: prefix_policy {system.prefix_policy!r} is unknown, known are {known}")
    declares = getattr(system, "declares", "")
    known_designs = DESIGNS | VARIANTS
    if not isinstance(declares, str) or (declares and declares not in known_designs):
        listed = ", ".join(known_designs)
        raise AdapterError(f"system {name!r} declares {declares!r}, expected a design: one of {listed}")
    return SystemUnderTest(name, factory, system.prefix_policy, frozenset(capabilities), known_designs.get(declares))


def _smallest(factory: Factory) -> Any:
    """The system on the first of the smallest configurations that it serves."""
    for text in SMALLEST:
        config = placed_config(factory, Timeline(parse(text)).config())
        try:
            return factory(config, DigestProbe(config))
        except HiddenSemanticUnsupported:
            if text == SMALLEST[-1]:
                raise
    raise AssertionError("no smallest configuration")
