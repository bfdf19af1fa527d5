"""Replay equals eager, bit for bit (S23): two drafters get the same rounds, one of them captured."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from frontier_oracle.cuda_impl.graph import Capture
from frontier_oracle.cuda_impl.system import FrontierDrafter, cuda_eager, make_books
from frontier_oracle.oracle.contract import DraftConfig, DraftModel, ForwardInputs
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


class InPlace:
    """A probe that stores its draft where the next depth reads it (system.InPlaceModel). ``shift`` plants a fault: the
    draft goes that many columns away."""

    def __init__(self, model: DraftModel, shift: int = 0) -> None:
        self._shift, self._forward = shift, model.forward
        self.forward, self.load_conv_state = model.forward, model.load_conv_state

    def forward_into(self, inputs: ForwardInputs, draft: torch.Tensor) -> torch.Tensor:
        outputs, sampled = self._forward(replace(inputs, input_ids=inputs.input_ids.reshape(-1)))
        column = draft.as_strided(draft.shape, draft.stride(), draft.storage_offset() + self._shift)
        column.copy_(sampled)
        return outputs


def in_place(capture: Callable[[], Capture] | None, shift: int = 0) -> Factory:
    """The factory of systems whose model samples in place; ``capture`` as FrontierDrafter's."""

    def make(config: DraftConfig, model: DraftModel) -> FrontierDrafter:
        return FrontierDrafter(config, InPlace(model, shift), make_books(config), capture)

    return make


def buckets_of(max_batch: int) -> list[int]:
    """The powers of two below, and the largest batch."""
    return sorted({min(1 << n, max_batch) for n in range(max_batch.bit_length() + 1)})


def sizes(max_batch: int, seed: int = 0) -> list[tuple[int, int]]:
    """(live rows, rows given) of every bucket with every amount of padding, in an order that grows and shrinks.

    A batch of its own bucket is given bare, so that ``fill`` pads it; a smaller one brings the padded rows that lead to
    the bucket.
    """
    buckets = buckets_of(max_batch)
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
