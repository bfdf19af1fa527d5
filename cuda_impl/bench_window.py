"""``bench round``, its bookkeeping part: our kernel, the same books as tensor operations, and a copy of the same bytes.

Everything in one run, side by side, on one GPU. What a round's bookkeeping is: the window (ids, hiddens, positions,
locations, frontier, column 0), the stash, and the drafts. Our sampler stores a draft where the next depth reads it, so
it costs no kernel; ``ours_copied_us`` adds one copy per depth for samplers that return their token, and the flat ids
that ForwardInputs asks for. The op sequence rolls its ids and writes its drafts, as published drafters do.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch

from frontier_oracle.cuda_impl import kernels
from frontier_oracle.cuda_impl.books import Books
from frontier_oracle.cuda_impl.buffers import Buffers, torch_dtype
from frontier_oracle.cuda_impl.launch import launch
from frontier_oracle.cuda_impl.tensor_books import TensorBooks
from frontier_oracle.cuda_impl.timing import Body, body_us, kernel_count, replay_us
from frontier_oracle.cuda_impl.triton_books import TritonBooks
from frontier_oracle.oracle.contract import DraftConfig
from frontier_oracle.oracle.spec import CacheGroup, Spec

HIDDEN_SIZES, WIDTHS, BATCHES = (1536, 6144), (4, 8), (1, 8, 64, 256)
TUNED = ((1536, 4, 1), (1536, 4, 256), (1536, 8, 256), (6144, 4, 256), (6144, 8, 1), (6144, 8, 256))
CONTEXT, PAGE = 32768, 64
METHOD = (
    "kernel time: 20 bodies in one CUDA graph, 5 replays between two events, median of 15, per body; e2e: one replay "
    "of a one-body graph between two events, device idle before, median of 60; kernels: profiler events of one replay; "
    "floor: the faster of a Triton copy (each row read once, written twice) and two torch copies"
)


def bench_config(hidden_size: int, k: int, batch: int, context: int = CONTEXT) -> DraftConfig:
    """One cache group of 64-token pages over ``context`` positions, one slot per request."""
    spec = Spec(k=k, groups=(CacheGroup(PAGE),))
    cols = spec.groups[0].cols(context, k)
    return DraftConfig(spec, batch + 1, batch, (batch * cols + 1,), (cols,), hidden_size=hidden_size, device="cuda")


def filled(config: DraftConfig, context: int = CONTEXT, seed: int = 0) -> Buffers:
    """Buffers with a full batch of random requests."""
    generator = torch.Generator(config.device).manual_seed(seed)
    b, k = Buffers(config), config.spec.k

    def ints(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=generator, dtype=torch.int32, device=config.device)

    b.req_pool_indices.copy_(torch.randperm(b.rows, generator=generator, device=config.device) + 1)
    b.seq_lens.copy_(ints(k, context - 2 * k, b.rows))
    b.accept_lengths.copy_(ints(1, k + 1, b.rows))
    b.verify_ids.copy_(ints(1, 1 << 15, b.rows, k))
    b.verify_hidden.normal_(generator=generator)
    b.tables.copy_(ints(1, config.num_pages[0], b.tables.numel()))
    return b


def with_draft_copies(books: Books, b: Buffers) -> Body:
    """The window, then per depth the flat ids and the copy of a draft that a sampler returned elsewhere."""
    k, steps, bs = b.config.spec.k, b.config.spec.steps, b.rows
    flat = torch.zeros(bs * k, dtype=torch.int32, device=b.ids.device)
    drafts = torch.zeros(steps, bs, dtype=torch.int32, device=b.ids.device)

    def body() -> None:
        books.decode(b, bs)
        for d in range(steps):
            flat.view(bs, k).copy_(b.ids[:, d : d + k])
            b.ids[:, k + d].copy_(drafts[d])

    return body


def floor_bodies(b: Buffers, stash: torch.Tensor, block: int, num_warps: int) -> list[Body]:
    """Two ways to copy the same bytes. stash [rows, k-1, H]: where each request's rows 1..k-1 go once more."""
    k, h, bs = b.config.spec.k, b.config.hidden_size, b.rows
    programs, padded_k = bs * -(-h // block), 1 << (k - 1).bit_length()
    constants = {"K": k, "KP": padded_k, "H": h, "BLOCK": block, "num_warps": num_warps}

    def fused() -> None:
        launch(kernels.copy_kernel, programs, b.verify_hidden, b.hidden, stash, **constants)

    def two_copies() -> None:
        b.hidden.copy_(b.verify_hidden)
        stash.copy_(b.verify_hidden.view(bs, k, h)[:, 1:])

    return [fused, two_copies]


def bench_point(hidden_size: int, k: int, batch: int) -> dict[str, Any]:
    """One row of the table, microseconds per round."""
    config = bench_config(hidden_size, k, batch)
    b = filled(config)
    ours, ops = TritonBooks(config), TensorBooks(config)

    def window() -> None:
        ours.decode(b, batch)

    copied, sequence = with_draft_copies(ours, b), with_draft_copies(ops, b)
    stash = torch.empty(batch, k - 1, hidden_size, dtype=torch_dtype(config), device=config.device)
    floors = [body_us(body) for body in floor_bodies(b, stash, ours.block, ours.num_warps)]
    return {
        "H": hidden_size,
        "k": k,
        "batch": batch,
        "ours_us": body_us(window),
        "ours_copied_us": body_us(copied),
        "ops_us": body_us(sequence),
        "floor_us": min(floors),
        "ours_e2e_us": replay_us(window),
        "ops_e2e_us": replay_us(sequence),
        "kernels": kernel_count(window),
        "kernels_copied": kernel_count(copied),
        "kernels_ops": kernel_count(sequence),
    }


def bench_window() -> list[dict[str, Any]]:
    """Every point of the table."""
    return [bench_point(h, k, n) for h, k, n in itertools.product(HIDDEN_SIZES, WIDTHS, BATCHES)]


def tune() -> list[dict[str, Any]]:
    """The kernel's block sizes and warps at a few points: what TritonBooks' defaults were chosen by."""
    rows = []
    for (h, k, batch), block, warps in itertools.product(TUNED, (256, 512, 1024, 2048), (2, 4, 8)):
        b = filled(bench_config(h, k, batch))
        books = TritonBooks(b.config, block=block, num_warps=warps)

        def window(books: TritonBooks = books, b: Buffers = b, batch: int = batch) -> None:
            books.decode(b, batch)

        ours = body_us(window, samples=5)
        rows.append({"H": h, "k": k, "batch": batch, "block": block, "warps": warps, "ours_us": ours})
    return rows
