"""The books by plain loops over Python ints, one request and one row at a time: what the tests compare with."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig, ExtendBatch


@dataclass
class SlowBooks:
    """stash[slot]: position -> (token behind it, hidden of it); only what is valid stands in it."""

    config: DraftConfig
    stash: dict[int, dict[int, tuple[int, list[float]]]] = field(default_factory=dict)

    def decode(self, batch: DecodeBatch) -> list[list[dict[str, object]]]:
        """Rows of each request: id, position, hidden, locs. Padded requests have zero rows."""
        k, out = self.config.spec.k, []
        hidden = batch.hidden.float().tolist()
        for r, slot in enumerate(batch.req_pool_indices.tolist()):
            frontier, accept = int(batch.seq_lens[r]), int(batch.accept_lengths[r])
            known = dict(self.stash.get(slot, {}))
            for i in range(accept):
                known[frontier + i] = (int(batch.verify_ids[r, i]), hidden[r * k + i])
            rows = []
            for p in range(frontier + accept - k, frontier + accept):
                rows.append(self._row(slot, p, known, [t[r].tolist() for t in batch.page_table]))
            if slot:
                self._keep(slot, known, frontier + accept)
            out.append(rows)
        return out

    def extend(self, batch: ExtendBatch, drafts: list[list[int]]) -> list[list[dict[str, object]]]:
        """Rows of each request with ``ids`` per depth; draft m of request r is drafts[r][m - 1]."""
        spec, out, start = self.config.spec, [], 0
        ids, hidden = batch.input_ids.tolist(), batch.hidden.float().tolist()
        for r, slot in enumerate(batch.req_pool_indices.tolist()):
            s, n, final = batch.prefix_lens[r], batch.extend_lens[r], batch.is_final[r]
            known = {p: v for p, v in self.stash.get(slot, {}).items() if 0 <= p < s}
            token = {p + 1: t for p, (t, _) in known.items()}
            token |= {s + i: ids[start + i] for i in range(n)}
            for m in range(spec.steps):
                following = int(batch.next_ids[r, m])
                token[s + n + m] = following if following >= 0 else drafts[r][m - 1]
            if final:
                token[s + n] = int(batch.sampled_ids[r])
            for i in range(n):
                known[s + i] = (token[s + i + 1], hidden[start + i])
            front = min(max(spec.steps - n, 0), s) if final else 0
            rows = []
            for p in range(s - front, s + n):
                row = self._row(slot, p, known, [t[r].tolist() for t in batch.page_table])
                row["ids"] = [token[p + d + 1] if row["kept"] else 0 for d in range(spec.steps)]
                rows.append(row)
            self._keep(slot, known, s + n)
            start += n
            out.append(rows)
        return out

    def _row(self, slot: int, p: int, known: dict[int, tuple[int, list[float]]], tables: list[list[int]]):
        kept = slot != 0 and p >= 0 and p in known
        token, hidden = known[p] if kept else (0, [0.0] * self.config.hidden_size)
        locs = []
        for group, table in zip(self.config.spec.groups, tables, strict=True):
            page = table[(p // group.page_size) % len(table)]
            locs.append(page * group.page_size + p % group.page_size if kept else 0)
        return {"kept": kept, "id": token, "position": p if kept else 0, "hidden": hidden, "locs": locs}

    def _keep(self, slot: int, known: dict[int, tuple[int, list[float]]], frontier: int) -> None:
        low = frontier - self.config.spec.k + 1
        self.stash[slot] = {p: v for p, v in known.items() if low <= p < frontier}


def rounds_config(k: int, steps: int = 0, hidden_size: int = 8, device: str = "cpu", batch: int = 4) -> DraftConfig:
    """Two cache groups of different page sizes, the second one a ring of pages; one slot more than a batch takes."""
    from frontier_oracle.oracle.spec import CacheGroup, Spec

    spec = Spec(k=k, steps=steps, groups=(CacheGroup(4), CacheGroup(8, window=16)))
    cols, slots = (64, 6), batch + 2
    pages = tuple(1 + slots * c for c in cols)
    return DraftConfig(spec, slots, batch, pages, cols, hidden_size=hidden_size, device=device)


def random_hidden(rows: int, config: DraftConfig, generator: torch.Generator) -> torch.Tensor:
    """Small integers, exact in bf16, never zero."""
    shape = (rows, config.hidden_size)
    return torch.randint(1, 256, shape, generator=generator).to(torch.bfloat16).to(config.device)


class Feeder:
    """Random batches for requests in slots 1.., with tables that name every page once."""

    def __init__(self, config: DraftConfig, seed: int) -> None:
        self.config, self.g = config, torch.Generator().manual_seed(seed)
        self.frontier = dict.fromkeys(range(1, config.num_slots), 0)

    def ints(self, low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=self.g, dtype=torch.int32).to(self.config.device)

    def tables(self, slots: list[int]) -> tuple[torch.Tensor, ...]:
        """Row of slot s in group g: pages 1 + s * cols ..., zero for slot 0."""
        out = []
        for cols in self.config.cols:
            rows = [[0] * cols if s == 0 else [1 + s * cols + c for c in range(cols)] for s in slots]
            out.append(torch.tensor(rows, dtype=torch.int32, device=self.config.device))
        return tuple(out)

    def decode(self, slots: list[int], padded: int = 0) -> DecodeBatch:
        k = self.config.spec.k
        accepts = self.ints(1, self.config.spec.max_accept + 1, len(slots)).tolist() + [1] * padded
        seq_lens = [self.frontier[s] for s in slots] + [1] * padded
        for s, a in zip(slots, accepts, strict=False):
            self.frontier[s] += a
        device, rows = self.config.device, len(slots) + padded
        return DecodeBatch(
            req_pool_indices=torch.tensor(slots + [0] * padded, dtype=torch.int32, device=device),
            seq_lens=torch.tensor(seq_lens, dtype=torch.int32, device=device),
            accept_lengths=torch.tensor(accepts, dtype=torch.int32, device=device),
            verify_ids=self.ints(1, 1 << 20, rows, k),
            hidden=random_hidden(rows * k, self.config, self.g),
            page_table=self.tables(slots + [0] * padded),
        )

    def extend(self, slots: list[int], lens: list[int], final: list[bool], left: list[int]) -> ExtendBatch:
        """Chunks of ``lens`` tokens; ``left`` prompt tokens follow (at least 1 for a chunk that is not final)."""
        steps, prefix = self.config.spec.steps, tuple(self.frontier[s] for s in slots)
        following = self.ints(1, 1 << 20, len(slots), steps)
        for r, (f, more) in enumerate(zip(final, left, strict=True)):
            following[r, 0 if f else more :] = -1
        for s, n in zip(slots, lens, strict=True):
            self.frontier[s] += n
        return ExtendBatch(
            req_pool_indices=torch.tensor(slots, dtype=torch.int32, device=self.config.device),
            prefix_lens=prefix,
            extend_lens=tuple(lens),
            is_final=tuple(final),
            input_ids=self.ints(1, 1 << 20, sum(lens)),
            next_ids=following,
            sampled_ids=self.ints(1, 1 << 20, len(slots)),
            hidden=random_hidden(sum(lens), self.config, self.g),
            seq_lens=torch.tensor([self.frontier[s] for s in slots], dtype=torch.int32, device=self.config.device),
            page_table=self.tables(slots),
        )
