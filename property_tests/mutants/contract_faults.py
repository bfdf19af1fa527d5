"""Faults against the contract: dtypes, shapes, host reads (S10, S24)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, ForwardInputs
from frontier_oracle.property_tests.mutants.planting import Watching, planted
from frontier_oracle.reference_impl.frontier import Frontier


@planted("int64_ids", "token ids are int64", "FO401")
class _Int64Ids(Watching):
    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        return replace(inputs, input_ids=inputs.input_ids.long())


@planted("int64_result", "decode returns int64 tokens", "FO401")
class _Int64Result(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        return super().decode(batch).long()


@planted("float_result", "decode returns float tokens", "FO401")
class _FloatResult(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        return super().decode(batch).float()


@planted("result_without_column_0", "decode returns the drafts only", "FO401")
class _ResultWithoutColumn0(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        return super().decode(batch)[:, 1:]


@planted("hidden_upcast", "hiddens are handed on in float32", "FO401")
class _HiddenUpcast(Watching):
    def tamper(self, inputs: ForwardInputs) -> ForwardInputs:
        return replace(inputs, hidden=inputs.hidden.float())


@planted("host_accept_lengths", "the accept lengths are read on the host", "FO302", guard=True)
class _HostAcceptLengths(Frontier):
    def window_source_rows(self, accept_lengths: Tensor) -> Tensor:
        rows = [[a - 1 + j for j in range(self.k)] for a in accept_lengths.tolist()]
        return torch.tensor(rows)


@planted("host_accept_of_one", "one accept length is read as a Python int", "FO302", guard=True)
class _HostAcceptOfOne(Frontier):
    def column0(self, verify_ids: Tensor, accept_lengths: Tensor) -> Tensor:
        columns = [verify_ids[r, int(accept_lengths[r]) - 1] for r in range(len(verify_ids))]
        return torch.stack(columns)


@planted("host_max", "the longest sequence is read on the host", "FO302", guard=True)
class _HostMax(Frontier):
    def new_frontier(self, seq_lens: Tensor, accept_lengths: Tensor) -> Tensor:
        frontier = super().new_frontier(seq_lens, accept_lengths)
        return frontier.clamp(max=frontier.max().item())


@planted("host_mask", "accepted rows are picked with a boolean mask, whose size is a host value", "FO302", guard=True)
class _HostMask(Frontier):
    def next_stash(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        keep = torch.ones_like(ids, dtype=torch.bool)
        keep[:, 0] = False
        return ids[keep].view(len(ids), -1), hidden[keep].view(*hidden[:, 1:].shape)
