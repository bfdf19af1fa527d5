"""Files of an engine run with what is supplied and nothing else; what is missing is one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.adapters.loading import Engine
from frontier_oracle.property_tests.cli.app import run

ENGINE = Engine("some_engine", "SOME_ENGINE_PATH", "people/some-engine", "revision 1")
FILES = {"some_engine.books.drafter": "some_engine/books/drafter.py"}
SUPPLIED = {"some_engine.kernels": {"twice": lambda x: 2 * x}, "another.tool": {"name": "ours"}}
DRAFTER = (
    "from another import tool\nfrom some_engine.kernels import twice\nimport some_engine.kernels as k\n"
    "four = twice(2)\nname = tool.name\nsame = k.twice is twice\n"
)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOME_ENGINE_PATH", str(tmp_path))
    return written(tmp_path, DRAFTER)


def written(folder: Path, text: str) -> Path:
    path = folder / "python" / FILES["some_engine.books.drafter"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (folder / "python/some_engine/other.py").write_text("raise RuntimeError('nobody imports me')\n")
    return path


def refused() -> str:
    with pytest.raises(UsageError) as caught:
        ENGINE.load(FILES, SUPPLIED)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_runs_and_leaves_nothing_behind(checkout: Path) -> None:
    before = dict(sys.modules)
    module = ENGINE.load(FILES, SUPPLIED)["some_engine.books.drafter"]
    assert (module.four, module.name, module.same) == (4, "ours", True)
    assert module.__file__ == str(checkout)
    assert dict(sys.modules) == before
    assert not list(checkout.parent.glob("__pycache__"))


def test_modules_of_the_same_name_come_back(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = type(sys)("another")
    monkeypatch.setitem(sys.modules, "another", mine)
    ENGINE.load(FILES, SUPPLIED)
    assert sys.modules["another"] is mine and "another.tool" not in sys.modules


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import some_engine.other", "imports what the adapter does not supply (ModuleNotFoundError: No module named"),
        ("from some_engine.kernels import thrice", "imports what the adapter does not supply (ImportError"),
        ("from some_engine import other", "imports what the adapter does not supply (ImportError"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit(3)", "does not run: SystemExit: 3; it was tried at revision 1"),
        ("x = 1 / 0", "does not run: ZeroDivisionError"),
    ],
)
def test_what_does_not_run(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)
    before = dict(sys.modules)
    message = refused()
    assert message.startswith(str(path)) and says in message
    assert dict(sys.modules) == before


def test_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_ENGINE_PATH", raising=False)
    assert refused() == (
        "some_engine is not here: set SOME_ENGINE_PATH to a checkout of people/some-engine, or install it"
    )


def test_the_folder_is_not_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_ENGINE_PATH", str(tmp_path))
    assert refused() == (
        f"SOME_ENGINE_PATH={tmp_path}: no folder python/some_engine or some_engine there; "
        "name a checkout of people/some-engine"
    )


def test_the_file_is_not_there(checkout: Path) -> None:
    checkout.unlink()
    assert refused() == f"{checkout}: No such file or directory; some_engine was tried at revision 1"


def test_an_installed_package_is_found_without_running_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_ENGINE_PATH", raising=False)
    written(tmp_path, DRAFTER)
    (tmp_path / "python/some_engine/__init__.py").write_text("raise RuntimeError('the engine starts')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "python"))
    assert ENGINE.load(FILES, SUPPLIED)["some_engine.books.drafter"].four == 4


def test_the_command_line_says_what_to_set(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("TOKENSPEED_PATH", raising=False)
    assert run(["replay", "--system", "tokenspeed", "k4 page4 | a: p4 | a1"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "set TOKENSPEED_PATH to a checkout of lightseekorg/tokenspeed" in error
