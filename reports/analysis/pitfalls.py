"""The eighteen ways to misread accept lengths, and what each of them does in the input at hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from frontier_oracle.reports.analysis.basis import Basis
from frontier_oracle.reports.analysis.dependence import autocorrelation
from frontier_oracle.reports.analysis.means import estimate
from frontier_oracle.reports.canonical import NULL, NULL32, Trace
from frontier_oracle.reports.table import Cell, Column, Table

Check = Callable[[Trace, Basis | None], str]


def _value(trace: Trace, key: str, aggregation: str = "pooled") -> float | None:
    return estimate(trace, key, aggregation).value


def _bonus(trace: Trace, basis: Basis | None) -> str:
    raw, less = _value(trace, "al_raw"), _value(trace, "accepted_per_round")
    if raw is None or less is None:
        return "only lengths that include the bonus are told" if trace.header.bonus_included else "not told"
    return f"{raw:.3f} with the bonus, {less:.3f} without"


def _cut(trace: Trace, basis: Basis | None) -> str:
    raw, committed = _value(trace, "al_raw"), _value(trace, "al_committed")
    if raw is not None and committed is not None:
        return f"both known: raw {raw:.3f}, committed {committed:.3f}"
    return f"one of the two is known (truncation: {trace.header.truncation})"


def _prefill(trace: Trace, basis: Basis | None) -> str:
    flags = trace.ints["prefill_in_rounds"]
    known = flags[flags != NULL]
    if not known.size:
        return "not told whether the prefill token is in the rounds"
    with_, without = _value(trace, "completion_over_verify"), _value(trace, "completion_less_prefill")
    where = (
        "in the rounds"
        if known.all()
        else "apart from the rounds"
        if not known.any()
        else "in the rounds of some requests"
    )
    numbers = "" if with_ is None else f"; completion / rounds {with_:.3f}"
    if without is not None and not known.all():
        numbers += f", without it {without:.3f}"
    return f"the prefill token is {where}{numbers}"


def _ratios(trace: Trace, basis: Basis | None) -> str:
    for key in ("al_raw", "al_committed", "predicted_over_nondraft"):
        pooled, mean = _value(trace, key), _value(trace, key, "requests")
        if pooled is not None and mean is not None:
            return f"pooled {pooled:.3f}, mean of requests {mean:.3f} ({mean - pooled:+.3f})"
    return "no mean over requests can be formed"


def _lifetime(trace: Trace, basis: Basis | None) -> str:
    notes = [note for note in trace.header.notes if "since" in note or "reset" in note or "warm-up" in note]
    if notes:
        return notes[0]
    flags = trace.ints["is_warmup"]
    flagged = int(np.count_nonzero((flags != NULL) & (flags == 1)))
    return (
        f"{flagged} requests flagged as warm-up: see Warm-up" if flagged else "nothing flagged as warm-up: see Warm-up"
    )


def _denominators(trace: Trace, basis: Basis | None) -> str:
    drafted, configured = _value(trace, "rate_drafted"), _value(trace, "rate_configured")
    if drafted is None:
        return "proposed drafts are not told: no rate over them"
    if configured is None:
        return f"{drafted:.3f} over proposed drafts; the configured number is not told"
    same = abs(drafted - configured) < 5e-4
    return f"{drafted:.3f} over proposed, {configured:.3f} over configured drafts" + (": the same here" if same else "")


def _partial(trace: Trace, basis: Basis | None) -> str:
    if trace.header.source_engine != "llama.cpp":
        return "not llama.cpp"
    return "possible: builds that cannot roll back count a partial accept as none, then replay it as full (PR 25682)"


def _off_by_one(trace: Trace, basis: Basis | None) -> str:
    naive, right = _value(trace, "al_index_naive"), _value(trace, "al_committed")
    if naive is None or right is None:
        return "no 0-based step index here"
    return f"last index + 1 steps are used: {right:.3f}; the index itself would give {naive:.3f}"


def _flat(trace: Trace, basis: Basis | None) -> str:
    uncut = trace.problems.counts.get("turns cannot be cut", 0)
    if uncut:
        return f"{uncut} requests could not be cut into turns: positions and first or last rounds are unknown for them"
    turns = int(trace.ints["turn"].max(initial=-1)) + 1
    return f"lists are cut into up to {turns} turns" if turns > 1 else "one turn per request, or not told"


def _dependent(trace: Trace, basis: Basis | None) -> str:
    if basis is None or basis.values is None or int(basis.values.min()) == NULL32:
        return "the order of rounds is not (fully) known; requests are drawn, not rounds"
    overall, within, _ = autocorrelation(basis.values, trace.unit_of_round(), 1)
    return f"lag-1 correlation {overall:.2f} ({within:.2f} within requests); requests are drawn, not rounds"


def _conditional(trace: Trace, basis: Basis | None) -> str:
    tree = {True: "tree drafts: per-depth rates", False: "chains", None: "chain or tree is not told"}[trace.header.tree]
    return f"both kinds of rate are shown and named; {tree}"


def _synthetic(trace: Trace, basis: Basis | None) -> str:
    return {"yes": "SYNTHETIC acceptance: these are no measurements", "no": "stated not to be synthetic"}.get(
        trace.header.synthetic_acceptance, "not told; the engines' test knobs leave no mark in this format"
    )


def _lossy(trace: Trace, basis: Basis | None) -> str:
    if trace.header.lossy is None:
        names = f"{trace.header.model} {trace.header.method} {trace.header.source_file}".lower()
        hints = [word for word in ("medusa", "typical", "lenien", "cascade") if word in names]
        return f"not told; named after {', '.join(hints)}: lossy at a temperature above 0" if hints else "not told"
    return (
        "LOSSY: rounds are longer than the target alone would allow" if trace.header.lossy else "stated to be lossless"
    )


def _chunks(trace: Trace, basis: Basis | None) -> str:
    if trace.header.source_format == "specdec-bench":
        return "lengths ARE chunk sizes: coalesced chunks would look like long rounds"
    return "lengths are the engine's, not chunk sizes"


def _grammar(trace: Trace, basis: Basis | None) -> str:
    engine = trace.header.source_engine
    if engine == "vllm":
        return "vLLM takes drafts that a grammar forbids out of the drafted count"
    if engine == "sglang":
        return "SGLang's histogram keeps raw counts where a grammar cut the tokens"
    return "no rule known for this source"


def _prompts(trace: Trace, basis: Basis | None) -> str:
    return f"{len(trace.categories)} categories told: see By category" if trace.categories else "prompts are not told"


def _names(trace: Trace, basis: Basis | None) -> str:
    traps = {
        "vllm-metrics": "_created twins are not read as counters",
        "vllm-bench": "the rate is a percentage, positions are fractions",
        "specforge-bench": "one document despite .jsonl",
        "tokenspeed-meta-info": "accept_draft_tokens is a mean",
        "aiperf-record": "histogram keys are accepted drafts, whatever the engine",
    }
    return traps.get(trace.header.source_format, "none known for this format")


def _broken(trace: Trace, basis: Basis | None) -> str:
    total = trace.problems.total()
    return f"{total} defects in {len(trace.problems.counts)} kinds: see Problems" if total else "no defect found"


PITFALLS: tuple[tuple[str, str, Check], ...] = (
    (
        "Bonus in or out",
        "Counters exclude the target's own token, means include it; early logs and some scripts do not.",
        _bonus,
    ),
    (
        "Cut at the end",
        "Tokens accepted past the end of sequence or limit count in raw means and are never delivered.",
        _cut,
    ),
    (
        "Prefill token",
        "Completion tokens include the token that prefill sampled, which no verify round produced.",
        _prefill,
    ),
    ("Mean of ratios", "The mean of requests' means is not the pooled mean, and comparisons can change sign.", _ratios),
    (
        "Warm-up, lifetime",
        "Counters since the server's start contain warm-up and earlier runs; a restart resets them.",
        _lifetime,
    ),
    ("Denominators", "Rates divide by proposed, by configured drafts or by the verify width.", _denominators),
    ("Rollback", "Targets that cannot roll back count partial accepts as none.", _partial),
    ("Off by one", "EAGLE-family answers give the 0-based index of the last step.", _off_by_one),
    ("Flat lists", "Lists run over turns and choices and must be cut before positions mean anything.", _flat),
    ("Dependence", "Rounds of a request are correlated, so an interval over rounds is too narrow.", _dependent),
    (
        "Conditional or not",
        "P(accept i) and P(accept i | i-1 accepted) differ, and averages depend on k.",
        _conditional,
    ),
    ("Synthetic", "Benchmarks can force acceptance lengths.", _synthetic),
    ("Lossy", "Typical acceptance, lenience and cascades lengthen rounds by changing the output.", _lossy),
    ("Chunks", "A streamed chunk is not a round when chunks coalesce.", _chunks),
    ("Grammar", "Constrained decoding cuts drafts, and engines count that differently.", _grammar),
    ("Prompts", "Format and kind of prompts move the mean more than most drafters do.", _prompts),
    ("Names", "Some names say something else than they seem to.", _names),
    (
        "Broken files",
        "Truncated lines, repeated ids, negative counts and empty lists occur in published data.",
        _broken,
    ),
)


def pitfalls_table(trace: Trace, basis: Basis | None) -> Table:
    """One row per pitfall: what it is, and what it does here."""
    rows: list[list[Cell]] = [
        [n, name, text, check(trace, basis)] for n, (name, text, check) in enumerate(PITFALLS, start=1)
    ]
    columns = [Column("no.", "int"), Column("pitfall"), Column("what it is"), Column("in this input")]
    return Table("pitfalls", "Pitfalls", columns, rows)
