"""Frontier Oracle's adapter of the toy engine: frontier-oracle gate --system adapter:make"""

import torch
from engine import Chunk, ToyDrafter

from frontier_oracle.oracle.contract import ForwardInputs


class Adapter:
    capabilities = frozenset({"extend", "padding"})
    prefix_policy = "successor"

    def __init__(self, config, model):
        spec, sizes = config.spec, [group.page_size for group in config.spec.groups]
        dtype, chained = getattr(torch, config.dtype), spec.hidden == "chain"
        self.model, slots = model, config.num_slots
        self.engine = ToyDrafter(self.head, spec.k, spec.steps, chained, sizes, slots, config.hidden_size, dtype)

    def head(self, depth, r):
        last = r.starts[1:] - 1
        rows = (r.tokens, r.positions, r.hidden, r.cells, r.starts, r.lens, r.blocks, r.slots, last)
        return self.model.forward(ForwardInputs(depth, *rows))

    def extend(self, b):
        hidden, ids = b.hidden.split(list(b.extend_lens)), b.input_ids.split(list(b.extend_lens))
        rows = (b.req_pool_indices.tolist(), b.prefix_lens, ids, b.next_ids, b.sampled_ids, hidden, b.is_final)
        drafts = self.engine.prefill([Chunk(*row) for row in zip(*rows, strict=True)], b.page_table)
        return torch.cat([b.sampled_ids[:, None], drafts], dim=1)

    def decode(self, b):
        hidden, a = b.hidden.view(*b.verify_ids.shape, -1), b.accept_lengths.long()
        drafts = self.engine.step(b.req_pool_indices, b.seq_lens, a.int(), b.verify_ids, hidden, b.page_table)
        return torch.cat([b.verify_ids.gather(1, a[:, None] - 1), drafts], dim=1)

    def adopt(self, slot, pages, length): ...
    def release(self, slot): ...


make = Adapter
