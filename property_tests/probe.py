"""The digest probe: a draft model whose activations are 64-bit digests, so that every wrong index shows (DESIGN).

It stands in for real heads under eager torch, a tape, or a captured CUDA graph: static shapes, no host reads (but to
record an eager call), and every write deterministic: where one call names a cell twice, its last unmasked row wins.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.calls import CallLog
from frontier_oracle.oracle.contract import DraftConfig, ForwardInputs
from frontier_oracle.property_tests import torch_digest as mixes
from frontier_oracle.property_tests.convert import torch_dtype
from frontier_oracle.property_tests.probe_inputs import CleanInputs, Limits, check_ranges, clean
from frontier_oracle.property_tests.probe_log import Call, CallRecord
from frontier_oracle.property_tests.probe_reads import Attention, Rows, rows_of
from frontier_oracle.property_tests.torch_digest import mix

KIND_KV, KIND_RING, KIND_CKPT = 1, 2, 3


class DigestProbe:
    """contract.DraftModel on digests.

    kv[d] [num_pages[g] * page_size_g] int64 with g = spec.group_of(d); ring [steps, num_slots, R] int64; ckpt
    [steps, num_pages[0], W-1] int64: all hold sentinels until written. They are views that stay at their addresses:
    set them with ``copy_``. With ``record`` each call is kept until ``take_calls``, and its index ranges are checked;
    an eager call is read on the host at once, one inside a captured round when it is taken. ``contract_errors``
    collects what a system passed against the contract (FO401), once each.
    """

    def __init__(self, config: DraftConfig, ring_rows: int | None = None, record: bool = False) -> None:
        spec = config.spec
        self.config = config
        self.ring_rows = spec.ring_rows if ring_rows is None else ring_rows
        self.contract_errors: list[str] = []
        self._dtype = torch_dtype(config)
        self._device = torch.device(config.device)
        pages, sizes = config.num_pages, tuple(g.page_size for g in spec.groups)
        self._limits = Limits(
            steps=spec.steps,
            hidden_size=config.hidden_size,
            dtype=self._dtype,
            device=self._device,
            max_batch=config.max_batch,
            num_slots=config.num_slots,
            cells=tuple(n * size for n, size in zip(pages, sizes, strict=True)),
            num_pages=pages,
            cols=config.cols,
            capacity=tuple(
                None if g.window else cols * g.page_size for g, cols in zip(spec.groups, config.cols, strict=True)
            ),
        )
        self._record = CallRecord(self._device, self._check_ranges) if record else None
        self._attention = Attention(config, self._device)
        # One cell past the end of each store takes what must not be stored: shapes stay static, no cell changes.
        self._taps, self._page_sizes = spec.taps, sizes
        cells, tapped = self._limits.cells, pages[0] * spec.taps
        self._kv = [self._store(KIND_KV, d, cells[spec.group_of(d)], 1) for d in range(spec.steps)]
        ring = [self._store(KIND_RING, d, config.num_slots * self.ring_rows, 1) for d in range(spec.steps)]
        ckpt = [self._store(KIND_CKPT, d, tapped, spec.taps) for d in range(spec.steps)]
        self._ring, self._ckpt = torch.stack(ring), torch.stack(ckpt)
        self.kv = [store[:-1] for store in self._kv]
        self.ring = self._ring[:, :-1].view(spec.steps, config.num_slots, self.ring_rows)
        self.ckpt = self._ckpt[:, :tapped].view(spec.steps, pages[0], spec.taps)
        self._back = torch.arange(1, spec.taps + 1, device=self._device)[:, None]
        most = max(*cells, config.num_slots * self.ring_rows, pages[0])
        self._winner = torch.full((most,), -1, dtype=torch.int64, device=self._device)

    def _store(self, kind: int, depth: int, cells: int, spare: int) -> Tensor:
        return torch.from_numpy(digest.sentinel(kind, depth, np.arange(cells + spare))).to(self._device)

    @torch.no_grad()
    def forward(self, inputs: ForwardInputs) -> tuple[Tensor, Tensor]:
        """Run one depth. Returns O [n, H] in the configured dtype (masked rows zero) and tokens [bs] int32."""
        call = clean(inputs, self._limits, lambda message: self._error(inputs.depth, message))
        rows = rows_of(call, self._page_sizes)
        hidden = mixes.decode(call.hidden)
        outputs = self._outputs(call, rows, hidden)
        tokens = mixes.draft_token(outputs[call.sample_rows.clamp(0, outputs.shape[0] - 1)])
        if self._record is not None:
            self._record.add(Call(call, rows.masked, hidden, outputs, tokens))
        channels = mixes.encode(outputs, self.config.hidden_size, self._dtype)
        return channels.masked_fill_(rows.masked[:, None], 0), tokens

    def take_calls(self) -> list[CallLog]:
        """The calls since the last time, in order, those of replayed rounds among them. None unless it records."""
        return [] if self._record is None else self._record.take()

    def load_conv_state(self, slot: int, page: int, length: int) -> None:
        """Copy a checkpoint of group 0's ``page`` into ``slot``'s ring rows length-(W-1)..length-1, at every depth.
        Positions below 0 have no row."""
        for i, position in enumerate(range(length - self._taps, length)):
            if position >= 0:
                self.ring[:, slot, position % self.ring_rows] = self.ckpt[:, page, i]

    def _check_ranges(self, call: CleanInputs) -> None:
        check_ranges(call, self._limits, lambda message: self._error(call.depth, message))

    def _error(self, depth: int, message: str) -> None:
        text = f"depth {depth}: {message}"
        if text not in self.contract_errors:
            self.contract_errors.append(text)

    def _outputs(self, call: CleanInputs, rows: Rows, hidden: Tensor) -> Tensor:
        """[n] output digests; stores KV cells, ring rows and checkpoints on the way (S17, S18)."""
        depth, group = call.depth, self.config.spec.group_of(call.depth)
        own = mix(digest.TAG_RING, depth, call.input_ids, hidden)
        slot_base = call.conv_slots.clamp(0, self.config.num_slots - 1)[rows.request] * self.ring_rows
        earlier = self._earlier_rows(depth, rows, own, slot_base)
        taps = mix(digest.TAG_TAP, self._back, earlier).sum(0)
        entries = mix(digest.TAG_ENTRY, depth, call.positions, call.input_ids, hidden, taps)

        locations = [loc.clamp(0, n - 1) for loc, n in zip(call.out_cache_loc, self._limits.cells, strict=True)]
        ring_cells = slot_base + (rows.extent - 1) % self.ring_rows
        self._write(self._kv[depth], locations[group], entries, rows.masked, rows.index)
        self._write(self._ring[depth], ring_cells, own, rows.masked, rows.index)
        if self._taps:
            self._publish(depth, rows, locations[0], own, earlier)
        attended = self._attention.attended(group, self.kv[depth], call.page_table[group], rows)
        return mix(digest.TAG_OUT, call.positions, entries, attended).masked_fill_(rows.masked, 0)

    def _earlier_rows(self, depth: int, rows: Rows, own: Tensor, slot_base: Tensor) -> Tensor:
        """[W-1, n] C of the rows at extents e-1..e-(W-1): this call's own unmasked row where it has one, else the ring
        as it stands before the call; 0 below position 0."""
        extent = rows.extent - 1 - self._back
        before = self._ring[depth][slot_base + extent % self.ring_rows]
        index = rows.index - self._back
        back = index.clamp(min=0)
        in_call = (index >= rows.first) & ~rows.masked[back]
        return torch.where(in_call, own[back], before).masked_fill_(extent < 0, 0)

    def _publish(self, depth: int, rows: Rows, location: Tensor, own: Tensor, earlier: Tensor) -> None:
        """Checkpoint C of e-W+2..e on the page of each written row that ends a page (S18)."""
        size = self._page_sizes[0]
        newest = own.masked_fill(rows.extent < 1, 0)[None]
        content = torch.cat([earlier[: self._taps - 1].flip(0), newest]).t()
        keep = rows.masked | (rows.extent % size != 0)
        page = torch.div(location, size, rounding_mode="floor")
        self._write(self._ckpt[depth].view(-1, self._taps), page, content, keep, rows.index)

    def _write(self, store: Tensor, cell: Tensor, content: Tensor, skip: Tensor, index: Tensor) -> None:
        """store[cell] = content, row by row, but not where ``skip``: the last row that names a cell wins, everywhere.

        The store's last cell is the spare one.
        """
        claim = index.masked_fill(skip, -1)
        self._winner.scatter_reduce_(0, cell, claim, "amax")
        loses = self._winner[cell] != index
        self._winner.index_fill_(0, cell, -1)
        store.index_copy_(0, cell.masked_fill(loses, store.shape[0] - 1), content)
