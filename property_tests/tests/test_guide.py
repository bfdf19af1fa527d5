"""docs/guide.md does what it says, from the first red gate to the green one, on the toy engine."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from frontier_oracle.property_tests.cli.app import run as cli

ROOT = Path(__file__).parents[2]
MODULES = ("adapter", "engine")


def load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


guide = load("check_guide", ROOT / "examples" / "check_guide.py")
TEXT = guide.GUIDE.read_text(encoding="utf-8")


def forget() -> None:
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the example, as the current directory, its modules not imported yet."""
    copy: Path = guide.copied(tmp_path)
    monkeypatch.chdir(copy)
    monkeypatch.syspath_prepend(str(copy))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # engine.py changes within a second
    forget()
    yield copy
    forget()


def runner(capsys: pytest.CaptureFixture[str]) -> Callable[[str], tuple[int, str]]:
    def run(command: str) -> tuple[int, str]:
        forget()
        program, *arguments = shlex.split(command)
        assert program == "frontier-oracle"
        capsys.readouterr()
        return cli(arguments), capsys.readouterr().out

    return run


def without_gates(text: str) -> str:
    """The guide, its gate runs left out: half a minute each on two cores."""
    return guide.re.sub(r"^\$ frontier-oracle gate .*\n(?:(?!\$ |```).*\n)*", "", text, flags=guide.re.MULTILINE)


def test_the_guide_does_what_it_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert guide.walk(without_gates(TEXT), folder, runner(capsys)) == 3


@pytest.mark.slow
def test_the_guide_with_its_gates_does_what_it_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def jobs(command: str) -> tuple[int, str]:
        return run(command + " --jobs 1" * (" gate " in command))

    run = runner(capsys)
    assert guide.walk(TEXT, folder, jobs) == 5


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("Healthy: all 25 checks", "Healthy: all 99 checks", "does not print 'Healthy: all 99"),
        ("first FO101 in round 0.\nexit 1", "first FO101 in round 0.\nexit 3", "exits 1, expected 3"),
        ("-        following[0] = chunk.sampled", "-        following[0] = chunk.gone", "stand 0 times"),
        ("+        if chunk.last:\n", "+        if True:\n", "does not print 'scenario  k2 W1"),
    ],
)
def test_a_guide_that_says_something_else_is_found_out(
    folder: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(SystemExit, match=guide.re.escape(said)):
        guide.walk(without_gates(TEXT.replace(old, new)), folder, runner(capsys))


def test_lines_must_stand_where_they_are_expected() -> None:
    printed = "one\ntwo\nthree\n"
    assert guide.missing(["one", "...", "three"], printed) == ""
    assert guide.missing(["one", "three"], printed) == "three"
    assert guide.missing(["...", "t...e"], printed) == ""
    assert guide.missing(["...", "two", "one"], printed) == "one"


def test_the_adapter_is_short_and_the_engine_knows_nothing_of_the_oracle() -> None:
    example = ROOT / "examples" / "toy_engine"
    assert len((example / "adapter.py").read_text(encoding="utf-8").splitlines()) <= 40
    assert "frontier_oracle" not in (example / "engine.py").read_text(encoding="utf-8")


def test_a_resume_with_a_hit_is_not_asked_of_a_system_without_prefix_hits(folder: Path) -> None:
    from frontier_oracle.oracle.language import parse
    from frontier_oracle.property_tests.gate.checks import supported
    from frontier_oracle.property_tests.gate.system import resolve

    system = resolve("adapter:make")
    assert not supported(system, parse("k4 page4 | a: p6 | a2 | preempt a | a: resume hit a 8 | a1"))
    assert supported(system, parse("k4 page4 | a: p6 | a2 | preempt a | a: resume | a1"))


def test_the_toy_engines_log_shows_its_fault_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "k2 W1 | a: p2 chunks 1,1"
    assert cli(["replay", text, "--system", "adapter:make", "--history", "log.jsonl"]) == 1
    assert cli(["check", "log.jsonl"]) == 1
    assert "the first FO101 at log.jsonl:3." in capsys.readouterr().out
    forget()
    guide.apply(next(lines for kind, lines in guide.blocks(TEXT) if kind == "diff"), folder)
    assert cli(["replay", text, "--system", "adapter:make", "--history", "log.jsonl"]) == 0
    assert cli(["check", "log.jsonl"]) == 0
