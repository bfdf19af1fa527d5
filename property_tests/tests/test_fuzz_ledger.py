"""The ledger survives a crash at any byte, counts each unit once, and is nobody else's."""

import json
from pathlib import Path

import pytest

from frontier_oracle.oracle.errors import RecordError, UsageError
from frontier_oracle.property_tests.fuzz.ledger import SHRUNK_PER_CODE, Ledger, path_of
from frontier_oracle.property_tests.fuzz.units import Plan, Raw, UnitResult

PLAN = Plan("pkg.mod:make", 7)
PAIR, OTHER = ("S9", "far", "chunk"), ("S4", "steps k", "all")


def unit(index: int, *codes: str, pairs: tuple[tuple[str, str, str], ...] = (PAIR,)) -> UnitResult:
    raw = tuple(Raw(code, f"k4 | a: p{index + 1}", True) for code in codes)
    return UnitResult(index, 3, 10 + index, frozenset(pairs), raw)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of two units and three findings, of which one is settled."""
    path = path_of(tmp_path, PLAN)
    ledger = Ledger(path, PLAN)
    ledger.enter(unit(0, "FO101"))
    ledger.enter(unit(1, "FO101", "FO206", pairs=(PAIR, OTHER)))
    ledger.settle(0, "FO101", "FO101-x.json")
    ledger.close()
    return path


def counts(path: Path) -> tuple[object, ...]:
    ledger = Ledger(path, PLAN)
    ledger.close()
    open_ = [(at, raw.code) for at, raw in ledger.open]
    return ledger.units, ledger.scenarios, ledger.rounds, ledger.pairs, dict(ledger.met), open_, ledger.files


WHOLE = (2, 6, 21, {PAIR, OTHER}, {"FO101": 2, "FO206": 1}, [(1, "FO101"), (1, "FO206")], ["FO101-x.json"])


def test_everything_comes_back(path: Path) -> None:
    assert counts(path) == WHOLE
    assert counts(path) == WHOLE  # reading changes nothing


def test_a_pair_stands_once(path: Path) -> None:
    units = [json.loads(line) for line in path.read_text().splitlines() if '"unit"' in line]
    assert [entry["new_pairs"] for entry in units if "new_pairs" in entry] == [[list(PAIR)], [list(OTHER)]]


def test_cut_at_any_byte_it_reads_as_before_its_last_line(path: Path) -> None:
    """What a crash can leave: whole lines, and a part of one more."""
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    states = {}
    for end in ends:
        path.write_bytes(whole[:end])
        states[end] = counts(path)
    assert states[ends[-1]] == WHOLE
    for cut in range(ends[0], len(whole), 7):
        path.write_bytes(whole[:cut])
        end = max(e for e in ends if e <= cut)
        assert counts(path) == states[end]
        assert path.read_bytes() == whole[:end], "the half line is gone"


def test_an_empty_file_and_half_a_header_begin_anew(path: Path) -> None:
    for left in (b"", b'{"type":"hea'):
        path.write_bytes(left)
        assert counts(path)[0] == 0


def test_units_are_entered_in_order_and_once(path: Path) -> None:
    ledger = Ledger(path, PLAN)
    for index in (0, 1, 3):
        with pytest.raises(AssertionError, match=f"unit {index} entered, unit 2 is next"):
            ledger.enter(unit(index))
    ledger.enter(unit(2))
    ledger.close()
    assert counts(path)[0] == 3


def test_of_one_code_only_the_first_findings_are_made_small(path: Path) -> None:
    ledger = Ledger(path, PLAN)
    for index in range(2, 9):
        ledger.enter(unit(index, "FO101"))
    ledger.close()
    assert ledger.met["FO101"] == 9
    assert sum(raw.code == "FO101" for _, raw in ledger.open) == SHRUNK_PER_CODE - 1


def test_two_runs_do_not_share_it(path: Path) -> None:
    ledger = Ledger(path, PLAN)
    with pytest.raises(UsageError, match="another fuzz run has it open"):
        Ledger(path, PLAN)
    ledger.close()
    assert counts(path) == WHOLE


def test_another_plan_has_another_ledger(tmp_path: Path, path: Path) -> None:
    plans = (PLAN, Plan("pkg.mod:other", 7), Plan("pkg.mod:make", 8), Plan("pkg.mod:make", 7, False))
    assert len({path_of(tmp_path, plan) for plan in plans}) == 4
    with pytest.raises(RecordError, match=r":1: not this run's ledger; move it away"):
        Ledger(path, plans[2])


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nonsense", "Expecting value"),
        ("[]", "a list"),
        ('{"type":"unit","unit":9}', "unit 9, expected 2"),
        ('{"type":"unit"}', "KeyError: 'unit'"),
        ('{"type":"finding","unit":5,"code":"FO101","file":""}', "not in list"),
        ('{"type":"else"}', "unknown line type 'else'"),
    ],
)
def test_a_broken_line_is_named(path: Path, line: str, problem: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(RecordError) as caught:
        Ledger(path, PLAN)
    assert f"{path}:5: broken" in str(caught.value) and problem in str(caught.value)
    assert "\n" not in str(caught.value)
