"""Media ids of EXTEND chunks (S16): content hashes become their modality's id before any depth or stash reads them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DraftConfig, ExtendBatch
from frontier_oracle.oracle.errors import MediaSubstituteMissing


class MediaTable:
    """The modalities' hash ranges and ids on the device; nothing for a text-only target.

    Raises MediaSubstituteMissing for media without a modality, or with an id outside the vocabulary.
    """

    def __init__(self, config: DraftConfig) -> None:
        media = config.media
        self._ranges: Tensor | None = None
        if media is None:
            return
        outside = [row for row in media.substitutes if row[2] not in range(media.vocab_size)]
        if outside or not media.substitutes:
            what = f"media id {outside[0][2]} is outside" if outside else "media ids without a modality's id in"
            raise MediaSubstituteMissing(f"{what} the vocabulary of {media.vocab_size} (S16)")
        # int64: a range may end at 2^31.
        self._ranges = torch.tensor(media.substitutes, device=config.device).t().contiguous()

    def replaced(self, batch: ExtendBatch) -> ExtendBatch:
        """The batch with copies of its ids in which no hash is left; in-vocabulary ids and -1 stay as they are."""
        if self._ranges is None:
            return batch
        return replace(batch, input_ids=self._looked_up(batch.input_ids), next_ids=self._looked_up(batch.next_ids))

    def _looked_up(self, ids: Tensor) -> Tensor:
        """One comparison with every modality's range; an id falls into one of them or into none."""
        assert self._ranges is not None
        first, end, substitute = self._ranges
        inside = (ids[..., None] >= first) & (ids[..., None] < end)
        return torch.where(inside.any(-1), (inside * substitute).sum(-1).int(), ids)
