"""Planted faults of the kinds that only a captured round has, the gate's own and one more: each must be killed, on a
tape and on a graph."""

from __future__ import annotations

from frontier_oracle.cuda_impl.system import FrontierDrafter
from frontier_oracle.oracle.contract import DraftConfig, DraftModel
from frontier_oracle.property_tests.mutants.capture_faults import BakedAccepts, MetadataOutside, TailRead, captured


class ReadsHost(FrontierDrafter):
    """Reads an accept length on the host to choose a slice: the capture itself refuses it."""

    def _round(self, bs: int) -> None:
        super()._round(bs)
        longest = int(self.buffers.accept_lengths[:bs].max())
        self.buffers.ids[:bs, : self.config.spec.k - longest].zero_()


FAULTS = {
    "host value baked at capture": BakedAccepts,
    "buffer tail read": TailRead,
    "metadata rebuilt outside the graph": MetadataOutside,
    "host read in the round": ReadsHost,
}


def make_faulty(name: str, config: DraftConfig, model: DraftModel) -> FrontierDrafter:
    """The faulty system, on a tape or on a graph by its device."""
    drafter: FrontierDrafter = captured(FAULTS[name])(config, model)
    return drafter
