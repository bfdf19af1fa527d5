"""The kernels that neither books nor convolution launch, against plain loops: head input, argmax, the benchmark's copy.

A program for Triton's interpreter or a GPU: ``small_kernels_check.py DEVICE``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from frontier_oracle.cuda_impl import head_kernels
from frontier_oracle.cuda_impl.bench_window import floor_bodies
from frontier_oracle.cuda_impl.buffers import Buffers
from frontier_oracle.cuda_impl.launch import launch

sys.path.insert(0, str(Path(__file__).parent))
from slow_loops import random_hidden, rounds_config  # noqa: E402


def check_head_input(device: str, bs: int = 2, m: int = 3, h: int = 24, vocabulary: int = 11) -> None:
    """Ids through a strided view; each half of a row has the norm of its own."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, vocabulary, (bs, m + 2), generator=generator, dtype=torch.int32).to(device)[:, 1 : m + 1]
    embedding, hidden = (torch.randn(n, h, generator=generator).to(device) for n in (vocabulary, bs * m))
    out = torch.full((bs * m, 2 * h), 99.0, device=device)
    launch(head_kernels.head_input_kernel, bs * m, ids, ids.stride(0), embedding, hidden, out, M=m, H=h, BLOCK=32)
    for n, token in enumerate(ids.flatten().tolist()):
        for row, got in ((embedding[token], out[n, :h]), (hidden[n], out[n, h:])):
            scale = (float(row.double().square().mean()) + 1e-6) ** -0.5
            torch.testing.assert_close(got, row * scale)


def check_argmax(device: str, bs: int = 5, vocabulary: int = 70) -> None:
    """Few different logits: nearly every maximum is tied, within a block and across blocks."""
    generator = torch.Generator().manual_seed(2)
    logits = torch.randint(-3, 3, (bs, vocabulary), generator=generator).float().to(device)
    logits[0], logits[1, -1] = -1.0, 9.0
    ids = torch.full((bs, 4), -7, dtype=torch.int32, device=device)
    launch(head_kernels.argmax_kernel, bs, logits, ids[:, 2], ids.stride(0), V=vocabulary, BLOCK=32)
    assert ids[:, 2].tolist() == [row.index(max(row)) for row in logits.tolist()]
    assert (ids[:, [0, 1, 3]] == -7).all()


def check_copies(device: str) -> None:
    """Both floors of the benchmark: every row, and rows 1..k-1 once more."""
    config = rounds_config(5, hidden_size=40, device=device)
    buffers, k, h = Buffers(config), config.spec.k, config.hidden_size
    buffers.verify_hidden.copy_(random_hidden(buffers.rows * k, config, torch.Generator().manual_seed(3)))
    stash = torch.empty(buffers.rows, k - 1, h, dtype=buffers.hidden.dtype, device=device)
    for body in floor_bodies(buffers, stash, block=32, num_warps=1):
        buffers.hidden.zero_()
        stash.zero_()
        body()
        assert torch.equal(buffers.hidden, buffers.verify_hidden)
        assert torch.equal(stash, buffers.verify_hidden.view(buffers.rows, k, h)[:, 1:])


def check(device: str) -> None:
    """All of them."""
    check_head_input(device)
    check_argmax(device)
    check_copies(device)


if __name__ == "__main__":
    if sys.argv[1] == "cpu":
        import bounds
        import writers

        bounds.install()
        writers.install()
    check(sys.argv[1])
    print("equal")
