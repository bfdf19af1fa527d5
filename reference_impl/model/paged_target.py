"""The target on paged KV: what verifies drafts and reads prompts."""

from __future__ import annotations

import torch
from torch import Tensor

from frontier_oracle.reference_impl.model.layers import rope
from frontier_oracle.reference_impl.model.paged_attention import PagedKV, view
from frontier_oracle.reference_impl.model.target import Target
from frontier_oracle.reference_impl.model.tiles import equal_rows, ragged_rows


class PagedTarget:
    """``model`` served from one cache group of full history. The model is used as it stands: cast and move it first.

    Rejected rows need no undoing: their cells are overwritten when their positions recur.
    """

    def __init__(self, model: Target, num_pages: int, page_size: int, device: str, dtype: torch.dtype) -> None:
        config = model.config
        self.model, self.page_size = model, page_size
        self.layers = [
            PagedKV(num_pages, page_size, config.kv_heads, config.head_size, dtype, device) for _ in model.layers
        ]

    @torch.no_grad()
    def forward(
        self,
        input_ids: Tensor,
        positions: Tensor,
        out_cache_loc: Tensor,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        page_table: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """n rows of bs requests, each request's rows contiguous; row j of m sees seq_lens - (m-1-j) positions.

        input_ids [n] int32, or [bs, m] where every request has m rows (cheaper, and may be captured in a graph);
        positions [n], out_cache_loc [n]; query_start_loc [bs+1]; seq_lens [bs]; page_table [bs, cols], of which only
        the columns in use need be passed. Rows located on page 0 are padding: garbage comes out.
        Returns hidden [n, H], of which ``Target.logits`` takes the final norm, and logits [n, vocab_size]."""
        if input_ids.ndim == 2:
            rows = equal_rows(input_ids.shape[1], seq_lens)
        else:
            rows = ragged_rows(len(input_ids), query_start_loc, seq_lens)
        sight = view(rows, out_cache_loc, page_table, self.page_size, None)
        x = self.model.embedding(input_ids.flatten())
        angles = rope(positions, self.model.config, x.dtype)
        for layer, cache in zip(self.model.layers, self.layers, strict=True):
            x = layer(x, angles, sight.attend(cache))
        return x, self.model.logits(x)
