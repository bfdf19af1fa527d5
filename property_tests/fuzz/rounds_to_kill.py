"""How soon fuzzing kills the planted faults: request-rounds until the first finding, guided against uniform choice.

The faults that are hard by chance are picked on some seeds and compared on others: picked and compared on the same, a
fault would be hard because chance was slow there, and anything else would look faster.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from statistics import geometric_mean, median
from typing import Any

from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.property_tests.fuzz.pool import Job, Pool
from frontier_oracle.property_tests.fuzz.units import Plan, drawn, loaded
from frontier_oracle.property_tests.mutants.survey import RAISED, cases, first_finding

HARD_ROUNDS = 100
MOST_ROUNDS = 100_000

Row = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """One planted fault (its number in ``survey.cases()``) under one seed and one way of choosing."""

    case: int
    seed: int
    guided: bool


def bench(pool: Pool, pick: Sequence[int], compare: Sequence[int], part: Sequence[int] | None = None) -> Row:
    """Every fault under the seeds ``pick``, then those whose median under uniform choice is above HARD_ROUNDS under the
    seeds ``compare`` too. part: indices of the faults to take, all by default.

    ``all``: median and worst of guided and uniform choice over all faults and seeds of ``pick``; ``hard``: a line each,
    with its median rounds and their ratio, uniform over guided; ``ratio``: the geometric mean of those over the seeds.
    A fault that survives MOST_ROUNDS counts with them."""
    started = time.perf_counter()
    every = range(len(cases())) if part is None else part
    rows = run(pool, [Trial(case, seed, guided) for case in every for seed in pick for guided in (False, True)])
    hard = [case for case in every if median(_rounds(rows, case, pick, False)) > HARD_ROUNDS]
    rows |= run(pool, [Trial(case, seed, guided) for case in hard for seed in compare for guided in (False, True)])
    lines = [_line(rows, case, compare) for case in hard]
    return {
        "pick_seeds": list(pick),
        "compare_seeds": list(compare),
        "faults": len(every),
        "hard_rounds": HARD_ROUNDS,
        "all": {name: _spread(rows, every, pick, guided) for name, guided in (("uniform", False), ("guided", True))},
        "hard": lines,
        "ratio": geometric_mean([line["ratio"] for line in lines]) if lines else None,
        "seconds": round(time.perf_counter() - started, 1),
    }


def run(pool: Pool, trials: Sequence[Trial]) -> dict[Trial, Row]:
    """All trials, however the pool orders them."""
    todo, done, flying = list(reversed(trials)), dict[Trial, Row](), 0
    while todo or flying:
        while todo and flying < pool.capacity:
            trial = todo.pop()
            pool.submit(Job(f"{cases()[trial.case][0].id}, seed {trial.seed}", kill, (trial,)))
            flying += 1
        for job, row in pool.ready(1.0):
            done[job.args[0]] = row
            flying -= 1
    return done


def kill(trial: Trial) -> Row:
    """code: of the first undeclared finding, "" for none within MOST_ROUNDS; rounds: request-rounds until it."""
    mutant, base = cases()[trial.case]
    rounds = 0
    for scenario in _stream(base, mutant.policy(base), trial.seed, trial.guided):
        code, more = first_finding(mutant, base, scenario)
        rounds += more
        if code == RAISED:
            raise AssertionError(f"{mutant.id} on {base} raised")
        if code or rounds >= MOST_ROUNDS:
            return {"code": code, "rounds": rounds}
    raise AssertionError("unreachable: the stream has no end")


def _stream(base: str, policy: str, seed: int, guided: bool) -> Iterator[Scenario]:
    """The scenarios of a fuzz run, kept between trials: many faults meet the same ones."""
    plan, kept = Plan(base, seed, guided), _units(base, policy, seed, guided)
    for index in count():
        if index == len(kept):
            kept.append(tuple(drawn(plan, index, replace(loaded(base), policy=policy))))
        yield from kept[index]


@lru_cache(maxsize=16)
def _units(base: str, policy: str, seed: int, guided: bool) -> list[tuple[Scenario, ...]]:
    return []


def _rounds(rows: dict[Trial, Row], case: int, seeds: Sequence[int], guided: bool) -> list[int]:
    return [rows[Trial(case, seed, guided)]["rounds"] for seed in seeds]


def _spread(rows: dict[Trial, Row], every: Sequence[int], seeds: Sequence[int], guided: bool) -> Row:
    mine = [rows[Trial(case, seed, guided)] for case in every for seed in seeds]
    rounds = [row["rounds"] for row in mine]
    survivors = sum(not row["code"] for row in mine)
    return {"trials": len(mine), "median": median(rounds), "worst": max(rounds), "survivors": survivors}


def _line(rows: dict[Trial, Row], case: int, seeds: Sequence[int]) -> Row:
    mutant, base = cases()[case]
    uniform, guided = (_rounds(rows, case, seeds, way) for way in (False, True))
    ratio = geometric_mean([u / g for u, g in zip(uniform, guided, strict=True)])
    return {"fault": mutant.id, "base": base, "uniform": uniform, "guided": guided, "ratio": ratio}
