"""Random EXTEND and DECODE rounds of a Books implementation against the loops. Also run as a program, in Triton's
interpreter (TRITON_INTERPRET must be set before triton is imported) or on a GPU:
``books_check.py ROUNDS DEVICE K,STEPS,HIDDEN_SIZE...``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from frontier_oracle.cuda_impl.books import Books
from frontier_oracle.cuda_impl.buffers import Buffers
from frontier_oracle.cuda_impl.extend_plan import plan_extend
from frontier_oracle.oracle.contract import DecodeBatch, DraftConfig

sys.path.insert(0, str(Path(__file__).parent))
from slow_loops import Feeder, SlowBooks, rounds_config  # noqa: E402


class RedZones:
    """Moves an object's tensors between poisoned margins: a kernel that reads past an end gets poison, which no result
    may hold, and one that writes there is caught by ``check``: on a GPU too, where bounds.py cannot look."""

    MARGIN = 1024

    def __init__(self, owner: object) -> None:
        self.arenas: dict[str, tuple[torch.Tensor, int]] = {}
        tensors = {n: t for n, t in vars(owner).items() if isinstance(t, torch.Tensor) and t.dtype is not torch.bool}
        for name, tensor in tensors.items():
            poison = 99_999 if tensor.dtype in (torch.int32, torch.int64) else 99_999.0
            size = tensor.numel()
            arena = torch.full((size + 2 * self.MARGIN,), poison, dtype=tensor.dtype, device=tensor.device)
            arena[self.MARGIN : self.MARGIN + size].copy_(tensor.reshape(-1))
            setattr(owner, name, arena[self.MARGIN : self.MARGIN + size].view(tensor.shape))
            self.arenas[name] = arena, size

    def check(self) -> None:
        for name, (arena, size) in self.arenas.items():
            margins = torch.cat([arena[: self.MARGIN], arena[self.MARGIN + size :]])
            assert (margins == margins[0]).all() and float(margins[0]) > 90_000, f"{name}: written past an end"


def check_decode(books: Books, slow: SlowBooks, buffers: Buffers, batch: DecodeBatch) -> None:
    """One decode round: ids, positions, hiddens, locations, frontier, column 0 and the stash after it."""
    bs, k = batch.seq_lens.shape[0], buffers.config.spec.k
    bucket = buffers.fill(batch)
    books.before_decode(buffers, bucket)
    books.decode(buffers, bucket)
    window = buffers.window(bucket)
    got = {name: getattr(window, name).tolist() for name in ("ids", "positions", "hidden", "frontier")}
    locs = [loc.tolist() for loc in window.locs]
    zero = {"id": 0, "position": 0, "hidden": [0.0] * buffers.config.hidden_size, "locs": [0] * len(locs)}
    expected = slow.decode(batch) + [[zero] * k] * (bucket - bs)
    for r, rows in enumerate(expected):
        for j, row in enumerate(rows):
            n = r * k + j
            assert got["ids"][r][j] == row["id"], (r, j)
            assert got["positions"][n] == row["position"], (r, j)
            assert got["hidden"][n] == row["hidden"], (r, j)
            assert [loc[n] for loc in locs] == row["locs"], (r, j)
        live = r < bs and int(batch.req_pool_indices[r])
        assert got["frontier"][r] == (int(batch.seq_lens[r] + batch.accept_lengths[r]) if live else 1)
        if live:
            assert got["ids"][r][k - 1] == int(batch.verify_ids[r, batch.accept_lengths[r] - 1])


def check_extend(books: Books, slow: SlowBooks, feeder: Feeder, config: DraftConfig, **shape: list) -> None:
    """One EXTEND round: every depth's ids, positions, hiddens and locations."""
    batch = feeder.extend(**shape)
    drafts = feeder.ints(1, 1 << 20, len(batch.extend_lens), config.spec.steps)
    plan = plan_extend(batch, config)
    rows = books.extend_rows(batch, plan)
    ids = [books.extend_ids(batch, plan, d, drafts).tolist() for d in range(config.spec.steps)]
    books.extend_stash(batch, plan)
    flat = [row for request in slow.extend(batch, drafts.tolist()) for row in request]
    assert len(flat) == plan.rows
    assert rows.positions.tolist() == [row["position"] for row in flat]
    assert rows.hidden.tolist() == [row["hidden"] for row in flat]
    for g, loc in enumerate(rows.locs):
        assert loc.tolist() == [row["locs"][g] for row in flat]
    for d in range(config.spec.steps):
        assert ids[d] == [row["ids"][d] for row in flat], d


def check_stash(books: Books, slow: SlowBooks, feeder: Feeder) -> None:
    """Valid entries equal the loops' and their count is theirs."""
    view, k = books.stash(), feeder.config.spec.k
    for slot, rows in slow.stash.items():
        frontier = feeder.frontier[slot]
        assert int(view.valid_lens[slot]) == len(rows), slot
        for p, (token, hidden) in rows.items():
            i = p - frontier + k - 1
            assert int(view.tokens[slot, i]) == token and view.hidden[slot, i].tolist() == hidden


def reload(books: Books, slots: list[int]) -> None:
    """Load what some stashes hold, beside others that are not loaded: nothing may change."""
    before, at = books.stash(), torch.tensor(slots, device=books.stash().tokens.device)
    books.load_stash(at, before.tokens[at], before.hidden[at], before.valid_lens[at])
    for a, b in zip(vars(before).values(), vars(books.stash()).values(), strict=True):
        assert torch.equal(a, b)


def run(make_books, k: int, steps: int, rounds: int, device: str = "cpu", hidden_size: int = 8, seed: int = 0) -> None:
    """A life of five slots: chunked prompts of every shortness, decodes with padding, release and reuse, a hit."""
    config = rounds_config(k, steps, hidden_size, device)
    books, slow, feeder, buffers = make_books(config), SlowBooks(config), Feeder(config, seed), Buffers(config)
    zones = RedZones(books), RedZones(buffers)
    for i in range(rounds):
        first = 1 + i % 5
        slots = [first, 1 + (i + 1) % 5, 1 + (i + 2) % 5]
        for s in slots:  # taken over by another request, some behind a prefix hit (only those need a reset)
            feeder.frontier[s] = 8 * ((i + s) % 2)
            slow.stash[s] = {}
            if feeder.frontier[s]:
                books.reset(s)
        if i % 2:  # one token behind a hit: the window reaches rows that the stash does not hold
            check_extend(books, slow, feeder, config, slots=slots, lens=[1] * 3, final=[True] * 3, left=[0] * 3)
            reload(books, slots[:2])
            for _ in range(2):
                check_decode(books, slow, buffers, feeder.decode(slots))
                check_stash(books, slow, feeder)
            reload(books, slots[2:])
            books.reset(slots[2])
            slow.stash[slots[2]] = {}
            continue
        n = [1 + (i + s) % (k + 2) for s in slots]
        check_extend(
            books, slow, feeder, config, slots=slots, lens=n, final=[False] * 3, left=[1, 2, config.spec.steps]
        )
        check_extend(
            books, slow, feeder, config, slots=slots[::-1], lens=[1, 1 + i % k, k], final=[True] * 3, left=[0] * 3
        )
        check_stash(books, slow, feeder)
        for padded in (1, 0):
            check_decode(books, slow, buffers, feeder.decode(slots, padded))
            check_stash(books, slow, feeder)
        check_decode(books, slow, buffers, feeder.decode(slots[:1]))
    view = books.stash()
    moved = make_books(config)
    everything = torch.arange(1, config.num_slots, device=device)
    moved.load_stash(everything, view.tokens[1:], view.hidden[1:], view.valid_lens[1:])
    batch = feeder.decode([1, 2, 3])
    check_decode(moved, slow, buffers, batch)
    check_stash(moved, slow, feeder)
    for zone in zones:
        zone.check()


if __name__ == "__main__":
    from frontier_oracle.cuda_impl.triton_books import TritonBooks

    if sys.argv[2] == "cpu":
        import bounds
        import writers

        bounds.install()
        writers.install()
    for shape in sys.argv[3:]:
        k_, steps_, hidden_size_ = (int(value) for value in shape.split(","))
        run(TritonBooks, k_, steps_, int(sys.argv[1]), device=sys.argv[2], hidden_size=hidden_size_)
    print("equal")
