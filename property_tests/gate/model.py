"""What the bundled model shows on real text: exact designs draft as a recomputation does, a wrong book costs accept
length, and no design changes the output (S3, S25)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from frontier_oracle import oracle
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.property_tests.gate.results import CheckResult, FindingReport, ModelResult, MutantResult, reported
from frontier_oracle.property_tests.simulate.drafters import TARGET, resolve
from frontier_oracle.property_tests.simulate.lossless import compare_outputs, relaxed
from frontier_oracle.property_tests.simulate.prompts import Prompt, cut
from frontier_oracle.property_tests.simulate.requests import Options
from frontier_oracle.property_tests.simulate.run import DesignRun, Simulation, simulate
from frontier_oracle.reference_impl.model.weights import Model, load

EXACT = ("frontier", "tokenspeed_lookback")
STALE = "tokenspeed_unrepaired"
FAULT = "accepts_the_second_best"
PROMPT_TOKENS = 64


def serve_text(prompts: int, max_tokens: int, weights: Path | None = None) -> ModelResult:
    """Generate on the package's own sources, which no training set holds. weights: default the bundled ones. Raises
    WeightsError where they are missing: without a model this part proves nothing."""
    return judge_served(load(weights, "float64"), source_prompts(prompts), Options(max_tokens=max_tokens))


def source_prompts(count: int) -> list[Prompt]:
    """Pieces of the oracle's source files, as they are installed, at even distances."""
    folder = Path(str(oracle.__file__)).parent
    return cut(sorted(folder.glob("*.py")), list, PROMPT_TOKENS, limit=count)


def judge_served(model: Model, prompts: Sequence[Prompt], options: Options) -> ModelResult:
    """Serve under the exact designs and the one that keeps stale entries, then with a planted fault."""
    done = simulate(model, [resolve(name) for name in (TARGET, *EXACT, STALE)], prompts, options)
    checks = [_check(done, run) for run in done.runs if run.name != TARGET]
    planted = simulate(model, [resolve(EXACT[0])], prompts, options, relaxed)
    return ModelResult(tuple(checks), _fault(done, planted), _opening(done))


def _check(done: Simulation, run: DesignRun) -> CheckResult:
    findings = [reported(finding) for finding in done.findings[run.name][:1]]
    equal, rounds = run.equal_rounds or 0, run.verify_rounds
    if run.name in EXACT and equal < rounds:
        findings.append(_drafts_differ(run, equal))
    if run.name == STALE and equal == rounds:
        because = "a design that keeps stale entries drafted as a recomputation does in every round: nothing was tested"
        findings.append(reported(Finding("FO201", -1, "", detail={"because": because})))
    note = f"accept length {run.accept_length:.3f}, drafts as recomputed in {equal:,} of {rounds:,} verify rounds"
    return CheckResult(
        f"serve {run.name}", "model", len(done.prompts), rounds, tuple(findings), run.seconds, notes=(note,)
    )


def _drafts_differ(run: DesignRun, equal: int) -> FindingReport:
    request, round_, v = next(
        (r, n, v) for r in run.requests for n, v in enumerate(r.rounds) if v.drafts != v.ideal
    )  # fmt: skip
    depth = next(d for d, (a, b) in enumerate(zip(v.drafts, v.ideal, strict=True)) if a != b)
    detail = {
        "expected": v.ideal[depth],
        "got": v.drafts[depth],
        "because": f"{run.verify_rounds - equal} of {run.verify_rounds} rounds were not drafted as from scratch (S3)",
    }
    return reported(Finding("FO201", round_, request.prompt.name, depth, v.frontier - 1, detail))


def _fault(done: Simulation, planted: Simulation) -> MutantResult:
    found = compare_outputs(done.run(TARGET).requests, planted.runs[0].requests)
    got = found[0].code if found else ""
    return MutantResult(FAULT, EXACT[0], "FO501", got, rounds=planted.runs[0].verify_rounds)


def _opening(done: Simulation) -> str:
    """One sentence: accept lengths, and what the stale entries cost."""
    best, stale = done.run(EXACT[0]), done.run(STALE)
    told = ", ".join(f"{run.name} {run.accept_length:.3f}" for run in done.runs if run.name != TARGET)
    change = stale.accept_length / best.accept_length - 1
    same = "every output is the target's own" if not any(done.findings.values()) else "OUTPUTS DIFFER"
    return (
        f"On a real model ({len(done.prompts)} prompts of this package's source, {best.tokens:,} tokens, greedy, "
        f"{done.options.dtype}, k={done.options.k}): accept length {told}; stale entries change it "
        f"by {change:+.1%}; {same}."
    )
