"""The invariants of the canonical table. Every violation is counted and located; nothing is repaired or dropped."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontier_oracle.reports.canonical import NULL, NULL32, Trace
from frontier_oracle.reports.problems import KEPT_PER_KIND

INVARIANTS = {
    "al_committed < 1": "a verify round commits at least one token",
    "al_raw < 1": "a verify round yields at least the target's own token",
    "al_committed > al_raw": "what is kept cannot exceed what was accepted",
    "al_raw > drafted + 1": "no more drafts can be accepted than were proposed",
    "out_pos decreases": "output position grows from round to round",
    "negative count": "counts of tokens and steps are not negative",
    "accepted > drafted": "a request cannot accept more drafts than it proposed",
    "committed + prefill != completion": "the committed tokens and the prefill token are the completion",
    "rounds != verify_steps": "the rounds listed are the verify steps stated",
    "rounds != accepted_total": "the rounds' accepted drafts are the accepted total stated",
    "rounds != drafted_total": "the rounds' proposed drafts are the drafted total stated",
    "rounds != committed_total": "the rounds' committed tokens are the committed total stated",
    "histogram sum != verify_steps": "each verify step stands in the histogram once",
    "histogram mean != accepted_total": "the histogram weighted by accepted drafts is the accepted total",
}


def check(trace: Trace) -> None:
    """Record every violated invariant of the trace in ``trace.problems``."""
    _check_rounds(trace)
    _check_units(trace)
    _check_histograms(trace)


def _report_rounds(trace: Trace, kind: str, bad: Any) -> None:
    rows = np.flatnonzero(bad)
    if not rows.size:
        return
    units = np.searchsorted(trace.starts, rows[:KEPT_PER_KIND], side="right") - 1
    for row, unit in zip(rows[:KEPT_PER_KIND], units, strict=True):
        n = int(row - trace.starts[unit])
        message = f"request {trace.request_id[unit]!r} round {n}: {INVARIANTS[kind]}"
        trace.problems.add(kind, *trace.place(int(unit)), message)
    if rows.size > KEPT_PER_KIND:
        trace.problems.counts[kind] += rows.size - KEPT_PER_KIND


def _known(*columns: Any) -> Any:
    mask = columns[0] != NULL32
    for column in columns[1:]:
        mask &= column != NULL32
    return mask


def _check_rounds(trace: Trace) -> None:
    raw, committed = trace.rounds.get("al_raw"), trace.rounds.get("al_committed")
    drafted, out_pos = trace.rounds.get("drafted"), trace.rounds.get("out_pos")
    if committed is not None:
        _report_rounds(trace, "al_committed < 1", _known(committed) & (committed < 1))
    if raw is not None:
        _report_rounds(trace, "al_raw < 1", _known(raw) & (raw < 1))
    if raw is not None and committed is not None:
        _report_rounds(trace, "al_committed > al_raw", _known(raw, committed) & (committed > raw))
    if raw is not None and drafted is not None:
        _report_rounds(trace, "al_raw > drafted + 1", _known(raw, drafted) & (raw - 1 > drafted))
    if out_pos is not None:
        bad = np.zeros(out_pos.size, bool)
        bad[1:] = (out_pos[1:] < out_pos[:-1]) & _known(out_pos[1:], out_pos[:-1])
        starts = trace.starts[:-1]
        bad[starts[starts < out_pos.size]] = False
        _report_rounds(trace, "out_pos decreases", bad)


def _report_units(trace: Trace, kind: str, bad: Any, detail: str) -> None:
    rows = np.flatnonzero(bad)
    for unit in rows[:KEPT_PER_KIND]:
        message = f"{trace.kind[unit]} {trace.request_id[unit]!r}{_part(trace, int(unit))}: {detail}"
        trace.problems.add(kind, *trace.place(int(unit)), message)
    if rows.size > KEPT_PER_KIND:
        trace.problems.counts[kind] += rows.size - KEPT_PER_KIND


def _part(trace: Trace, unit: int) -> str:
    """Which turn and choice of its request a unit is, beyond the first: two units of a line are then told apart."""
    parts = [(name, int(trace.ints[name][unit])) for name in ("turn", "choice")]
    return "".join(f" {name} {n}" for name, n in parts if n > 0)


def _check_units(trace: Trace) -> None:
    ints = trace.ints
    for name in ("prompt_tokens", "completion_tokens", "verify_steps", "drafted_total", "accepted_total"):
        column = ints[name]
        _report_units(trace, "negative count", (column != NULL) & (column < 0), f"{name} is negative")
    accepted, drafted = ints["accepted_total"], ints["drafted_total"]
    both = (accepted != NULL) & (drafted != NULL)
    _report_units(trace, "accepted > drafted", both & (accepted > drafted), INVARIANTS["accepted > drafted"])
    committed, completion, requests = ints["committed_total"], ints["completion_tokens"], ints["requests"]
    in_rounds = ints["prefill_in_rounds"]
    known = (committed != NULL) & (completion != NULL) & (requests != NULL) & (in_rounds != NULL)
    prefill = np.where(in_rounds == 1, 0, requests)
    kind = "committed + prefill != completion"
    _report_units(trace, kind, known & (committed + prefill != completion), INVARIANTS[kind])


def check_stated(trace: Trace, name: str, where: Any, totals: Any) -> None:
    """Record units whose stated total ``name`` is not what their rounds give (``totals`` [n], known ``where``)."""
    stated, kind = trace.ints[name], f"rounds != {name}"
    for unit in np.flatnonzero(where & (stated != NULL) & (stated != totals)):
        message = f"request {trace.request_id[unit]!r}: {name} is {stated[unit]}, its rounds give {totals[unit]}"
        trace.problems.add(kind, *trace.place(int(unit)), message)


def _check_histograms(trace: Trace) -> None:
    if trace.histograms is None:
        return
    steps, accepted = trace.ints["verify_steps"], trace.ints["accepted_total"]
    bad_sum = np.zeros(trace.n_units, bool)
    bad_mean = np.zeros(trace.n_units, bool)
    for u, histogram in enumerate(trace.histograms):
        if histogram is not None:
            bad_sum[u] = steps[u] != NULL and sum(histogram) != steps[u]
            bad_mean[u] = accepted[u] != NULL and sum(j * n for j, n in enumerate(histogram)) != accepted[u]
    for kind, bad in (("histogram sum != verify_steps", bad_sum), ("histogram mean != accepted_total", bad_mean)):
        _report_units(trace, kind, bad, INVARIANTS[kind])
