"""The ring short-conv against loops: chunks, windows with masked rows, a prefix hit from a checkpoint.

A program for Triton's interpreter or a GPU: ``conv_check.py DEVICE HIDDEN_SIZE W...``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from frontier_oracle.cuda_impl.conv import ShortConv
from frontier_oracle.oracle.contract import DraftConfig
from frontier_oracle.oracle.spec import CacheGroup, Spec

PAGE, K = 4, 3


def make_conv(width: int, device: str, hidden_size: int) -> ShortConv:
    spec = Spec(k=K, conv_width=width, groups=(CacheGroup(PAGE),))
    config = DraftConfig(spec, 4, 2, (40,), (10,), hidden_size=hidden_size, dtype="float32", device=device)
    generator = torch.Generator().manual_seed(width)
    return ShortConv(config, torch.randint(-4, 5, (width, hidden_size), generator=generator).float().to(device))


def expected(conv: ShortConv, history: dict[int, torch.Tensor], positions: list[int]) -> torch.Tensor:
    """Sums of small integers: exact whatever the order."""
    rows = []
    for p in positions:
        row = torch.zeros_like(conv.weight[0])
        for i in range(conv.config.spec.conv_width):
            if p - i >= 0:
                row += conv.weight[i] * history[p - i]
        rows.append(row)
    return torch.stack(rows)


def locs_of(positions: list[int], slot: int) -> list[int]:
    """Page 1 + 10 * (slot - 1) + column."""
    return [(1 + 10 * (slot - 1) + p // PAGE) * PAGE + p % PAGE for p in positions]


def check(width: int, device: str, hidden_size: int) -> None:
    conv, generator = make_conv(width, device, hidden_size), torch.Generator().manual_seed(1)
    history: dict[int, dict[int, torch.Tensor]] = {1: {}, 2: {}}

    def ints(values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=device)

    def rows(n: int) -> torch.Tensor:
        return torch.randint(-9, 10, (n, hidden_size), generator=generator).float().to(device)

    def extend(spans: dict[int, tuple[int, int]]) -> None:
        flat = [(s, p) for s, (start, end) in spans.items() for p in range(start, end)]
        x, order = rows(len(flat)), list(spans)
        for (s, p), row in zip(flat, x, strict=True):
            history[s][p] = row.clone()
        starts = [0]
        for start, end in spans.values():
            starts.append(starts[-1] + end - start)
        locs = [locs_of([p], s)[0] for s, p in flat]
        request = [order.index(s) for s, _ in flat]
        y = conv.extend(x, ints(locs), ints([p for _, p in flat]), ints(request), ints(starts), ints(order))
        want = torch.cat([expected(conv, history[s], [p]) for s, p in flat])
        assert torch.equal(y, want)
        check_state(spans)
        for s, (start, end) in spans.items():
            for p in range(max(start, end - conv.config.spec.ring_rows), end):
                assert torch.equal(conv.ring[s, p % conv.config.spec.ring_rows], history[s][p]), (s, p)

    def window(frontiers: dict[int, int], masked: dict[int, int]) -> None:
        x, locs = rows(len(frontiers) * K), []
        for r, (s, f) in enumerate(frontiers.items()):
            for j, p in enumerate(range(f - K, f)):
                live = j >= masked.get(s, 0) and s
                locs += locs_of([p], s) if live else [0]
                if live:
                    history[s][p] = x[r * K + j].clone()
        y = conv.window(x, ints(locs), ints(list(frontiers.values())), ints(list(frontiers)))
        for r, (s, f) in enumerate(frontiers.items()):
            hidden = masked.get(s, 0) if s else K
            assert not y[r * K : r * K + hidden].any()
            if hidden < K:
                assert torch.equal(
                    y[r * K + hidden : (r + 1) * K], expected(conv, history[s], list(range(f - K + hidden, f)))
                )
        check_state({s: (0, f) for s, f in frontiers.items() if s})

    def check_state(spans: dict[int, tuple[int, int]]) -> None:
        for s, (_, end) in spans.items():
            for p in range(max(0, end - width + 1), end):
                assert torch.equal(conv.ring[s, p % conv.config.spec.ring_rows], history[s][p]), (s, p)
            for last in range(PAGE - 1, end, PAGE):
                for i, p in enumerate(range(last - width + 2, last + 1)):
                    kept = conv.ckpt[locs_of([last], s)[0] // PAGE, i]
                    assert torch.equal(kept, history[s][p] if p >= 0 else torch.zeros_like(kept)), (s, last, p)

    extend({1: (0, 2), 2: (0, 11)})
    extend({2: (11, 12), 1: (2, 3)})
    window({1: 4, 2: 13, 0: 1}, {1: 0})
    window({2: 15, 1: 5}, {2: 1})
    assert not conv.ring[0].any() and not conv.ckpt[0].any()
    # A prefix hit of 8 positions of request 2, taken over by slot 3.
    conv.load_state(3, locs_of([7], 2)[0] // PAGE, 8)
    history[3] = {p: row for p, row in history[2].items() if p < 8}
    x = rows(2)
    history[3] |= {8: x[0].clone(), 9: x[1].clone()}
    y = conv.extend(x, ints(locs_of([8, 9], 3)), ints([8, 9]), ints([0, 0]), ints([0, 2]), ints([3]))
    assert torch.equal(y, expected(conv, history[3], [8, 9]))


if __name__ == "__main__":
    if sys.argv[1] == "cpu":
        sys.path.insert(0, str(Path(__file__).parent))
        import bounds
        import writers

        bounds.install()
        writers.install()
    for width_ in sys.argv[3:]:
        check(int(width_), sys.argv[1], int(sys.argv[2]))
    print("equal")
