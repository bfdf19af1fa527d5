"""Adapters for the tests of the command line: a planted fault, and two that raise."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel
from frontier_oracle.property_tests.mutants import survey  # noqa: F401
from frontier_oracle.property_tests.mutants.planting import PLANTED
from frontier_oracle.reference_impl.frontier import Frontier

ids_at_accept = PLANTED["ids_at_accept"].factory("frontier")
host_read = PLANTED["host_max"].factory("frontier")


class RaisesInDecode(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        raise ValueError("bad index\nin line two")


def raises_in_make(config: DraftConfig, model: DraftModel) -> Any:
    raise RuntimeError("no such kernel")


def empty(config: DraftConfig, model: DraftModel) -> Any:
    return object()
