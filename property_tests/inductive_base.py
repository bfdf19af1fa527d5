"""The base of the induction: every way into decoding establishes the invariant, judged cell by cell.

A way in is a prompt in chunks, a prefix hit with what is left in chunks, or a resume: the tokens of a request that
ended, its own output included, as another's prompt. Ways of one kind run side by side in one scenario, an EXTEND round
holding the i-th chunk of each, so that rounds mix requests of all lengths.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from frontier_oracle.oracle.inductive import Domain
from frontier_oracle.oracle.language import render
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.scenario import Admit, Decode, Event, Extend, Finish, Scenario
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.drawing import name_of
from frontier_oracle.property_tests.driver import run_scenario
from frontier_oracle.property_tests.shield import Factory

PAGE = 2
GROUPS = (CacheGroup(PAGE), CacheGroup(PAGE, 3))
KS = {"dev": (3,), "ci": (2, 3, 4), "nightly": (2, 3, 4, 5, 6)}
LONGEST_PROMPT, LONGEST_REST, DONOR = 6, 4, 10


@dataclass
class BaseResult:
    """cases: ways in; failures: (scenario text, its first finding); scenarios: by text, those that failed."""

    domain: Domain
    hits: bool
    cases: int = 0
    request_rounds: int = 0
    failures: list[tuple[str, Finding]] = field(default_factory=list)
    scenarios: dict[str, Scenario] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def statement(self) -> str:
        """What a result without failures claims, in one line."""
        if self.domain == "declared":
            return "base: prompts of at least k-1 tokens in one chunk, no prefix hit"
        ways = "prompts in every composition of chunks"
        return f"base: {ways}, prefix hits and resumes" if self.hits else f"base: {ways}; prefix hits not supported"


def run_base(
    factory: Factory, policy: str, domain: Domain = "full", hits: bool = True, profile: str = "ci"
) -> BaseResult:
    """Drive every way in of a domain and judge it. policy: the system's prefix policy; hits: whether it adopts any.

    Raises AdapterError when the system raises.
    """
    result = BaseResult(domain, hits)
    start = time.perf_counter()
    for scenario in base_scenarios(domain, hits, profile):
        outcome = run_scenario(factory, scenario, policy, stop_at_first=True, guard=False)
        result.cases += sum(isinstance(event, Admit) for event in scenario.events)
        result.request_rounds += outcome.request_rounds
        if outcome.findings:
            text = render(scenario)
            result.failures.append((text, outcome.findings[0]))
            result.scenarios[text] = scenario
    result.seconds = time.perf_counter() - start
    return result


def base_scenarios(domain: Domain, hits: bool, profile: str) -> Iterator[Scenario]:
    """k = 2..4 (dev: 3, nightly: ..6) with every number of depths; used slots, resumes and target heads at steps = k-1
    alone, since what they add knows nothing of the number of depths."""
    for k in KS[profile]:
        for steps in range(1, k + 1):
            spec = Spec(k, steps, "chain", 4, GROUPS)
            if domain == "declared":
                yield prompts(spec, [(n,) for n in range(max(1, k - 1), LONGEST_PROMPT + 1)], 1)
                continue
            usual = steps == k - 1
            chunks = [c for n in range(1, LONGEST_PROMPT + 1) for c in compositions(n)]
            yield prompts(spec, chunks, 2 if usual else 1)
            if hits:
                yield prefix_hits(spec)
            if usual:
                yield prompts(Spec(k, steps, "target", 4, GROUPS), chunks, 1)
                if hits:
                    yield resumes(spec)


def compositions(n: int) -> list[tuple[int, ...]]:
    """All ways to cut n tokens into chunks, in order: 2^(n-1)."""
    if n == 0:
        return [()]
    return [(first, *rest) for first in range(1, n + 1) for rest in compositions(n - first)]


def prompts(spec: Spec, chunks: Sequence[tuple[int, ...]], generations: int) -> Scenario:
    """A request for each list of chunks; a later generation takes the slots and pages of the one before (S19)."""
    events: list[Event] = []
    for generation in range(generations):
        ways = chunks[:: -1 if generation % 2 else 1]
        names = [name_of(generation * len(ways) + i) for i in range(len(ways))]
        events += [Admit(name, sum(c), c, held=True) for name, c in zip(names, ways, strict=True)]
        events += _rounds(names, ways)
        if generation + 1 < generations:
            events += [Finish(name) for name in names]
    return Scenario(spec, 8, len(chunks), tuple(events))


def prefix_hits(spec: Spec) -> Scenario:
    """A live donor; hits at each of its page boundaries, what is left cut in every way. Under successor keys the next
    ``steps`` tokens are the donor's too, and one must be left to compute, so that steps + 1 are left at least."""
    ways = []
    for length in range(PAGE, DONOR - LONGEST_REST + 1, PAGE):
        for rest in range(spec.steps + 1, max(LONGEST_REST, spec.steps + 1) + 1):
            ways += [(length, c) for c in compositions(rest)]
    names = [name_of(1 + i) for i in range(len(ways))]
    events: list[Event] = [Admit("a", DONOR)]
    for name, (length, c) in zip(names, ways, strict=True):
        events.append(Admit(name, length + sum(c), c, ("a", length + spec.steps), True))
    events += _rounds(names, [c for _, c in ways])
    return Scenario(spec, 8, 1 + len(ways), tuple(events))


def resumes(spec: Spec) -> Scenario:
    """A request decodes and ends; others resume with its first n tokens, prompt and output, for every n:
    all but the last may come from the prefix cache, what is left is cut in every way."""
    accepts = [1 + i % spec.max_accept for i in range(6)]
    known = 3 + sum(accepts)
    events: list[Event] = [Admit("a", 3), *(Decode((("a", a),)) for a in accepts), Finish("a")]
    ways = []
    for n in range(spec.steps + 1 + PAGE, known + 1):
        rest = n - (n - 1 - spec.steps) // PAGE * PAGE
        ways += [(n, c) for c in compositions(rest)]
    names = [name_of(1 + i) for i in range(len(ways))]
    events += [Admit(name, n, c, ("a", n - 1), True) for name, (n, c) in zip(names, ways, strict=True)]
    events += _rounds(names, [c for _, c in ways])
    return Scenario(spec, 8, len(ways), tuple(events))


def _rounds(names: Sequence[str], chunks: Sequence[tuple[int, ...]]) -> list[Event]:
    """EXTEND rounds: the i-th holds the i-th chunk of every request that has one."""
    most = max(len(c) for c in chunks)
    batches = [tuple(name for name, c in zip(names, chunks, strict=True) if len(c) > i) for i in range(most)]
    return [Extend(batch) for batch in batches]
