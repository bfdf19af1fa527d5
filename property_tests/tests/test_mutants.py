"""Every planted fault is killed by the rule that names it, and a kill means something: bases are clean without one."""

import pytest

from frontier_oracle.cuda_impl.system import FrontierDrafter
from frontier_oracle.oracle.designs import DESIGNS
from frontier_oracle.oracle.deviations import compare, predict
from frontier_oracle.oracle.language import parse, render
from frontier_oracle.oracle.rules import RULES
from frontier_oracle.property_tests.driver import run_scenario
from frontier_oracle.property_tests.mutants.capture_faults import GRAPH, TAPE, CaptureMutant
from frontier_oracle.property_tests.mutants.planting import BASES, BOTH, FRONTIER, PLANTED, TOKENSPEED, Mutant, Watching
from frontier_oracle.property_tests.mutants.pointed import pointed
from frontier_oracle.property_tests.mutants.survey import RAISED, cases, first_finding, kill, mutant_of, survey
from frontier_oracle.reference_impl.frontier import Frontier

# What is no index term: views for checking, what refuses (test_refusals.py), what strings the terms together, and the
# places of a chunk's rows, where position and location come from one term; their faults are planted one by one in what
# a call is given.
NOT_TERMS = {"stash", "load_stash", "run_depths", "extend_positions", "init_forward_metadata"}


def _own(cls: type) -> list[tuple[str, object]]:
    return [item for part in cls.__mro__[:-1] for item in vars(part).items()]


def test_every_planted_fault_is_killed_by_the_rule_that_names_it() -> None:
    survivors = [result for result in survey(seed=0) if not result.killed]
    assert survivors == []


def test_the_zoo_is_large_and_well_formed() -> None:
    assert len(PLANTED) >= 60
    for mutant in PLANTED.values():
        assert mutant.code in RULES
        assert mutant.bases and set(mutant.bases) <= {*BASES, TAPE, GRAPH}
        assert mutant.bases == BOTH or mutant.why, f"{mutant.id}: says why it is no fault of the other base"


def test_every_index_term_has_a_planted_fault() -> None:
    terms = {name for name, value in _own(Frontier) if callable(value) and not name.startswith("_")}
    planted = {name for mutant in PLANTED.values() for name in vars(mutant.apply)}
    assert terms - planted - NOT_TERMS == set()


@pytest.mark.parametrize("mutant", list(PLANTED.values()), ids=lambda mutant: mutant.id)
def test_a_planted_fault_replaces_what_is_there(mutant: Mutant) -> None:
    """A renamed index term must not turn a fault into dead code."""
    own = {name for name, value in vars(mutant.apply).items() if callable(value) and not name.startswith("__")}
    assert own <= {name for cls in (Frontier, Watching, FrontierDrafter) for name, _ in _own(cls)}


def test_faults_of_capture_are_killed_on_a_tape_and_their_base_is_clean() -> None:
    faults = [mutant for mutant in PLANTED.values() if isinstance(mutant, CaptureMutant)]
    assert {(f.id, f.code) for f in faults} == {
        ("captured_accepts", "FO301"),
        ("captured_tail", "FO205"),
        ("captured_metadata", "FO303"),
    }
    assert all((fault, TAPE) in cases() for fault in faults)
    sound = CaptureMutant("sound", "no fault", "FO301", (TAPE,), FrontierDrafter)
    result = kill(sound, TAPE, seed=0, limit=0)
    assert (result.got, result.rounds > 100) == ("", True)


@pytest.mark.gpu
@pytest.mark.parametrize("id", ["captured_accepts", "captured_tail", "captured_metadata"])
def test_faults_of_capture_are_killed_on_a_graph(id: str) -> None:
    assert kill(mutant_of(id), GRAPH, seed=0).killed


@pytest.mark.parametrize("scenario", pointed(), ids=render)
def test_the_bases_show_nothing_undeclared_on_the_pointed_scenarios(scenario) -> None:
    for base, system in BASES.items():
        prediction = predict(DESIGNS[base], scenario)
        outcome = run_scenario(system, scenario, system.prefix_policy, guard=False)
        assert compare(outcome, prediction).equal
        assert base != FRONTIER or outcome.findings == []


class Harmless(Frontier):
    pass


def harmless(**fields) -> Mutant:
    return Mutant("harmless", "no fault at all", **{"code": "FO101", "bases": BOTH, "apply": Harmless, **fields})


class Raises(Frontier):
    def decode(self, batch):
        raise RuntimeError("a bug of its own")


@pytest.mark.parametrize("base", BOTH)
def test_what_is_no_fault_survives(base: str) -> None:
    result = kill(harmless(), base, seed=0, limit=2)
    assert (result.killed, result.got, result.scenario) == (False, "", "")
    assert result.rounds > 100


def test_a_kill_by_another_rule_is_no_kill() -> None:
    result = kill(harmless(apply=mutant_of("ids_at_accept").apply, code="FO102"), FRONTIER, seed=0)
    assert (result.killed, result.got) == (False, "FO101")
    assert parse(result.scenario) == pointed()[0]


def test_a_fault_that_raises_is_not_taken_for_a_kill() -> None:
    result = kill(harmless(apply=Raises), FRONTIER, seed=0)
    assert (result.killed, result.got) == (False, RAISED)


def test_declared_findings_do_not_kill() -> None:
    short = parse("k4 page4 | a: p1 | a1, a1, a1")
    assert run_scenario(BASES[TOKENSPEED], short, "tokens").findings
    assert first_finding(harmless(), TOKENSPEED, short)[0] == ""


def test_a_survey_in_parts_is_the_survey() -> None:
    part = range(3, 9)
    again = [kill(*cases()[i], seed=5) for i in part]
    assert survey(5, part) == again
    assert [(r.id, r.base) for r in again] == [(mutant.id, base) for mutant, base in cases()[3:9]]
