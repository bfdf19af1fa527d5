"""Acceptance by draft position: unconditional, over proposing rounds, conditional and joint (pitfalls 6 and 11)."""

from __future__ import annotations

import numpy as np

from frontier_oracle.reports.analysis.basis import MAX_LENGTH, Basis
from frontier_oracle.reports.analysis.bootstrap import Resampler, interval
from frontier_oracle.reports.canonical import F64, NULL32, Trace
from frontier_oracle.reports.table import Cell, Column, Table, finite, missing

_COLUMNS = [
    Column("draft", "int", "1 is the first draft of a round"),
    Column("accepted", "int", "rounds that accepted at least this many drafts"),
    Column(
        "of all rounds",
        "percent",
        "alpha_i = P(accepted >= i) over all rounds: vLLM's per-position rate, and the joint rate of drafts 1..i",
    ),
    Column("low", "percent"),
    Column("high", "percent"),
    Column("proposed", "int", "rounds that proposed at least this many drafts (null: not told)"),
    Column("of proposing rounds", "percent", "P(accepted >= i | proposed >= i)"),
    Column("conditional", "percent", "P(accepted >= i | accepted >= i - 1)"),
    Column("low of conditional", "percent"),
    Column("high of conditional", "percent"),
    Column("conditional, proposing", "percent", "P(accepted >= i | accepted >= i - 1, proposed >= i)"),
    Column("joint", "percent", "the product of the conditional rates up to i"),
]


def survival(by_group: F64) -> F64:
    """[groups, K+1] rounds with at least i accepted drafts, from rounds with exactly j."""
    return np.cumsum(by_group[:, ::-1], axis=1)[:, ::-1]


def positions_table(trace: Trace, basis: Basis | None, resampler: Resampler) -> Table:
    """One row per draft position. From per-position counters alone, without intervals, if there is nothing better."""
    title = "Acceptance by draft position"
    if basis is None or not basis.rounds:
        return _from_counters(trace, title)
    at_least = survival(basis.by_group)
    totals = at_least.sum(axis=0)
    k = totals.size - 1
    if k < 1 or totals[1] == 0:
        return missing("positions", title, "no draft was ever accepted")
    draws = conditional_draws = None
    if resampler.usable:
        draws = resampler.ratios(at_least[:, 1:], at_least[:, :1])
        conditional_draws = resampler.ratios(at_least[:, 1:], at_least[:, :-1])
    proposed, reached = _proposed(trace, basis, k)
    rows: list[list[Cell]] = []
    joint = 1.0
    for i in range(1, k + 1):
        conditional = totals[i] / totals[i - 1] if totals[i - 1] else float("nan")
        joint *= conditional
        a = interval(draws[:, i - 1]) if draws is not None else (float("nan"),) * 2
        c = interval(conditional_draws[:, i - 1]) if conditional_draws is not None else (float("nan"),) * 2
        n = None if proposed is None else int(proposed[i])
        r = None if reached is None else reached[i]
        rows.append(
            [
                i,
                int(totals[i]),
                finite(totals[i] / totals[0]),
                finite(a[0]),
                finite(a[1]),
                n,
                None if not n else finite(totals[i] / n),
                finite(conditional),
                finite(c[0]),
                finite(c[1]),
                None if not r else finite(totals[i] / r),
                finite(joint),
            ]
        )
    note = f"On {basis.what}."
    if proposed is not None and proposed[k] < proposed[1]:
        note += (
            " Rounds proposed different numbers of drafts: the rate over all rounds counts a draft never proposed as "
            "rejected (pitfall 6)."
        )
    if trace.header.tree:
        note += " Tree drafts: a depth has several candidates, so these are rates per depth, not per draft."
    return Table("positions", title, _COLUMNS, rows, note)


def _proposed(trace: Trace, basis: Basis, k: int) -> tuple[F64 | None, F64 | None]:
    """[k+1] rounds that proposed >= i, and rounds that proposed >= i and accepted >= i - 1; None if not told."""
    drafted = trace.rounds.get("drafted")
    if drafted is None or basis.values is None or int(drafted.min()) == NULL32 or int(drafted.min()) < 0:
        return None, None
    top = min(k, MAX_LENGTH)
    proposed = np.bincount(np.minimum(drafted, top), minlength=top + 1).astype(np.float64)
    reached = np.minimum(np.minimum(drafted, basis.values), top)
    by_reach = np.bincount(np.maximum(reached, 0), minlength=top + 1).astype(np.float64)
    return np.cumsum(proposed[::-1])[::-1], np.cumsum(by_reach[::-1])[::-1]


def _from_counters(trace: Trace, title: str) -> Table:
    units = [u for u, counts in enumerate(trace.per_position or ()) if counts is not None]
    steps = trace.known("verify_steps")
    units = [u for u in units if steps[u] > 0]
    if not units or trace.per_position is None:
        return missing("positions", title, "needs rounds, histograms or per-position counters")
    width = min(max(len(trace.per_position[u] or ()) for u in units), MAX_LENGTH)
    counts = np.zeros(width + 1)
    counts[0] = steps[units].sum()
    for u in units:
        for i, n in enumerate((trace.per_position[u] or ())[:width]):
            counts[i + 1] += n
    rows: list[list[Cell]] = []
    for i in range(1, width + 1):
        rate, before = counts[i] / counts[0], counts[i - 1]
        rows.append(
            [
                i,
                round(counts[i]),
                finite(rate),
                None,
                None,
                None,
                None,
                finite(counts[i] / before) if before else None,
                None,
                None,
                None,
                finite(rate),
            ]
        )
    return Table("positions", title, _COLUMNS, rows, "From the engine's per-position counters over all its rounds.")
