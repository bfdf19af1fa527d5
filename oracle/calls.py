"""What one call of the draft model was given and gave back, as plain numpy: the evidence the judge works on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class CallLog:
    """One ``DraftModel.forward``: n rows of bs requests (contract.ForwardInputs), hidden and output as digests.

    hidden_digest, output_digest [n] int64; masked [n] bool: rows that stored nothing; tokens [bs] int32: what was
    sampled. The other fields are those of ForwardInputs.
    """

    depth: int
    input_ids: Ints
    positions: Ints
    hidden_digest: I64
    out_cache_loc: tuple[Ints, ...]
    query_start_loc: Ints
    seq_lens: Ints
    page_table: tuple[Ints, ...]
    conv_slots: Ints
    sample_rows: Ints
    masked: NDArray[np.bool_]
    output_digest: I64
    tokens: Ints

    def rows_of(self, request_row: int) -> range:
        """The call's rows that belong to batch row ``request_row``."""
        return range(int(self.query_start_loc[request_row]), int(self.query_start_loc[request_row + 1]))

    def extents(self, request_row: int) -> I64:
        """[m] attention extent of each of the request's rows: seq_lens minus the request's later rows."""
        m = len(self.rows_of(request_row))
        return int(self.seq_lens[request_row]) - np.arange(m - 1, -1, -1, dtype=np.int64)
