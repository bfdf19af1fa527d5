"""Help that is a manual: examples and exit codes for every verb; completion; the documents' commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from frontier_oracle.property_tests.cli import bench
from frontier_oracle.property_tests.cli.app import app, run
from frontier_oracle.property_tests.cli.manual import PAGES

ROOT = Path(__file__).parents[2]
VERBS = [[command.name or ""] for command in app.registered_commands]
VERBS += [["bench", command.name or ""] for command in bench.app.registered_commands]
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_has_synopsis_examples_and_exit_codes(verb: list[str], capsys: Capture) -> None:
    assert " ".join(verb) in PAGES, "a new verb needs a page in cli/manual.py"
    assert run([*verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: frontier-oracle {' '.join(verb)}" in shown
    assert "Examples:" in shown and "Exit codes: 0" in shown and "130 interrupted." in " ".join(shown.split())


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_examples_use_options_that_are_there(verb: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_WIDTH", "200")
    assert run([*verb, "--help"]) == 0
    known = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", capsys.readouterr().out.split("Examples:")[0]))
    for example in PAGES[" ".join(verb)][0]:
        words = shlex.split(example)
        assert words[: 1 + len(verb)] == ["frontier-oracle", *verb]
        assert {word for word in words if re.match("--?[a-z]", word)} <= known, example


def test_commands_in_the_documents_name_verbs_that_are_there() -> None:
    verbs = {verb[0] for verb in VERBS}
    for path in (*(ROOT / "docs").glob("*.md"), ROOT / "README.md"):
        for line in re.findall(r"^(?:\$ )?frontier-oracle ([a-z]+)\b", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert line in verbs | {"bench"}, f"{path.name}: {line}"


def test_completion_of_verbs_and_options(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for line, found in (("frontier-oracle ga", "gate"), ("frontier-oracle gate --pro", "--profile")):
        monkeypatch.setenv("_FRONTIER_ORACLE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
        assert run([]) == 0
        assert capsys.readouterr().out.split() == [found]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_shown(shell: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert run(["--show-completion", shell]) == 0
    shown = capsys.readouterr()
    assert "_FRONTIER_ORACLE_COMPLETE" in shown.out and shown.err == ""
