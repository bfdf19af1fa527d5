"""Every number's definition: what is divided by what, who uses it, and which pitfalls it falls into or avoids.

A definition gives two terms per unit; pooled it is the ratio of their sums, per request the mean of their ratios.
Both are reported, since they differ and change sign in comparisons (pitfall 4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from frontier_oracle.reports.builder import sums_by_unit
from frontier_oracle.reports.canonical import F64, I32, I64, NULL32, Trace

Terms = tuple[F64, F64]


@dataclass(frozen=True)
class Definition:
    """``terms(trace)`` are numerator and denominator per unit, [n] float64 each, NaN where the source does not tell.

    ``needs`` names what is missing when it cannot be computed. ``formula`` is that of one request; ``pooled`` that of
    their sums and ``in_rounds`` that of requests whose prefill token is part of a round, where these read differently.
    """

    key: str
    name: str
    formula: str
    text: str
    needs: str
    terms: Callable[[Trace], Terms]
    is_rate: bool = False
    used_by: str = ""
    pitfalls: tuple[int, ...] = ()
    pooled: str = ""
    in_rounds: str = ""

    def computed(self, prefill_in_rounds: I64, aggregation: str) -> str:
        """The formula as computed over units with these flags [n] (1: the prefill token is in a round)."""
        apart = int(np.count_nonzero(prefill_in_rounds != 1))
        if self.in_rounds and not apart:
            text = f"{self.in_rounds} (the prefill token is in a round)"
        elif aggregation == "pooled":
            text = self.pooled or self.formula
            if self.in_rounds and apart < prefill_in_rounds.size:
                text += f" (requests: the {apart} whose prefill token is in no round)"
        else:
            text = self.formula
        return text if aggregation == "pooled" else f"mean over requests of {text}"


def _count(trace: Trace, column: str) -> F64:
    """A unit count, NaN where null or negative (a negative count is recorded as a violation, not computed with)."""
    values = trace.known(column)
    return np.where(values < 0, np.nan, values)


def _steps(trace: Trace) -> F64:
    steps = _count(trace, "verify_steps")
    return np.where(steps == 0, np.nan, steps)


def _raw(trace: Trace) -> Terms:
    steps = _steps(trace)
    return _count(trace, "accepted_total") + steps, steps


def _committed(trace: Trace) -> Terms:
    return _count(trace, "committed_total"), _steps(trace)


def listed(trace: Trace) -> I32 | None:
    """Lengths as the source lists them, [n_rounds]: the raw one where it is known, else the committed one."""
    raw, committed = trace.rounds.get("al_raw"), trace.rounds.get("al_committed")
    if raw is None or committed is None:
        return committed if raw is None else raw
    return np.where(raw == NULL32, committed, raw)


def _reported(trace: Trace) -> Terms:
    values = listed(trace)
    if values is None:
        nothing = np.full(trace.n_units, np.nan)
        return nothing, nothing
    sums, nulls = sums_by_unit(values, trace.starts)
    n = np.diff(trace.starts) - nulls
    known = n > 0
    return np.where(known, sums, np.nan).astype(np.float64), np.where(known, n, np.nan).astype(np.float64)


def _over(numerator: str, *, less: int = 0, plus_steps: int = 0) -> Callable[[Trace], Terms]:
    def terms(trace: Trace) -> Terms:
        # a prefill token that is part of the first round is neither to be taken out nor an iteration of its own
        apart = np.where(trace.ints["prefill_in_rounds"] == 1, 0.0, _count(trace, "requests"))
        top = _count(trace, numerator) - (apart * less if less else 0)
        steps = _steps(trace) + (apart * plus_steps if plus_steps else 0)
        return top, np.where(steps > 0, steps, np.nan)

    return terms


def _predicted_over_nondraft(trace: Trace) -> Terms:
    predicted = _count(trace, "completion_tokens")
    rest = predicted - _count(trace, "accepted_total")
    return predicted, np.where(rest > 0, rest, np.nan)


def _rate_drafted(trace: Trace) -> Terms:
    drafted = _count(trace, "drafted_total")
    return _count(trace, "accepted_total"), np.where(drafted > 0, drafted, np.nan)


def _rate_configured(trace: Trace) -> Terms:
    k = trace.header.k_draft
    slots = _steps(trace) * (k if k else np.nan)
    return _count(trace, "accepted_total"), slots


def _rate_width(trace: Trace) -> Terms:
    k = trace.header.k_verify_width
    steps = _steps(trace)
    return _count(trace, "committed_total") - steps, steps * (k if k else np.nan)


def _index_naive(trace: Trace) -> Terms:
    top, steps = _count(trace, "completion_tokens"), _steps(trace) - 1
    if trace.header.source_format != "eagle-answers":
        steps = np.full(trace.n_units, np.nan)
    return top, np.where(steps > 0, steps, np.nan)


_ALL = (
    Definition(
        "al_raw",
        "Accept length, raw, bonus included",
        "(accepted drafts + rounds) / rounds",
        "Drafts accepted per verify round plus the target's own token, before any cut at the end of the sequence. What "
        "the drafter achieves. Tokens past the end of sequence or the token limit are counted.",
        "accepted drafts and rounds",
        _raw,
        used_by="vLLM, SGLang's log and server info, TokenSpeed's batch log, TensorRT-LLM, llama.cpp's log",
        pitfalls=(1, 2),
    ),
    Definition(
        "al_committed",
        "Accept length, committed, bonus included",
        "tokens committed by rounds / rounds",
        "Tokens that verify rounds added to the output, after the cut at the end of sequence, limit or grammar, the "
        "prefill token apart. What the user receives per round.",
        "committed tokens and rounds, and whether the prefill token is among them",
        _committed,
        used_by="Spec-Bench (EAGLE, PLD), EAGLE answers",
        pitfalls=(2, 3, 15),
    ),
    Definition(
        "al_reported",
        "Accept length as listed",
        "sum of the listed lengths / listed rounds",
        "The mean of the lengths exactly as the source lists them, raw or committed or a mixture.",
        "a list of lengths",
        _reported,
        used_by="Spec-Bench scripts, DFlash, DDTree",
        pitfalls=(2, 18),
    ),
    Definition(
        "accepted_per_round",
        "Accepted drafts per round, bonus excluded",
        "accepted drafts / rounds",
        "The raw accept length less one. Counters and histograms of every engine exclude the bonus token; early vLLM "
        "V1 logged this as the acceptance length.",
        "accepted drafts and rounds",
        lambda t: (_count(t, "accepted_total"), _steps(t)),
        used_by="vLLM before PR 17908, engine counters",
        pitfalls=(1,),
    ),
    Definition(
        "completion_over_verify",
        "Completion over verify steps",
        "completion tokens / rounds",
        "Output tokens, the prefill token included and cut at the end, over verify rounds. Where the prefill token is "
        "in no round this is above the committed mean by requests / rounds, and depends on how long the answers are.",
        "completion tokens and rounds",
        _over("completion_tokens"),
        used_by="SGLang meta_info, SpecForge",
        pitfalls=(2, 3),
    ),
    Definition(
        "completion_less_prefill",
        "Completion without prefill over verify steps",
        "(completion tokens - 1) / rounds",
        "The prefill token is taken out, the cut at the end stays: equal to the committed mean when the prefill token "
        "is in no round.",
        "completion tokens and rounds",
        _over("completion_tokens", less=1),
        used_by="TokenSpeed acc_len",
        pitfalls=(3, 17),
        pooled="(completion tokens - requests) / rounds",
        in_rounds="completion tokens / rounds",
    ),
    Definition(
        "completion_over_iterations",
        "Completion over iterations, prefill counted",
        "completion tokens / (rounds + 1)",
        "The prefill iteration counts as a step of one token, so that short answers pull the mean towards one.",
        "completion tokens and rounds",
        _over("completion_tokens", plus_steps=1),
        used_by="TensorRT-LLM bench and avg_decoded_tokens_per_iter, specdec_bench",
        pitfalls=(3, 14),
        pooled="completion tokens / (rounds + requests)",
        in_rounds="completion tokens / rounds",
    ),
    Definition(
        "predicted_over_nondraft",
        "Predicted over tokens that were no draft",
        "predicted / (predicted - accepted drafts)",
        "llama.cpp tells no verify steps; predicted - accepted is rounds + 1 per request if nothing was cut. Off when "
        "accepted drafts lie past the end of sequence.",
        "predicted and accepted tokens",
        _predicted_over_nondraft,
        used_by="llama.cpp timings",
        pitfalls=(2, 3),
    ),
    Definition(
        "al_index_naive",
        "Completion over last index",
        "new tokens / (rounds - 1)",
        "What results from taking EAGLE's 0-based last index for the number of steps: too high by one round a turn.",
        "a 0-based last index and new tokens",
        _index_naive,
        used_by="scripts over EAGLE answers",
        pitfalls=(8,),
        pooled="new tokens / (rounds - turns)",
    ),
    Definition(
        "rate_drafted",
        "Acceptance rate over proposed drafts",
        "accepted drafts / proposed drafts",
        "The share of the drafts really proposed that were accepted.",
        "accepted and proposed drafts",
        _rate_drafted,
        is_rate=True,
        used_by="vLLM, SGLang, TensorRT-LLM, llama.cpp",
        pitfalls=(6, 15),
    ),
    Definition(
        "rate_configured",
        "Acceptance rate over configured drafts",
        "accepted drafts / (rounds x configured drafts)",
        "Divides by what could have been proposed: rounds that proposed fewer drafts count as rejections.",
        "accepted drafts, rounds and the configured number of drafts",
        _rate_configured,
        is_rate=True,
        used_by="SGLang's log, TokenSpeed's batch log, TensorRT-LLM bench (an upper bound of the drafts)",
        pitfalls=(6,),
    ),
    Definition(
        "rate_verify_width",
        "Accepted per verify row",
        "(committed tokens - rounds) / (rounds x verify width)",
        "Divides by the verify width k, of which only k - 1 rows are drafts: never above (k - 1) / k.",
        "committed tokens, rounds and the verify width",
        _rate_width,
        is_rate=True,
        used_by="TokenSpeed acc_rate",
        pitfalls=(6,),
    ),
)


DEFINITIONS = {definition.key: definition for definition in _ALL}

_PRINTED = {False: 0.0051, True: 0.00051}


def resolve(name: str) -> tuple[Definition, str, float]:
    """(definition, aggregation, tolerance) of an engine's number: ``key``, ``key:requests`` or ``key_printed``.

    A printed number was rounded: two decimals of a length, three of a rate.
    """
    key, _, aggregation = name.partition(":")
    printed = key.endswith("_printed")
    definition = DEFINITIONS[key.removesuffix("_printed")]
    return definition, aggregation or "pooled", _PRINTED[definition.is_rate] if printed else 1e-6
