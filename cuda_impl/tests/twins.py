"""Replay equals eager, bit for bit (S23): two drafters get the same rounds, one of them captured."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from frontier_oracle.cuda_impl.system import FrontierDrafter, cuda_eager
from frontier_oracle.oracle.contract import DraftConfig, DraftModel
from frontier_oracle.property_tests.probe import DigestProbe

sys.path.insert(0, str(Path(__file__).parent))
from slow_loops import Feeder  # noqa: E402

Factory = Callable[[DraftConfig, DraftModel], FrontierDrafter]


def books_of(drafter: FrontierDrafter, bucket: int) -> list[torch.Tensor]:
    """Everything a round leaves behind: the window's books, the drafts, the stash."""
    window, view = drafter.buffers.window(bucket), drafter.stash()
    assert view.valid_lens is not None
    return [
        window.ids,
        window.positions,
        window.hidden,
        *window.locs,
        window.frontier,
        view.tokens,
        view.hidden,
        view.valid_lens,
    ]


def state_of(probe: DigestProbe) -> list[torch.Tensor]:
    """Every cell of a probe."""
    return [*probe.kv, probe.ring, probe.ckpt]


def sizes(max_batch: int, seed: int = 0) -> list[tuple[int, int]]:
    """(live rows, rows given) of every bucket with every amount of padding, in an order that grows and shrinks.

    A batch of its own bucket is given bare, so that ``fill`` pads it; a smaller one brings the padded rows that lead to
    the bucket.
    """
    buckets = sorted({min(1 << n, max_batch) for n in range(max_batch.bit_length() + 1)})
    below = [0, *buckets]
    cases = [
        (live, live if live > low else low + 1 + live % (bucket - low))
        for low, bucket in zip(below, buckets, strict=False)
        for live in range(1, bucket + 1)
    ]
    random.Random(seed).shuffle(cases)
    # The fullest first: every later padded tail stands where a request stood.
    return sorted(cases, key=lambda case: case[0] != max_batch)


def check_twins(config: DraftConfig, captured: Factory, seed: int = 0) -> int:
    """Batches of all ``sizes``. Returns the request-rounds compared."""
    probes = DigestProbe(config), DigestProbe(config)
    eager, replayed = cuda_eager(config, probes[0]), captured(config, probes[1])
    feeder, checked = Feeder(config, seed), 0
    everyone = list(range(1, config.max_batch + 1))
    batch = feeder.extend(everyone, [1 + s % 5 for s in everyone], [True] * len(everyone), [0] * len(everyone))
    assert torch.equal(eager.extend(batch), replayed.extend(batch))
    for i, (bs, rows) in enumerate(sizes(config.max_batch, seed)):
        slots = everyone[i % config.max_batch :] + everyone[: i % config.max_batch]
        decode = feeder.decode(slots[:bs], padded=rows - bs)
        first, second = eager.decode(decode), replayed.decode(decode)
        assert torch.equal(first, second), f"round {i}: drafts differ"
        bucket = eager.buffers.bucket(decode.seq_lens.shape[0])
        for a, b in zip(books_of(eager, bucket), books_of(replayed, bucket), strict=True):
            assert torch.equal(a, b), f"round {i}: books differ"
        for a, b in zip(state_of(probes[0]), state_of(probes[1]), strict=True):
            assert torch.equal(a, b), f"round {i}: cells differ"
        checked += bs
    return checked
