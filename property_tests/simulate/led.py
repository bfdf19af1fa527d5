"""Several systems on the same rounds: one leads, whose drafts are used; the others are given the very same batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, ExtendBatch
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.shield import Factory, shielded
from frontier_oracle.property_tests.simulate import recomputer
from frontier_oracle.property_tests.simulate.drafters import (
    RECOMPUTE,
    TARGET,
    CountedModel,
    Named,
    Rows,
    SystemDrafter,
    resolve,
)
from frontier_oracle.property_tests.simulate.prompts import Prompt
from frontier_oracle.property_tests.simulate.requests import Options
from frontier_oracle.property_tests.simulate.run import prepare
from frontier_oracle.property_tests.simulate.sampling import Verify, exact
from frontier_oracle.property_tests.simulate.tally import Tally
from frontier_oracle.property_tests.simulate.watch import Watch, WatchedHead, widened, widened_batch
from frontier_oracle.reference_impl.model.weights import Model


class Contestant:
    """A system and its float64 twin, each with a model and caches of its own; the twin is told the system's drafts."""

    def __init__(self, name: str, factory: Factory, config: DraftConfig, model: Model, wide: Model) -> None:
        head = WatchedHead(config, model)
        wide_config = replace(config, dtype="float64")
        wide_head = WatchedHead(wide_config, wide, told=head.watch)
        self.name = name
        self.watch: Watch = head.watch
        self.twin: Watch = wide_head.watch
        self.system, self.wide = _system(factory, config, head), _system(factory, wide_config, wide_head)

    def extend(self, batch: ExtendBatch, wide: ExtendBatch) -> Rows:
        rows = self.system.extend(batch)
        self.wide.extend(wide)
        return rows

    def decode(self, batch: DecodeBatch, wide: DecodeBatch) -> Rows:
        rows = self.system.decode(batch)
        self.wide.decode(wide)
        return rows

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        self.system.adopt(slot, pages, length)
        self.wide.adopt(slot, pages, length)

    def release(self, slot: int) -> None:
        self.system.release(slot)
        self.wide.release(slot)


def _system(factory: Factory, config: DraftConfig, head: WatchedHead) -> SystemDrafter:
    counted = CountedModel(head)
    return SystemDrafter(shielded(factory)(config, counted), counted, config.spec, len(head.target.embedding.weight))


class Led:
    """simulate.drafters.Drafter: the first contestant's drafts are used; a Tally of each of the others."""

    plain = recomputes = False

    def __init__(self, contestants: Sequence[Contestant]) -> None:
        self.contestants = contestants
        self.tallies = [Tally(each.name) for each in contestants[1:]]
        self.last_chunk_at_least = max(each.system.last_chunk_at_least for each in contestants)
        self.request_rounds = 0

    def extend(self, batch: ExtendBatch) -> Rows:
        wide = widened_batch(batch)
        return [each.extend(batch, wide) for each in self.contestants][0]

    def decode(self, batch: DecodeBatch) -> Rows:
        wide = widened_batch(batch)
        rows = [each.decode(batch, wide) for each in self.contestants]
        drafts = [[row[1:] for row in of] for of in rows]
        slots = batch.req_pool_indices.tolist()
        leader, *others = self.contestants
        for tally, own, mine in zip(self.tallies, others, drafts[1:], strict=True):
            tally.add(leader, own, (drafts[0], mine), slots)
        self.request_rounds += len(slots)
        return rows[0]

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        for each in self.contestants:
            each.adopt(slot, pages, length)

    def release(self, slot: int) -> None:
        for each in self.contestants:
            each.release(slot)


@dataclass(frozen=True)
class LedBy(Named):
    """Makes a Led. members: the first leads, the others are held against it; model: the weights that all run on."""

    model: Model | None = None
    members: tuple[Named, ...] = ()

    def spec(self, spec: Spec) -> Spec:
        """With the longest conv ring that one of them needs: all have the same pages and rings."""
        return replace(spec, ring_rows=max(each.spec(spec).ring_rows for each in self.members))

    def make(self, config: DraftConfig, model: Any) -> Led:
        assert self.model is not None
        wide = widened(self.model)
        return Led([Contestant(each.name, _factory(each), config, self.model, wide) for each in self.members])


def _factory(named: Named) -> Factory:
    if named.name == RECOMPUTE:
        return recomputer.make
    assert named.factory is not None
    return named.factory


def led(model: Model, names: Sequence[str]) -> LedBy:
    """By names, as ``resolve`` takes them; the first leads. Raises UsageError for a list without two that draft."""
    named = [resolve(name) for name in names]
    if len(named) < 2 or len(set(names)) < len(names) or TARGET in names:
        raise UsageError(f"designs {','.join(names)}: expected two or more that draft, none twice; the first leads")
    return led_by(model, named)


def led_by(model: Model, named: Sequence[Named]) -> LedBy:
    """The same, resolved."""
    return LedBy(named[0].name, None, model=model, members=tuple(named))


def compare(
    model: Model,
    designs: LedBy,
    prompts: Sequence[Prompt],
    options: Options,
    verify: Verify = exact,
    progress: Callable[[Led], None] = lambda done: None,
) -> Led:
    """Serve the prompts. progress: told after every round; what it raises ends the run and reaches the caller."""
    engine = prepare(model, designs, options, max(len(p.tokens) for p in prompts), verify=verify)
    drafter = engine.drafter
    assert isinstance(drafter, Led)
    engine.run(prompts, lambda tokens: progress(drafter))
    return drafter
