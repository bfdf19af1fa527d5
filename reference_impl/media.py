"""Media ids in the shift-1 buffer (S16): content hashes, which no head can look up, become the modality's own id."""

from __future__ import annotations

from torch import Tensor

from frontier_oracle.oracle.contract import MediaIds
from frontier_oracle.oracle.errors import MediaSubstituteMissing


def check_substitutes(media: MediaIds | None) -> None:
    """Raise MediaSubstituteMissing, at start-up, unless every modality has a substitute inside the vocabulary."""
    if media is None:
        return
    if not media.substitutes:
        raise MediaSubstituteMissing(
            "media without substitutes: expected (first hash, end, in-vocabulary id) a modality"
        )
    for first, end, substitute in media.substitutes:
        if not 0 <= substitute < media.vocab_size:
            raise MediaSubstituteMissing(
                f"media ids {first}..{end - 1}: substitute {substitute} is outside the vocabulary of {media.vocab_size}"
            )


def substitute_(ids: Tensor, media: MediaIds | None) -> Tensor:
    """Replace content hashes in ``ids`` (int32, any shape) in place; -1 and in-vocabulary ids stay. Returns ``ids``."""
    for first, end, substitute in media.substitutes if media is not None else ():
        ids.masked_fill_((ids >= first) & (ids <= end - 1), substitute)
    return ids
