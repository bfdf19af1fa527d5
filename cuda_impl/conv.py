"""A short causal depthwise convolution with its state: a ring per slot and a checkpoint per page (S18)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from frontier_oracle.cuda_impl import conv_kernels
from frontier_oracle.cuda_impl.buffers import torch_dtype
from frontier_oracle.cuda_impl.launch import launch
from frontier_oracle.oracle.contract import DraftConfig


class ShortConv:
    """One depth's convolution. weight [W, H], weight[i] on x[p - i]; ring [slots, R, H]; ckpt [pages, W-1, H]: the last
    W-1 rows of each page that was filled. Pages are those of cache group 0."""

    def __init__(self, config: DraftConfig, weight: Tensor, block: int = 256) -> None:
        spec, h = config.spec, config.hidden_size
        self.config, self.weight = config, weight
        options: dict[str, Any] = {"dtype": torch_dtype(config), "device": config.device}
        self.ring = torch.zeros(config.num_slots, spec.ring_rows, h, **options)
        self.ckpt = torch.zeros(config.num_pages[0], max(spec.taps, 1), h, **options)
        self._block = min(block, 1 << (h - 1).bit_length())
        self._chunks = -(-h // self._block)
        self._ring: dict[str, Any] = {
            "R": spec.ring_rows, "PAGE": spec.groups[0].page_size, "H": h, "BLOCK": self._block
        }  # fmt: skip

    def window(self, x: Tensor, locs: Tensor, seq_lens: Tensor, slots: Tensor) -> Tensor:
        """y [bs*k, H] of a decode window x [bs*k, H] that ends at seq_lens [bs]; one kernel, may be captured."""
        y = torch.empty_like(x)
        launch(
            conv_kernels.conv_window_kernel,
            seq_lens.shape[0] * self._chunks,
            *(x, locs, seq_lens, slots, self.weight, self.ring, self.ckpt, y),
            K=x.shape[0] // seq_lens.shape[0],
            W=self.config.spec.conv_width,
            **self._ring,
        )
        return y

    def extend(
        self, x: Tensor, locs: Tensor, positions: Tensor, row_request: Tensor, query_start_loc: Tensor, slots: Tensor
    ) -> Tensor:
        """y [rows, H] of ragged rows x; row_request [rows], query_start_loc [bs+1]. Two kernels."""
        y, programs = torch.empty_like(x), x.shape[0] * self._chunks
        where = (locs, positions, row_request, query_start_loc, slots)
        launch(
            conv_kernels.conv_extend_kernel,
            programs,
            *(x, *where, self.weight, self.ring, self.ckpt, y),
            W=self.config.spec.conv_width,
            **self._ring,
        )
        launch(conv_kernels.conv_ring_kernel, programs, *(x, *where, self.ring, x.shape[0]), **self._ring)
        return y

    def load_state(self, slot: int, page: int, length: int) -> None:
        """DraftModel.load_conv_state: ring rows length-(W-1)..length-1 from the checkpoint of ``page``."""
        for i, position in enumerate(range(length - self.config.spec.taps, length)):
            if position >= 0:
                self.ring[slot, position % self.config.spec.ring_rows].copy_(self.ckpt[page, i])
