"""The canonical table: what every reader produces and every analysis consumes.

A ``Trace`` is one source in one format: a header, a table of units (requests, or log windows, iterations, lifetimes
where the source knows no requests) and a table of verify rounds, which may be empty. What the source does not tell
is null and stays null. Integers are held in numpy arrays with a null value (``NULL`` in the unit table, ``NULL32`` in
the round table); a round column that is null throughout is absent. Arrow and Parquet see real nulls (tables.py).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.reports.problems import ProblemLog

SCHEMA_VERSION = 1
NULL = int(np.iinfo(np.int64).min)
NULL32 = int(np.iinfo(np.int32).min)

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
F64 = NDArray[np.float64]

UNIT_KINDS = ("request", "window", "iteration", "lifetime", "aggregate")

ROUND_COLUMNS = (
    "drafted",
    "al_raw",
    "al_committed",
    "out_pos",
    "ctx_len",
    "cap",
    "truncated",
    "is_warmup",
    "batch_size",
)
"""int32 columns of the round table. accepted_drafts is al_raw - 1 and is written out, not held twice."""

UNIT_INTS = (
    "turn",
    "choice",
    "prompt_tokens",
    "completion_tokens",
    "verify_steps",
    "accepted_total",
    "drafted_total",
    "committed_total",
    "requests",
    "longest_round",
    "prefill_in_rounds",
    "is_warmup",
    "line",
    "file",
)


@dataclass
class Header:
    """What a source says about itself; null where it does not.

    order_known: rounds (ordered), histogram, totals, or mean (a published mean and nothing under it).
    truncation: raw, committed, both or unknown. reported_mean and reported_rate name the definition (definitions.py)
    that the engine's own per-unit numbers follow.
    """

    source_format: str
    source_engine: str | None = None
    source_version: str | None = None
    source_file: str = ""
    source_file_sha256: str | None = None
    method: str | None = None
    model: str | None = None
    k_verify_width: int | None = None
    k_draft: int | None = None
    tree: bool | None = None
    bonus_included: bool | None = None
    order_known: str = "totals"
    truncation: str = "unknown"
    counterfactual: bool | None = None
    synthetic_acceptance: str = "unknown"
    lossy: bool | None = None
    aggregation_of_source_mean: str = "unknown"
    license: str | None = None
    notes: list[str] = field(default_factory=list)
    reported_mean: str | None = None
    reported_rate: str | None = None
    schema_version: int = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class EngineNumber:
    """A number the source states about the whole of itself, and the definition it follows (None: not comparable)."""

    name: str
    value: float
    definition: str | None
    where: str


@dataclass
class Trace:
    """``ints[c]`` [n] int64, ``reported_mean`` and ``reported_rate`` [n] float64 (NaN null), ``starts`` [n+1] int64.

    Rounds of unit u are rows starts[u]:starts[u+1] of every column in ``rounds``, in the order they happened.
    ``histograms[u][j]`` counts rounds with j accepted drafts; ``per_position[u][i]`` counts rounds that accepted
    draft i (0-based). ``category`` [n] int32 indexes ``categories`` (NULL32: none).
    """

    header: Header
    request_id: list[str]
    kind: list[str]
    ints: dict[str, I64]
    reported_mean: F64
    reported_rate: F64
    category: I32
    categories: list[str]
    finish_reason: list[str | None] | None
    histograms: list[list[int] | None] | None
    per_position: list[list[float] | None] | None
    starts: I64
    rounds: dict[str, I32]
    engine_numbers: list[EngineNumber]
    problems: ProblemLog
    files: list[str]
    clusters: I64 | None = None

    @property
    def n_units(self) -> int:
        return len(self.request_id)

    @property
    def n_rounds(self) -> int:
        return int(self.starts[-1])

    def place(self, unit: int) -> tuple[str, int | None]:
        """(file, line) of a unit."""
        file, line = int(self.ints["file"][unit]), int(self.ints["line"][unit])
        return self.files[0 if file == NULL else file], None if line == NULL else line

    def known(self, column: str) -> F64:
        """A unit column as float64 with NaN for null: [n]."""
        values = self.ints[column]
        return np.where(values == NULL, np.nan, values.astype(np.float64))

    def unit_of_round(self) -> I32:
        """[n_rounds] int32: the unit each round belongs to."""
        return np.repeat(np.arange(self.n_units, dtype=np.int32), np.diff(self.starts))

    def cluster_ids(self) -> I64:
        """[n] int64: units of one conversation (same request id, other turn or choice) are one bootstrap cluster."""
        if self.clusters is None:
            seen: dict[str, int] = {}
            self.clusters = np.fromiter(
                (seen.setdefault(name, len(seen)) for name in self.request_id), dtype=np.int64, count=self.n_units
            )
        return self.clusters


def complete(column: I32 | None) -> bool:
    """True if a round column is present and has no null."""
    return column is not None and column.size > 0 and int(column.min()) != NULL32
