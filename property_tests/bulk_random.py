"""Random bulk runs: configurations, prompts and accept lengths out of a counter-based generator.

Case i of a seed is the same whatever ran before it, so a failure is named by (seed, case, request). It is returned as a
one-request scenario, cut behind the failing round, for the scenario runner to replay, explain and shrink.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle.language import render
from frontier_oracle.oracle.scenario import Admit, Decode, Event, Scenario
from frontier_oracle.oracle.spec import CacheGroup, HiddenSemantic, Spec
from frontier_oracle.property_tests.bulk import STOP_AT, MakeSystem, run_bulk

LAYOUTS: tuple[tuple[CacheGroup, ...], ...] = (
    (CacheGroup(16),),
    (CacheGroup(4),),
    (CacheGroup(32), CacheGroup(4, 8)),
    (CacheGroup(1),),
    (CacheGroup(16), CacheGroup(4, 8)),
    (CacheGroup(3, 5), CacheGroup(8)),
    (CacheGroup(4, 1), CacheGroup(2), CacheGroup(5, 12)),
    (CacheGroup(64), CacheGroup(32, 40)),
)
# Long contexts, which a few requests show as well as many: (every so many cases, the first, prompt, most requests).
# Positions past 255 come early in every run, those past 32,767 (16 bits) only to who runs for hours.
LONG = ((8, 1, 300, 16), (64, 40, 32_760, 2))
LONG_CHUNK = 1024
SEMANTICS: tuple[HiddenSemantic, ...] = ("chain", "target")


@dataclass(frozen=True)
class BulkCase:
    """One bulk run: ``run_bulk``'s arguments. accepts [B, R]; pad_to is None or more than B."""

    spec: Spec
    prompt: int
    chunks: tuple[int, ...]
    accepts: NDArray[np.int64]
    hidden_size: int
    pad_to: int | None
    seed: int

    def scenario(self, request: int, rounds: int | None = None) -> Scenario:
        """One request of the case as a scenario of its own, cut after ``rounds`` rounds (EXTEND rounds counted)."""
        chunks = self.chunks if len(self.chunks) > 1 else ()
        accepts = self.accepts[request]
        if rounds is not None:
            accepts = accepts[: max(rounds - len(self.chunks), 0)]
        # Alone in its batch it keeps one padded row, where the case had some.
        bucket = None if self.pad_to is None else 2
        decodes = tuple(Decode((("a", int(accept)),), bucket) for accept in accepts)
        events: tuple[Event, ...] = (Admit("a", self.prompt, chunks), *decodes)
        return Scenario(self.spec, self.hidden_size, events=events)


@dataclass(frozen=True)
class BulkFailure:
    """One failing request: its scenario text, where it failed in the bulk run, and what differed there first.

    ``text`` is "" where nobody's cell changed (request -1): no single request can be replayed for it."""

    text: str
    case: int
    request: int
    round: int
    what: str


@dataclass
class RandomResult:
    """Counts as in BulkResult, over ``cases`` bulk runs; seconds include setting up."""

    request_rounds: int = 0
    cases: int = 0
    failures: list[BulkFailure] = field(default_factory=list)
    seconds: float = 0.0


def bulk_case(seed: int, index: int, batch: int = 512, max_k: int = 8, one_shot: bool = False) -> BulkCase:
    """Case ``index`` of ``seed``: k cycles through 2..max_k and the layouts through LAYOUTS, the rest is drawn
    (prompts of LONG's cases are long).

    one_shot: prompts of at least k tokens in one chunk, where a design with declared deviations shows none."""
    rng = np.random.Generator(np.random.Philox(key=[seed % 2**64, index]))
    k = 2 + index % (max_k - 1)
    steps = k - 1 if rng.random() < 0.6 else int(rng.integers(1, k + 1))
    width = int(rng.integers(1, 5))
    spec = Spec(k, steps, SEMANTICS[int(rng.integers(2))], width, LAYOUTS[index % len(LAYOUTS)])
    prompt = int(rng.integers(k if one_shot else 1, 2 * k + 17))
    chunks = (prompt,) if one_shot else _chunks(rng, prompt)
    for period, first, base, most in LONG:
        if index % period == first:
            batch = min(batch, most)
            chunks = _lengthened(chunks, base, one_shot)
    return BulkCase(
        spec,
        sum(chunks),
        chunks,
        rng.integers(1, spec.max_accept + 1, (batch, int(rng.integers(4, 17)))),
        int(rng.choice([8, 8, 16])),
        batch + int(rng.integers(1, 8)) if rng.random() < 0.3 else None,
        int(rng.integers(2**31)),
    )


def _chunks(rng: np.random.Generator, prompt: int) -> tuple[int, ...]:
    """Half of the prompts run whole, the others in chunks of any size, short last ones included."""
    if rng.random() < 0.5:
        return (prompt,)
    cuts = np.flatnonzero(rng.random(prompt - 1) < rng.choice([0.1, 0.3, 1.0])) + 1
    return tuple(np.diff(np.array([0, *cuts, prompt])).tolist())


def _lengthened(chunks: tuple[int, ...], base: int, one_shot: bool) -> tuple[int, ...]:
    """``base`` more tokens in front: in the first chunk, or in chunks of their own where that would be too large."""
    if one_shot or base <= LONG_CHUNK:
        return (base + chunks[0], *chunks[1:])
    whole, rest = divmod(base, LONG_CHUNK)
    return (*(LONG_CHUNK,) * whole, rest, *chunks)


def run_random(
    make_system: MakeSystem,
    request_rounds: int,
    seed: int = 0,
    batch: int = 512,
    threads: int | None = None,
    one_shot: bool = False,
) -> RandomResult:
    """Cases 0, 1, ... of ``seed`` until ``request_rounds`` were checked or 20 requests failed."""
    result = RandomResult()
    start = time.perf_counter()
    while result.request_rounds < request_rounds and len(result.failures) < STOP_AT:
        index = result.cases
        case = bulk_case(seed, index, batch, one_shot=one_shot)
        run = run_bulk(
            make_system,
            case.spec,
            case.accepts,
            case.prompt,
            case.chunks,
            case.hidden_size,
            case.pad_to,
            threads,
            case.seed,
        )
        result.cases += 1
        result.request_rounds += run.request_rounds
        for request, number, what in run.failures:
            text = render(case.scenario(request, number + 1)) if request >= 0 else ""
            result.failures.append(BulkFailure(text, index, request, number, what))
    result.seconds = time.perf_counter() - start
    return result
