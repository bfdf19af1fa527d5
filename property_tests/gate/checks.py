"""The checks of the gate, each one task: given a system, work and a seed, it returns a result and what it saw."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.play import play
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.scenario import Admit, Decode, Resume, Scenario
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.timeline import Timeline
from frontier_oracle.property_tests.bulk import BulkResult, run_bulk
from frontier_oracle.property_tests.bulk_random import run_random
from frontier_oracle.property_tests.drawing import SERVING, Limits, random_scenario
from frontier_oracle.property_tests.driver import TorchDrafter
from frontier_oracle.property_tests.exhaustive import all_accepts, run_exhaustive
from frontier_oracle.property_tests.gate.judged import Judged, describe, judge, report_failure
from frontier_oracle.property_tests.gate.known import KNOWN
from frontier_oracle.property_tests.gate.replays import replay_differs
from frontier_oracle.property_tests.gate.results import CheckResult, FindingReport, reported
from frontier_oracle.property_tests.gate.system import SystemUnderTest
from frontier_oracle.property_tests.registry import EAGER, load_system
from frontier_oracle.property_tests.shield import device_of, on_device
from frontier_oracle.reports.traces import clip

MAX_REPORTS = 3
# What a bulk run says of a request that fails only there, and the rule it stands for.
BATCH_CODES = {
    "nobody's cell": "FO204",
    "returned": "FO401",
    "column 0": "FO106",
    "stash": "FO206",
    "conv ring": "FO207",
    "checkpoint": "FO208",
    "KV": "FO201",
    "draft": "FO201",
}
GUARD_EVERY = 8


@dataclass
class Tally:
    """A check being counted."""

    cases: int = 0
    request_rounds: int = 0
    findings: list[FindingReport] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    codes: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def take(self, system: SystemUnderTest, scenario: Scenario, judged: Judged, guard: bool = False) -> None:
        """Count one judged scenario. One report per code, a declared deviation once as an example."""
        self.cases += 1
        self.request_rounds += judged.outcome.request_rounds
        for finding, deviation in judged.declared:
            if deviation not in self.seen:
                self.seen.add(deviation)
                self.findings.append(describe(system, scenario, finding, declared=True))
        if judged.undeclared and judged.undeclared[0].code not in self.codes and len(self.codes) < MAX_REPORTS:
            self.codes.add(judged.undeclared[0].code)
            self.findings.append(report_failure(system, scenario, judged, guard))

    def result(self, id_: str, kind: str) -> tuple[CheckResult, frozenset[str]]:
        seconds = time.perf_counter() - self.started
        findings, notes = tuple(self.findings), tuple(self.notes)
        check = CheckResult(id_, kind, self.cases, self.request_rounds, findings, seconds, notes=notes)
        return check, frozenset(self.seen)


Checked = tuple[CheckResult, frozenset[str]]


def known(system: SystemUnderTest) -> Checked:
    """The fixed scenarios, with host reads watched."""
    tally = Tally()
    for text in KNOWN.values():
        scenario = parse(text)
        if supported(system, scenario):
            tally.take(system, scenario, judge(system, scenario, guard=True), guard=True)
    if tally.cases < len(KNOWN):
        tally.notes.append(f"{len(KNOWN) - tally.cases} scenarios need what the system does not claim to support")
    return tally.result("known", "known")


def random(system: SystemUnderTest, seed: int, first: int, count: int) -> Checked:
    """Scenarios first..first+count-1 of a seed's stream: every other one with all that a serving engine does."""
    tally = Tally()
    plain = Limits(hits="adopt" in system.capabilities, padding="padding" in system.capabilities)
    serving = replace(plain, events=drawn_events(system))
    for index in range(first, first + count):
        scenario = random_scenario(seed, index, serving if index % 2 else plain)
        guard = index % GUARD_EVERY == 0
        tally.take(system, scenario, judge(system, scenario, guard), guard)
    return tally.result("random", "random")


def drawn_events(system: SystemUnderTest) -> frozenset[str]:
    """The serving events to draw for a system. A context limit is not for designs with rows past the frontier, which
    need more spare positions than S22 has."""
    media = {"media"} if "media" in system.capabilities else set()
    return SERVING | media | (set() if system.deviates else {"context"})


def supported(system: SystemUnderTest, scenario: Scenario) -> bool:
    """Whether a system claims what a scenario asks for."""
    for event in scenario.events:
        if isinstance(event, Admit | Resume) and event.like is not None and "adopt" not in system.capabilities:
            return False
        if isinstance(event, Admit) and event.media and "media" not in system.capabilities:
            return False
        masked = isinstance(event, Decode) and (event.bucket is not None or len(event.live) < len(event.rows))
        if masked and "padding" not in system.capabilities:
            return False
    return True


def exhaustive(system: SystemUnderTest, k: int, rounds: int) -> Checked:
    """Every accept sequence of ``rounds`` rounds at one k, after a prompt of 16."""
    tally, spec = Tally(), Spec(k)
    result = run_exhaustive(system.factory, spec, rounds)
    accepts = all_accepts(spec.max_accept, rounds)
    tally.cases = len(accepts)
    _take_bulk(tally, system, result, lambda request: one_request(spec, 16, accepts[request].tolist()))
    return tally.result(f"exhaustive k={k} R={rounds}", "exhaustive")


def bulk(system: SystemUnderTest, seed: int, request_rounds: int) -> Checked:
    """Random batches, a system with deviations inside its clean domain (one-shot prompts of at least k tokens)."""
    tally = Tally()
    result = run_random(system.factory, request_rounds, seed, one_shot=system.deviates)
    tally.cases, tally.request_rounds = result.cases, result.request_rounds
    for failure in result.failures[:MAX_REPORTS]:
        _take_text(tally, system, failure.text, failure.what)
    return tally.result("bulk", "bulk")


def traces(system: SystemUnderTest, sequences: Sequence[Sequence[int]], k: int, block: int, most: int) -> Checked:
    """Real accept sequences, clipped to k, each driven in blocks of ``block`` rounds after a prompt of 16. Of more than
    ``most`` rounds only every n-th sequence is driven."""
    tally, spec = Tally(), Spec(k)
    stride = max(1, math.ceil(sum(map(len, sequences)) / most))
    if stride > 1:
        tally.notes.append(f"every {stride}th of {len(sequences)} sequences at k={k}")
    clipped, total, by_length = 0, 0, dict[int, list[list[int]]]()
    for lengths in sequences[::stride]:
        cut, n = clip(lengths, spec.max_accept)
        clipped, total = clipped + n, total + len(cut)
        for start in range(0, len(cut), block):
            part = list(cut[start : start + block])
            by_length.setdefault(len(part), []).append(part)
    tally.notes.append(f"{clipped} of {total} rounds clipped to k={k}")
    for parts in by_length.values():
        result = run_bulk(system.factory, spec, np.array(parts))
        tally.cases += len(parts)
        _take_bulk(tally, system, result, [one_request(spec, 16, part) for part in parts].__getitem__)
    return tally.result(f"traces k={k}", "traces")


def determinism(system: SystemUnderTest, seed: int, count: int) -> Checked:
    """The same seed twice gives byte-identical records: drafts, cells, entry states and findings of every round."""
    tally = Tally()
    limits = Limits(hits="adopt" in system.capabilities, padding="padding" in system.capabilities)
    scenarios = [random_scenario(seed, index, limits) for index in range(count)]
    for scenario in scenarios:
        first, again = _record(system, scenario), _record(system, scenario)
        tally.cases += 1
        tally.request_rounds += len(first)
        if first != again and not tally.findings:
            tally.findings.append(_plain("FO601", render(scenario), "two runs differ"))
    return tally.result("determinism", "determinism")


def replays(system: SystemUnderTest, seed: int, count: int) -> Checked:
    """Captured rounds leave what the same rounds leave when they run eagerly, bit for bit (S23)."""
    tally = Tally()
    eager = on_device(load_system(EAGER[system.name]), device_of(system.factory))
    limits = Limits(hits="adopt" in system.capabilities, padding="padding" in system.capabilities)
    for index in range(count):
        scenario = random_scenario(seed, index, limits)
        differs, rounds = replay_differs(system.factory, eager, scenario, system.policy)
        tally.cases += 1
        tally.request_rounds += rounds
        if differs is not None and not tally.findings:
            tally.findings.append(_plain(differs.code, render(scenario), differs.detail["because"]))
    return tally.result("replays", "replays")


def _record(system: SystemUnderTest, scenario: Scenario) -> list[bytes]:
    """One digest a round: everything that was returned, stored, and concluded."""
    timeline = Timeline(scenario, system.policy)
    drafter = TorchDrafter(system.factory, timeline.config(), guard=False)
    lines = []
    for _, evidence, verdict in play(timeline, drafter):
        state = hashlib.sha256(evidence.returned.tobytes() + evidence.ring.tobytes() + evidence.ckpt.tobytes())
        for pool in evidence.kv:
            state.update(pool.tobytes())
        state.update(repr(([f.key for f in verdict.findings], verdict.entries)).encode())
        lines.append(state.digest())
    return lines


def one_request(spec: Spec, prompt: int, accepts: Iterable[int]) -> Scenario:
    """One request, its prompt in one chunk, its accept lengths."""
    decodes = tuple(Decode((("a", accept),)) for accept in accepts)
    return Scenario(spec, events=(Admit("a", prompt), *decodes))


def _take_bulk(
    tally: Tally, system: SystemUnderTest, result: BulkResult, scenario_of: Callable[[int], Scenario]
) -> None:
    tally.request_rounds += result.request_rounds
    for request, round_, what in result.failures[:MAX_REPORTS]:
        text = render(scenario_of(request)) if request >= 0 else ""
        _take_text(tally, system, text, f"{what} (request {request}, round {round_} of the batch)")


def _take_text(tally: Tally, system: SystemUnderTest, text: str, what: str) -> None:
    """A request that failed in a batch: replayed alone, shrunk and told; told as it stands if only the batch fails."""
    if text:
        scenario = parse(text)
        judged = judge(system, scenario)
        if judged.undeclared:
            if judged.undeclared[0].code not in tally.codes:
                tally.codes.add(judged.undeclared[0].code)
                tally.findings.append(report_failure(system, scenario, judged))
            return
    code = next((code for words, code in BATCH_CODES.items() if words in what), "FO204")
    if code not in tally.codes:
        tally.codes.add(code)
        tally.findings.append(_plain(code, text, f"only in a batch, not when the request runs alone: {what}"))


def _plain(code: str, scenario: str, because: str) -> FindingReport:
    return reported(Finding(code, -1, "", detail={"because": because}), scenario=scenario)


def shards(total: int, parts: int) -> Iterator[tuple[int, int]]:
    """(first, count) of ``parts`` nearly equal runs that cover 0..total-1."""
    for i in range(parts):
        first = total * i // parts
        yield first, total * (i + 1) // parts - first
