"""The design atlas: every drafter design on the same request, under one truth.

One request, its prompt in one chunk unless told otherwise, then the accept lengths that are given. Each design is run
from its declaration and judged against the ideal of its own head. States are counted over positions p < F after the
last round, rows over the decode rounds (masked ones included).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle.design_batch import NAMES, DesignBatch
from frontier_oracle.oracle.design_engine import schedule
from frontier_oracle.oracle.designs import DESIGNS, Design
from frontier_oracle.oracle.deviations import predict
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.executor import DesignDrafter, spec_for
from frontier_oracle.oracle.free_running import rounds_needed, truth_of
from frontier_oracle.oracle.ledger import EXACT, PROVISIONAL
from frontier_oracle.oracle.limits import check_sizes
from frontier_oracle.oracle.play import play
from frontier_oracle.oracle.scenario import Admit, Decode, Event, Scenario, validate
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.timeline import Timeline

STATES = ("stale", "unwritten", "wrong", "tainted", "foreign")
# Entries and requests of one block: enough to fill numpy's loops, few enough to stay in memory.
BLOCK_POSITIONS, BLOCK = 200_000, 1024
LOOKED_AT = 8
Accepts = tuple[int, ...]
Grid = NDArray[np.int8]


@dataclass(frozen=True)
class DesignRun:
    """One design over all sequences.

    rows: draft rows run in decode rounds; lower_bound_rows: max(d+1, a) summed over depths and rounds; states: entries
    per state of STATES; verify_rounds: what the design needs, left to its own drafts, to write what the ideal writes in
    ``decode_rounds`` (free_running.py), None where that was not run; draft_mismatch_rounds: decode rounds whose drafts
    are not the ideal's; grids: per sequence the states [layers, F] of every entry, as indices of NAMES; deviations: the
    ids of those seen in the first LOOKED_AT rounds of the first LOOKED_AT sequences that are not exact."""

    name: str
    rows: int
    lower_bound_rows: int
    states: dict[str, int]
    decode_rounds: int
    verify_rounds: int | None
    draft_mismatch_rounds: int
    grids: tuple[Grid, ...]
    deviations: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Every entry equals the ideal's, and so does every draft."""
        return not any(self.states.values()) and self.draft_mismatch_rounds == 0


@dataclass(frozen=True)
class Atlas:
    """The table. accepts: one sequence of accept lengths per run."""

    k: int
    steps: int
    prompt: int
    accepts: tuple[Accepts, ...]
    designs: tuple[DesignRun, ...]

    def design(self, name: str) -> DesignRun:
        return next(run for run in self.designs if run.name == name)


@dataclass(frozen=True)
class Played:
    """One design on one sequence: its states after the last round, and what is counted on the way. needed: verify
    rounds when left to its own drafts, None where that was not run."""

    grid: Grid
    rows: int
    mismatches: int
    needed: int | None = None

    @property
    def exact(self) -> bool:
        return not self.grid.any() and self.mismatches == 0


def atlas(
    sequences: Iterable[Sequence[int]],
    k: int = 4,
    steps: int = 0,
    prompt: int = 12,
    chunks: Sequence[int] = (),
    designs: Iterable[Design] = tuple(DESIGNS.values()),
    progress: Callable[[str, int], None] = lambda name, done: None,
) -> Atlas:
    """Run every design on every sequence of accept lengths (of any lengths). progress: called with a design's name and
    how many sequences it was run on since the last call.

    Raises UsageError for an accept length outside 1..min(k, steps+1) or no sequence at all, and SpecError or
    ScenarioError for a configuration, a size or a chunk list that cannot be.
    """
    spec = Spec(k, steps)
    accepts = tuple(tuple(int(a) for a in sequence) for sequence in sequences)
    check(accepts, spec, prompt, chunks)
    runs = []
    for design in designs:
        played: dict[int, Played] = {}
        for block in _blocks(accepts):
            played.update(zip(block, run_block(design, spec, [accepts[i] for i in block], prompt, chunks), strict=True))
            progress(design.name, len(block))
        inexact = [accepts[i] for i in range(len(accepts)) if not played[i].exact]
        seen = deviations_seen(design, spec, inexact[:LOOKED_AT], prompt, chunks)
        runs.append(_summed(design, spec, accepts, [played[i] for i in range(len(accepts))], seen))
    return Atlas(k, spec.steps, prompt, accepts, tuple(runs))


def run_block(
    design: Design, spec: Spec, accepts: Sequence[Accepts], prompt: int, chunks: Sequence[int]
) -> list[Played]:
    """Several sequences through one design, in lockstep. Shorter ones run on with a = 1 and are not looked at again."""
    if design.before_zero == "clamp" and prompt < spec.k:  # positions and locations part: an engine's pages are needed
        return [run_request(design, spec, sequence, prompt, chunks) for sequence in accepts]
    own = spec_for(design, spec)
    rounds = max(map(len, accepts))
    lengths = np.array([len(sequence) for sequence in accepts])
    padded = np.ones((len(accepts), rounds), dtype=np.int64)
    for row, sequence in enumerate(accepts):
        padded[row, : len(sequence)] = sequence
    longest = int(padded.sum(axis=1).max())
    cut = schedule(design, own, chunks)
    batch = DesignBatch(design, own, len(accepts), prompt, cut, longest)
    played: list[Played | None] = [None] * len(accepts)
    mismatches = np.zeros(len(accepts), dtype=np.int64)
    free = DesignBatch(design, own, len(accepts), prompt, cut, 2 * longest)  # at worst a token a round, to the very end
    needed = rounds_needed(free, truth_of(own, prompt, padded, lengths))
    for done in range(rounds + 1):
        for row in np.flatnonzero(lengths == done).tolist():
            played[row] = Played(batch.states(row), int(batch.rows[row]), int(mismatches[row]), int(needed[row]))
        if done < rounds:
            batch.decode(padded[:, done])
            mismatches += batch.mismatch
    return [run for run in played if run is not None]


def run_request(
    design: Design, spec: Spec, accepts: Sequence[int], prompt: int = 12, chunks: Sequence[int] = ()
) -> Played:
    """One sequence through the serving engine and the judge: what ``run_block`` must agree with."""
    timeline = Timeline(_scenario(design, spec, accepts, prompt, chunks), design.prefix_policy)
    grid = np.zeros((0, 0), dtype=np.int8)
    rows = mismatches = 0
    for step, evidence, verdict in play(timeline, DesignDrafter(design, timeline.config())):
        names = [EXACT if entry.state == PROVISIONAL else entry.state for entry in verdict.entries]
        states = [NAMES.index(name) for name in names]
        grid = np.array(states, dtype=np.int8).reshape(-1, step.views[0].computed)
        if step.mode == "decode":
            rows += sum(len(call.input_ids) for call in evidence.calls)
            mismatches += not all(verdict.drafts_equal.values())
    return Played(grid, rows, mismatches)


def deviations_seen(
    design: Design, spec: Spec, sequences: Iterable[Accepts], prompt: int, chunks: Sequence[int]
) -> tuple[str, ...]:
    """The ids of the design's deviations that show on the sequences' first rounds, in the order it declares them."""
    seen: set[str] = set()
    for accepts in sequences:
        seen |= predict(design, _scenario(design, spec, accepts[:LOOKED_AT], prompt, chunks)).seen
    return tuple(deviation.id for deviation in design.deviations if deviation.id in seen)


def _scenario(design: Design, spec: Spec, accepts: Sequence[int], prompt: int, chunks: Sequence[int]) -> Scenario:
    events: list[Event] = [Admit("a", prompt, schedule(design, spec, chunks))]
    events += [Decode((("a", a),)) for a in accepts]
    return Scenario(spec_for(design, spec), events=tuple(events))


def lower_bound_rows(spec: Spec, accepts: Iterable[int]) -> int:
    """Fewest rows that keep every entry exact: max(d+1, a) at depth d."""
    return sum(max(depth + 1, a) for a in accepts for depth in range(spec.steps))


def exhaustive(k: int, steps: int, rounds: int) -> list[Accepts]:
    """Every accept sequence of ``rounds`` rounds."""
    return list(itertools.product(range(1, Spec(k, steps).max_accept + 1), repeat=rounds))


def drawn(k: int, steps: int, rounds: int, seed: int) -> Accepts:
    """One sequence of ``rounds`` accept lengths, uniform, the same for a seed on every machine."""
    source, most = random.Random(f"atlas/{seed}").random, Spec(k, steps).max_accept
    return tuple(1 + int(source() * most) for _ in range(rounds))


def check(sequences: Sequence[Accepts], spec: Spec, prompt: int, chunks: Sequence[int]) -> None:
    """Raise UsageError or ScenarioError, one line, for what cannot be run."""
    if not sequences:
        raise UsageError("no accept sequence: give at least one")
    for sequence in sequences:
        for a in sequence:
            if not 1 <= a <= spec.max_accept:
                raise UsageError(f"accept length {a}: expected 1..{spec.max_accept} (min(k, steps+1))")
    longest = max(sequences, key=sum)
    rounds = (Decode((("a", a),)) for a in longest)
    check_sizes(Scenario(spec, events=(Admit("a", prompt), *rounds)))
    validate(Scenario(spec, events=(Admit("a", prompt, tuple(chunks)),)))


def _blocks(accepts: Sequence[Accepts]) -> Iterator[list[int]]:
    """Indices of sequences of about one length, few enough together for one block."""
    block: list[int] = []
    for index in sorted(range(len(accepts)), key=lambda i: len(accepts[i])):
        if block and (len(block) == BLOCK or (len(block) + 1) * sum(accepts[index]) > BLOCK_POSITIONS):
            yield block
            block = []
        block.append(index)
    if block:
        yield block


def _summed(
    design: Design, spec: Spec, accepts: Sequence[Accepts], played: Sequence[Played], seen: tuple[str, ...]
) -> DesignRun:
    found = sum((np.bincount(run.grid.ravel(), minlength=len(NAMES)) for run in played), np.zeros(1, dtype=np.int64))
    return DesignRun(
        name=design.name,
        rows=sum(run.rows for run in played),
        lower_bound_rows=sum(lower_bound_rows(spec, sequence) for sequence in accepts),
        states={state: int(found[NAMES.index(state)]) for state in STATES},
        decode_rounds=sum(map(len, accepts)),
        verify_rounds=_sum([run.needed for run in played]),
        draft_mismatch_rounds=sum(run.mismatches for run in played),
        grids=tuple(run.grid for run in played),
        deviations=seen,
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    """None where one of them is."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
