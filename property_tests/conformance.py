"""What a test of each rule S1 to S26 runs: short scenarios that can break it, and what a system must claim for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.scenario import Scenario
from frontier_oracle.property_tests.gate.checks import determinism, supported
from frontier_oracle.property_tests.gate.judged import judge
from frontier_oracle.property_tests.gate.refusals import refusals
from frontier_oracle.property_tests.gate.results import FindingReport
from frontier_oracle.property_tests.gate.system import SystemUnderTest
from frontier_oracle.property_tests.render.table import story
from frontier_oracle.property_tests.watching import tell, watch_system

TWICE = 3


@dataclass(frozen=True)
class RuleTest:
    """id: the rule; needs: the capability without which it is skipped, "" for none; scenarios: what is run; guard:
    host reads are watched; why: the reason why no test can show it, "" where one can."""

    id: str
    title: str
    scenarios: tuple[str, ...] = ()
    needs: str = ""
    guard: bool = False
    why: str = ""


# Scenarios hold on to what their rule speaks of: chunks stand in those of S12..S14, hits in those of S21. The last
# of S21 has both: behind a hit only a chunk shorter than the stash leaves in it what the slot's last owner left.
RULES: tuple[RuleTest, ...] = (
    RuleTest(
        "S1",
        "each depth consumes its token and its hidden",
        ("k4 page16 | a: p9 | a1, a4, a2", "k4 page16 target | a: p9 | a1, a4, a2"),
    ),
    RuleTest("S2", "drafts are sampled at the frontier's row", ("k4 page16 | a: p8 | b: p9 | a2 b4, b1 a3",)),
    RuleTest("S3", "every entry equals recompute from scratch", ("k4 page4 | a: p6 | a1, a3, a2, a4, a1",)),
    RuleTest(
        "S4",
        "no entry leaves the window with a rejected draft",
        (
            "k4 page16 | a: p12 | a1, a1, a1, a1",
            "k4 page16 | a: p12 | a4, a4, a4",
            "k3 steps3 page4 | a: p5 | a3, a1, a2",
        ),
    ),
    RuleTest("S5", "depth 0's ids are those behind the window's positions", ("k6 page16 | a: p8 | a3, a2, a5, a6",)),
    RuleTest(
        "S6", "depth 0's hiddens are those of the window's positions", ("k6 page16 H16 | a: p8 | a3, a2, a5, a6",)
    ),
    RuleTest("S7", "deeper ids are rolled left, the draft behind them", ("k5 page16 | a: p8 | a1, a5, a2",)),
    RuleTest("S8", "the stash is the window's tail", ("k4 page16 | a: p6 | a1, a4, a2, a3",), needs="stash"),
    RuleTest(
        "S9",
        "positions, write locations and extents follow the frontier",
        ("k4 page4 | a: p1 | a1, a1, a4", "k4 page32 | a: p15 | a4, a4", "k4 | a: p255 | a4, a4"),
    ),
    RuleTest(
        "S10", "column 0 is the committed token, then the drafts, int32", ("k4 page4 | a: p6 | b: p5 | a3 b1, b2 a4",)
    ),
    RuleTest(
        "S11",
        "superseded primitives give the same",
        why="two ways to one result inside a drafter: nothing shows outside",
    ),
    RuleTest(
        "S12",
        "chunks read the prompt behind them",
        ("k4 page16 | a: p10 chunks 6,4 | a2", "k4 page16 | a: p12 chunks 5,5,2 | a1"),
        needs="extend",
    ),
    RuleTest(
        "S13",
        "mid-chunk rounds and short last chunks leave exact entries",
        ("k4 page16 | a: p10 chunks 4,4,2 | a1, a3", "k4 page16 | a: p20 chunks 18,1,1 | a1, a4, a1"),
        needs="extend",
    ),
    RuleTest(
        "S14",
        "a short chunk borrows from the one before and nothing else",
        ("k4 page4 slots2 | z: p9 | end z | a: p4 chunks 1,1,2 | a1, a2",),
        needs="extend",
    ),
    RuleTest("S15", "mixed batches and data-parallel sizes are refused", needs="refusals"),
    RuleTest(
        "S16",
        "media ids are replaced inside the vocabulary",
        ("k4 page4 | a: p9 media 2-3,8-8 | a1, a2", "k4 page4 | a: p9 media 5-6 chunks 5,4 | a1"),
        needs="media",
    ),
    RuleTest(
        "S17",
        "write locations go through each group's page table",
        ("k4 page4w8,16 | a: p6 | a4, a4, a4, a4, a4, a4, a1, a1", "k4 page4,2 | a: p9 | b: p5 | a2, a4 b1"),
    ),
    RuleTest(
        "S18",
        "the conv ring is addressed by position",
        ("k4 page16 W4 | a: p6 | a1, a4, a1, a4, a3", "k2 page1w2 W3 | a: p3 | a2, a1, a2"),
    ),
    RuleTest(
        "S19",
        "a slot taken over shows nothing of its last owner",
        ("k4 page4 slots1 | a: p8 | end a | b: p8 | end b | c: p1 | c1, c4",),
    ),
    RuleTest(
        "S20",
        "padded rows change nothing",
        ("k4 page4 | a: p6 | b: p5 | a2 b1, a1 /4, b3 /4", "k2 page4 | a: p3 | b: p3 | a1 b2, b1 /4"),
        needs="padding",
    ),
    RuleTest(
        "S21",
        "prefix hits: exact pages, a stash of one's own, shared pages left alone",
        (
            "k4 page4 | a: p14 | b: p13 hit a 11 | b1 a1, b2",
            "k4 page4 | a: p12 | z: p12 | end z | b: p10 hit a 8 | b1, b3",
            "k4 page4 | a: p12 | z: p12 | end z | b: p10 hit a 8 chunks 1,5 | b1",
        ),
        needs="adopt",
    ),
    RuleTest(
        "S22", "the context limit pads the cache, and clamps no accept length", ("k4 page4 ctx16 | a: p12 | a2, a4",)
    ),
    RuleTest("S23", "the same inputs give the same bytes"),
    RuleTest(
        "S24",
        "nothing that depends on accept lengths is a host value",
        ("k4 page4 | a: p6 | b: p5 | a3 b1 /4, b2",),
        needs="device_only",
        guard=True,
    ),
    RuleTest(
        "S25", "the output is the target's own", why="accept lengths are inputs here: it takes a target that verifies"
    ),
    RuleTest(
        "S26", "a round without drafts leaves nothing behind", ("k4 page4 | a: p6 | b: p5 | a2! b3, a1 b4, b1 a1",)
    ),
)


class RuleFailed(AssertionError):
    """A rule is broken; the message is the story, as the command line tells it."""


class NotAsked(Exception):
    """The rule is not tested on this system; the message says why."""


def run_rule(system: SystemUnderTest, rule: RuleTest, seed: int = 0) -> None:
    """Raises RuleFailed where the rule is broken, NotAsked where nothing could be run."""
    if rule.why:
        raise NotAsked(rule.why)
    if rule.needs and rule.needs not in system.capabilities:
        raise NotAsked(f'the system does not claim "{rule.needs}"')
    if rule.id == "S15":
        raise_findings(rule.id, refusals(system)[0].findings)
    if rule.id == "S23":
        raise_findings(rule.id, determinism(system, seed, TWICE)[0].findings)
    for scenario in _served(system, rule):
        replay(system, scenario, rule.id, rule.guard)


def _served(system: SystemUnderTest, rule: RuleTest) -> Iterator[Scenario]:
    """The scenarios that the system claims to support. A context limit is not for rows past the frontier."""
    scenarios = [parse(text) for text in rule.scenarios]
    served = [s for s in scenarios if supported(system, s) and not (s.context is not None and system.deviates)]
    if scenarios and not served:
        raise NotAsked("its scenarios need what the system does not claim, or declares to do otherwise")
    yield from served


def replay(system: SystemUnderTest, scenario: Scenario, rule: str = "", guard: bool = False) -> None:
    """Run one scenario; raises RuleFailed with the story of the first finding that the system does not declare."""
    judged = judge(system, scenario, guard)
    if judged.undeclared:
        told = tell(watch_system(system, scenario, guard), system.name, judged.undeclared[0])
        raise RuleFailed(_headed(rule, told))


def raise_findings(rule: str, findings: tuple[FindingReport, ...]) -> None:
    """Raises RuleFailed for the findings of a check that are not declared."""
    failing = [finding for finding in findings if not finding.declared]
    if failing:
        raise RuleFailed(_headed(rule, "\n\n".join("\n".join(story(finding)) for finding in failing)))


def _headed(rule: str, told: str) -> str:
    return f"{rule} is broken:\n{told}" if rule else told
