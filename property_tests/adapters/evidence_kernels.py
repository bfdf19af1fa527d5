"""What is seen of the drafters built around SGLang's and vLLM's kernels (adapters.evidence): exact in a clean domain,
and what shows outside it, explained. The interpreter is slow, so the runs are small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from frontier_oracle.oracle.designs import DESIGNS
from frontier_oracle.oracle.executor import spec_for
from frontier_oracle.oracle.explain import explain
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.bulk import run_bulk
from frontier_oracle.property_tests.gate.judged import judge
from frontier_oracle.property_tests.gate.system import resolve
from frontier_oracle.property_tests.watching import replay_command, watch_system

LAYOUTS = ((CacheGroup(16),), (CacheGroup(4), CacheGroup(3, 8)))
KS = (2, 3, 4, 8)
BATCH, ROUNDS = 32, 8

Row = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """An engine's kernels. FILES: what was run. domain: where they are exact, in words; chunked: whether chunks of at
    least ``steps`` tokens are in it. inside: scenarios that show what the design declares and nothing else. outside:
    what -> (scenario that shows more, words of the right explanation)."""

    system: str
    FILES: tuple[str, ...]
    domain: str
    chunked: bool
    inside: tuple[str, ...]
    outside: dict[str, tuple[str, str]]

    def parts(self, seed: int, device: str, request_rounds: int, scenarios: int) -> Iterator[tuple[str, Any]]:
        """The result's parts, one after the other."""
        yield "domain", self.domain
        yield "exact", [self._exact(k, seed, request_rounds) for k in KS]
        yield "as declared", [self._declared(text) for text in self.inside]
        yield "outside", [self._told(what, *case) for what, case in self.outside.items()]

    def clean(self, result: Row) -> bool:
        """Whether nothing was found in the domain, and outside it what is known."""
        found = any(row["findings"] for row in result["exact"]) or any(
            row["undeclared"] for row in result["as declared"]
        )
        return not found and all(row["as expected"] for row in result["outside"])

    def _exact(self, k: int, seed: int, least: int) -> Row:
        """Every cell of every round, random accepts."""
        row: Row = {"k": k, "request_rounds": 0, "findings": []}
        make, design, case = resolve(self.system).factory, DESIGNS[_DESIGN[self.system]], 0
        while row["request_rounds"] < least:
            rng = np.random.Generator(np.random.Philox(key=[seed, 1000 * k + case]))
            spec = spec_for(design, Spec(k, k - 1, "chain", 1 + case % 4, LAYOUTS[case % len(LAYOUTS)]))
            accepts = rng.integers(1, spec.max_accept + 1, (BATCH, ROUNDS))
            prompt = spec.steps - 1 + spec.taps + 1 + case % 5
            chunks = [prompt, spec.steps] if self.chunked else [prompt]
            result = run_bulk(make, spec, accepts, sum(chunks), chunks, pad_to=BATCH + case % 3, threads=1, seed=seed)
            row["request_rounds"] += result.request_rounds
            row["findings"] += [list(failure) for failure in result.failures]
            case += 1
        return row

    def _declared(self, text: str) -> Row:
        judged = judge(resolve(self.system), parse(text))
        undeclared = [str(finding) for finding in judged.undeclared]
        return {"scenario": text, "seen": sorted(judged.seen), "undeclared": undeclared}

    def _told(self, what: str, text: str, says: str) -> Row:
        """What a scenario outside the domain shows that the design does not declare, and its explanation."""
        system, scenario = resolve(self.system), parse(text)
        found, played = judge(system, scenario).undeclared, watch_system(system, scenario, guard=False)
        stories = [explain(finding, played).because for finding in found]
        return {
            "what": what,
            "scenario": render(scenario),
            "undeclared": [f"{f.code} round {f.round} {f.request} ({f.depth},{f.position})" for f in found],
            "because": list(stories[0]) if stories else [],
            "as expected": bool(stories) and all(says in " ".join(story) for story in stories),
            "replay": replay_command(self.system, render(scenario)),
        }


_DESIGN = {"sglang": "sglang_boundary_fix", "vllm": "vllm_multi_module"}
LEFT = "was left behind"
SGLANG = Study(
    "sglang",
    ("sglang/kernels/ops/speculative/multi_layer_eagle.py",),
    "prompts in one chunk of at least steps-1 + W-1 tokens, so that the stash fills the front",
    chunked=False,
    inside=(
        "k4 R10 W1 | a: p1 | a1, a1",
        "k4 R10 W1 | a: p12 chunks 6,6 | a1, a3",
        "k4 page4 R10 W1 | a: p12 | b: p6 hit a 5 | b1",
    ),
    outside={
        "a short conv, a prompt shorter than the front: its rows only warm up": ("k4 R10 | a: p1 | a1", LEFT),
        "a short conv, a short chunk after a prefix hit: its rows only warm up": (
            "k4 page4 R10 | a: p12 | b: p6 hit a 5 | b1",
            LEFT,
        ),
        "a last chunk shorter than steps-1: the stash forgets the chunk before": (
            "k4 R10 W1 | a: p12 chunks 11,1 | a1",
            "cause entries differ from the declared set",
        ),
    },
)
VLLM = Study(
    "vllm",
    ("vllm/v1/worker/gpu/spec_decode/multi_module_mtp/speculator.py",),
    "any prompt in chunks of at least steps tokens, as the engine's scheduler keeps them",
    chunked=True,
    inside=(
        "k4 page4 | a: p1 | a1, a1, a3",
        "k4 | a: p12 chunks 5,4,3 | a1, a2",
        "k4 page4 | a: p12 | b: p11 hit a 8 | b1",
    ),
    outside={
        "a last chunk shorter than steps, which the scheduler prevents": ("k4 | a: p12 chunks 5,5,2 | a1, a2", LEFT),
    },
)
