"""Adapters for the tests of the command line: a planted fault, and two that raise."""

from __future__ import annotations

import os
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


class Chatty(Frontier):
    """Prints where it can."""

    def decode(self, batch: DecodeBatch) -> Tensor:
        print("decoding")
        return super().decode(batch)


class ChattyTokens(Chatty):
    prefix_policy = "tokens"


class LeavesWhenAsked(Frontier):
    """Ends the program, as success, when it is asked what it is."""

    @property
    def prefix_policy(self) -> str:  # type: ignore[override]
        raise SystemExit(0)


class Dies(Frontier):
    """Takes its process with it."""

    def decode(self, batch: DecodeBatch) -> Tensor:
        os._exit(0)


def empty(config: DraftConfig, model: DraftModel) -> Any:
    return object()
