"""All analyses of one trace, in the order of the report."""

from __future__ import annotations

from dataclasses import dataclass

from frontier_oracle.reports.analysis.basis import Basis, basis_of
from frontier_oracle.reports.analysis.bootstrap import Resampler
from frontier_oracle.reports.analysis.breakdown import by_column_table, category_table, ends_table
from frontier_oracle.reports.analysis.dependence import dependence_table
from frontier_oracle.reports.analysis.distribution import distribution_table, geometric_table
from frontier_oracle.reports.analysis.effects import truncation_table, warmup_table
from frontier_oracle.reports.analysis.means import Estimate, engine_table, estimate, means_table
from frontier_oracle.reports.analysis.outliers import outliers_table
from frontier_oracle.reports.analysis.pitfalls import pitfalls_table
from frontier_oracle.reports.analysis.positions import positions_table
from frontier_oracle.reports.analysis.speedup import speedup_tables
from frontier_oracle.reports.analysis.whatif import whatif_table
from frontier_oracle.reports.canonical import Trace
from frontier_oracle.reports.table import Table


@dataclass
class Analysis:
    """One trace's results. ``headline`` maps a definition's key to its pooled estimate."""

    trace: Trace
    name: str
    basis: Basis | None
    headline: dict[str, Estimate]
    tables: list[Table]

    def table(self, key: str) -> Table:
        return next(table for table in self.tables if table.key == key)

    def add_what_if(self) -> None:
        """Replay the accept lengths through the designs of the atlas: seconds, so not part of ``analyse``."""
        self.tables.insert(-1, whatif_table(self.trace, self.basis))


HEADLINE = ("al_raw", "al_committed", "al_reported", "rate_drafted", "predicted_over_nondraft")


def analyse(trace: Trace, name: str, *, draft_cost: float | None = None) -> Analysis:
    """Run everything the trace allows; what it does not allow is a table that says why."""
    resampler = Resampler(trace)
    basis = basis_of(trace, resampler)
    tables = [
        means_table(trace, resampler),
        engine_table(trace),
        distribution_table(basis, resampler),
        positions_table(trace, basis, resampler),
        category_table(trace, basis, resampler),
        by_column_table(trace, basis, resampler, "out_pos", "out_pos", "By output position"),
        by_column_table(trace, basis, resampler, "ctx_len", "ctx_len", "By context length"),
        ends_table(trace, basis, resampler),
        dependence_table(trace, basis, resampler),
        geometric_table(trace, basis),
        *speedup_tables(trace, basis, resampler, draft_cost),
        warmup_table(trace, resampler),
        truncation_table(trace),
        outliers_table(trace),
        pitfalls_table(trace, basis),
    ]
    headline = {key: estimate(trace, key, "pooled", resampler) for key in HEADLINE}
    return Analysis(trace, name, basis, headline, tables)
