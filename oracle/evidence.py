"""What a round leaves behind for the judge: the calls, what was returned, and the state as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle.calls import CallLog
from frontier_oracle.oracle.engine_requests import Round

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@dataclass(frozen=True)
class StashImage:
    """A system's stash in numpy (contract.StashView): tokens [slots, k-1], hidden digests [slots, k-1], valid [slots]
    or None where the design assumes that all k-1 hold."""

    tokens: I32
    hidden: I64
    valid: NDArray[np.integer] | None


@dataclass(frozen=True)
class Evidence:
    """One round's evidence. kv[d] [cells of d's group], ring [steps, slots, R], ckpt [steps, pages of group 0, W-1]:
    copies taken after the round. returned [bs, steps+1] int32; stash None where the system shows none;
    contract_errors: dtype and shape violations, in words (FO401); host_read: the operation that read a tensor on the
    host inside ``decode`` (FO302), "" if none; moved: likewise which buffers of a captured round moved (FO303); rows:
    the batch row of each live request in the calls, () where they stand in order, idle rows left out. ``returned`` has
    the live rows only."""

    calls: Sequence[CallLog]
    returned: I32
    kv: Sequence[I64]
    ring: I64
    ckpt: I64
    stash: StashImage | None = None
    contract_errors: Sequence[str] = ()
    host_read: str = ""
    moved: str = ""
    rows: Sequence[int] = ()

    def rows_of(self, step: Round) -> Sequence[int]:
        """The batch row of each of the round's views in the calls."""
        return self.rows or range(len(step.views))
