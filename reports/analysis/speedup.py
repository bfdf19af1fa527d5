"""The speed-up model: tokens per round over the cost of a round, for each number of drafts up to the one measured."""

from __future__ import annotations

import numpy as np

from frontier_oracle.reports.analysis.basis import Basis
from frontier_oracle.reports.analysis.bootstrap import Resampler, interval
from frontier_oracle.reports.analysis.positions import survival
from frontier_oracle.reports.canonical import F64, Trace
from frontier_oracle.reports.table import Cell, Column, Table, finite, missing

COSTS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Costs of one draft step, as a part of a target step, that are shown if the user names none."""


def speedups(tokens: F64, cost: float) -> F64:
    """tokens [..., K+1] expected per round with 0..K drafts; divided by the cost 1 + cost * k of such a round."""
    return np.asarray(tokens / (1 + cost * np.arange(tokens.shape[-1])))


def tokens_per_round(at_least: F64) -> F64:
    """[..., K+1]: 1 + sum of P(accepted >= i) for i <= k, from rounds with at least i accepted drafts."""
    share = at_least / at_least[..., :1]
    return np.asarray(np.cumsum(share, axis=-1))


def speedup_tables(trace: Trace, basis: Basis | None, resampler: Resampler, cost: float | None) -> list[Table]:
    """(curve over k at the user's cost, recommended k per cost). No claim is made beyond the drafts measured."""
    titles = ("Speed-up model over the number of drafts", "Recommended number of drafts")
    if basis is None or not basis.rounds or basis.by_group.shape[1] < 2:
        reason = "needs rounds or histograms in which a draft was accepted"
        return [missing("speedup", titles[0], reason), missing("recommended", titles[1], reason)]
    at_least = survival(basis.by_group)
    tokens = tokens_per_round(at_least.sum(axis=0))
    k = tokens.size - 1
    draws = None
    if resampler.usable:
        draws = np.concatenate(
            (
                np.ones((resampler.weights.shape[0], 1)),
                1 + np.cumsum(resampler.ratios(at_least[:, 1:], at_least[:, :1]), axis=1),
            ),
            axis=1,
        )
    shown = COSTS if cost is None else tuple(sorted({cost, *COSTS}))
    curve = _curve(titles[0], tokens, draws, cost if cost is not None else 0.05, cost is None)
    rows: list[list[Cell]] = []
    for c in shown:
        best = int(np.argmax(speedups(tokens, c)))
        low_k = high_k = low = high = None
        if draws is not None:
            curves = speedups(draws, c)
            picks = np.argmax(curves, axis=1)
            low_k, high_k = (int(v) for v in np.quantile(picks, (0.025, 0.975), method="nearest"))
            low, high = (finite(v) for v in interval(curves[:, best]))
        rows.append(
            [
                c,
                best,
                low_k,
                high_k,
                finite(speedups(tokens, c)[best]),
                low,
                high,
                "yes" if c == cost else "",
                "at the largest measured k: more may pay" if best == k else "",
            ]
        )
    columns = [
        Column("cost of a draft step", "fine", "in target steps"),
        Column("recommended drafts", "int"),
        Column("low k", "int", "95 % interval of the best k over bootstrap draws"),
        Column("high k", "int"),
        Column("speed-up", "number"),
        Column("low", "number"),
        Column("high", "number"),
        Column("yours"),
        Column("note"),
    ]
    note = (
        f"Speed-up over plain decoding = tokens per round / (1 + cost x drafts); a verify step is taken to cost one "
        f"target step whatever its width, and drafting stops at k drafts, up to the {k} measured. On {basis.what}."
    )
    if trace.header.tree:
        note += " Tree drafts: k is a depth, and the cost of a deeper tree is not that of a chain."
    return [curve, Table("recommended", titles[1], columns, rows, note)]


def _curve(title: str, tokens: F64, draws: F64 | None, cost: float, assumed: bool) -> Table:
    values = speedups(tokens, cost)
    rows: list[list[Cell]] = []
    for k, (count, value) in enumerate(zip(tokens, values, strict=True)):
        low, high = interval(speedups(draws, cost)[:, k]) if draws is not None else (float("nan"),) * 2
        rows.append([k, finite(count), finite(value), finite(low), finite(high), finite(1 + cost * k)])
    columns = [
        Column("drafts", "int"),
        Column("tokens per round", "number"),
        Column("speed-up", "number"),
        Column("low", "number"),
        Column("high", "number"),
        Column("cost of a round", "number"),
    ]
    who = "assumed for want of yours" if assumed else "yours"
    return Table("speedup", title, columns, rows, f"At a draft step costing {cost:g} target steps ({who}).")
