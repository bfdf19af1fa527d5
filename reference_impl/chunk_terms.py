"""The index terms of an EXTEND round that follow from its layout alone (S12..S14)."""

from __future__ import annotations

from torch import Tensor

from frontier_oracle.oracle.contract import ExtendBatch
from frontier_oracle.reference_impl.extend import ChunkLayout


class ChunkTerms:
    """Each term a method, to read and to be replaced by a planted fault. steps: draft depths."""

    steps: int

    def extend_rerun_lens(self, batch: ExtendBatch) -> list[int]:
        """Rows P-steps..s-1 in front of a final chunk shorter than steps: they needed the sampled token (S13)."""
        chunks = zip(batch.prefix_lens, batch.extend_lens, batch.is_final, strict=True)
        return [min(max(self.steps - n, 0), s) if final else 0 for s, n, final in chunks]

    def extend_positions(self, layout: ChunkLayout) -> Tensor:
        """Each row's own position. [N] int32."""
        return layout.positions

    def extend_depth_ids(self, buffer: Tensor, layout: ChunkLayout, depth: int) -> Tensor:
        """Depth d's ids: the tokens d entries further than depth 0's (S12). [N] int32."""
        return buffer[layout.row_at + depth]

    def extend_seq_lens(self, batch: ExtendBatch) -> Tensor:
        """Extent after the chunk: s+n. [bs] int32."""
        return batch.seq_lens

    def extend_sample_rows(self, layout: ChunkLayout) -> Tensor:
        """Each request's last row. [bs] int32."""
        return layout.query_start_loc[1:] - 1

    def extend_stash(self, tokens: Tensor, hidden: Tensor, layout: ChunkLayout) -> tuple[Tensor, Tensor]:
        """The tail of (stash before ‖ this chunk), positions C-k+1..C-1 (S14): [bs, k-1] and [bs, k-1, H]."""
        return tokens[layout.tail_source], hidden[layout.tail_source]
