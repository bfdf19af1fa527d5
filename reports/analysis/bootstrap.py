"""Bootstrap over requests. Rounds of a request depend on each other (pitfall 10), so whole requests are drawn."""

from __future__ import annotations

import numpy as np

from frontier_oracle.reports.canonical import F64, I64, Trace

DRAWS = 2000
MAX_GROUPS = 2000
MIN_CLUSTERS = 5
SEED = 20260101


class Resampler:
    """Multinomial weights over clusters: ``weights`` [DRAWS, groups] float64, ``group`` [n units] int64.

    Clusters are conversations: every turn and choice of a request id. Above MAX_GROUPS clusters they are dealt at
    random into MAX_GROUPS groups of equal size, which are drawn instead: the same variance at a bounded cost.
    """

    def __init__(self, trace: Trace, *, seed: int = SEED) -> None:
        clusters = trace.cluster_ids()
        count = int(clusters.max()) + 1 if clusters.size else 0
        rng = np.random.default_rng(seed)
        self.clusters = count
        if count > MAX_GROUPS:
            dealt = rng.permutation(np.arange(count, dtype=np.int64) % MAX_GROUPS)
            self.group: I64 = dealt[clusters]
            count = MAX_GROUPS
        else:
            self.group = clusters
        self.groups = count
        self.weights: F64 = (
            rng.multinomial(count, np.full(count, 1 / count), size=DRAWS).astype(np.float64)
            if count >= MIN_CLUSTERS
            else np.empty((0, 0))
        )

    @property
    def usable(self) -> bool:
        return self.groups >= MIN_CLUSTERS

    def by_group(self, values: F64) -> F64:
        """Sums of unit values [n] (NaN counts as nothing) per group: [groups]."""
        sums = np.bincount(self.group, np.nan_to_num(values, nan=0.0), minlength=self.groups)
        return sums.astype(np.float64)

    def ratios(self, top: F64, bottom: F64) -> F64:
        """Drawn ratios of sums: top, bottom [groups] or [groups, m] give [DRAWS] or [DRAWS, m]. NaN where undefined."""
        below = self.weights @ bottom
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(below > 0, (self.weights @ top) / below, np.nan)


def interval(draws: F64, level: float = 0.95) -> tuple[float, float]:
    """Percentile interval of drawn values [DRAWS]; NaN if fewer than nine in ten draws are defined."""
    good = draws[np.isfinite(draws)]
    if good.size < 0.9 * max(draws.size, 1) or not good.size:
        return float("nan"), float("nan")
    low, high = np.quantile(good, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
