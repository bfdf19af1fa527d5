"""The ideal drafter as a system on the contract: it keeps tokens and target hiddens, and nothing that a depth made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, DraftModel, ExtendBatch
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.simulate.ideal import Ideal
from frontier_oracle.reference_impl.pages import locations


class Recomputer:
    """contract.System. Cell of position p: token x[p+1] and hidden h(p), paged as the first full-history group's KV is,
    so that a prefix hit brings them along (S21). Cells behind the frontier are written anew before they are read."""

    capabilities: ClassVar[frozenset[str]] = frozenset({"extend", "adopt"})
    prefix_policy: ClassVar[str] = "successor"

    def __init__(self, config: DraftConfig, model: Any) -> None:
        spec = config.spec
        full = [g for g, group in enumerate(spec.groups) if group.window is None]
        if not full:
            raise UsageError("recompute: every depth has a window; expected one with full history, whose pages it uses")
        self.group, self.page_size = full[0], spec.groups[full[0]].page_size
        self.ideal = Ideal(model.target, model.chain, spec.steps, model.watch.choose)
        cells = config.num_pages[self.group] * self.page_size
        dtype = getattr(torch, config.dtype)
        self.tokens = torch.zeros(cells, dtype=torch.int32, device=config.device)
        self.hidden = torch.zeros(cells, config.hidden_size, dtype=dtype, device=config.device)

    @torch.no_grad()
    def extend(self, batch: ExtendBatch) -> Tensor:
        """contract.System.extend."""
        rows = batch.hidden.split(batch.extend_lens)
        ids = batch.input_ids.split(batch.extend_lens)
        for r, (start, final) in enumerate(zip(batch.prefix_lens, batch.is_final, strict=True)):
            last = batch.sampled_ids[r] if final else batch.next_ids[r, 0]
            self._keep(batch, r, start, torch.cat([ids[r][1:], last[None]]), rows[r])
        ends = [s + n for s, n in zip(batch.prefix_lens, batch.extend_lens, strict=True)]
        return self._drafts(batch, ends, batch.sampled_ids)

    @torch.no_grad()
    def decode(self, batch: DecodeBatch) -> Tensor:
        """contract.System.decode."""
        rows = batch.hidden.view(*batch.verify_ids.shape, -1)
        starts, accepts = batch.seq_lens.tolist(), batch.accept_lengths.tolist()
        for r, (start, a) in enumerate(zip(starts, accepts, strict=True)):
            self._keep(batch, r, start, batch.verify_ids[r, :a], rows[r, :a])
        first = batch.verify_ids.gather(1, batch.accept_lengths.long()[:, None] - 1)[:, 0]
        return self._drafts(batch, [s + a for s, a in zip(starts, accepts, strict=True)], first)

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        """contract.System.adopt: the pages hold all that is needed."""

    def release(self, slot: int) -> None:
        """contract.System.release."""

    def _keep(self, batch: ExtendBatch | DecodeBatch, r: int, start: int, tokens: Tensor, hidden: Tensor) -> None:
        """Positions start.. of request r: x[p+1] and h(p)."""
        cells = self._cells(batch, r, start, start + len(tokens))
        self.tokens[cells], self.hidden[cells] = tokens, hidden

    def _cells(self, batch: ExtendBatch | DecodeBatch, r: int, start: int, end: int) -> Tensor:
        table = batch.page_table[self.group][r : r + 1]
        positions = torch.arange(start, end, device=table.device)
        return locations(table, self.page_size, torch.zeros_like(positions), positions).long()

    def _drafts(self, batch: ExtendBatch | DecodeBatch, frontiers: list[int], first: Tensor) -> Tensor:
        """[bs, steps+1] int32. x[0], which no depth consumes, is not kept."""
        cells = [self._cells(batch, r, 0, end) for r, end in enumerate(frontiers)]
        tokens = [[0, *self.tokens[of].tolist()] for of in cells]
        drafts = self.ideal.recompute(tokens, [self.hidden[of] for of in cells])
        return torch.cat([first[:, None].int(), torch.tensor(drafts, dtype=torch.int32, device=first.device)], dim=1)


def make(config: DraftConfig, model: DraftModel) -> Recomputer:
    """The plug-in entry point, for a ``watch.WatchedHead``."""
    return Recomputer(config, model)
