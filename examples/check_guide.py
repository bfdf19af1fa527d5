"""Runs docs/guide.md: python examples/check_guide.py [BIN]. Standard library only: it runs beside a bare wheel.

Works on a copy of the example. A block ``console`` holds commands, ``$`` in front, and the lines that each must print,
in this order: a line ``...`` stands for any lines, ``...`` inside one for any text, ``exit N`` for the exit code (0 if
it is not there). A block ``diff`` is applied. BIN is the folder that frontier-oracle stands in.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide.md"
BLOCK = re.compile(r"^```(console|diff)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """("console" or "diff", lines) of each block that is to be run, in order."""
    for found in BLOCK.finditer(text):
        yield found[1], found[2].splitlines()


def commands(lines: list[str]) -> Iterator[tuple[str, list[str], int]]:
    """(command, expected lines, expected exit code)."""
    parts: list[list[str]] = []
    for line in lines:
        if line.startswith("$ "):
            parts.append([line[2:]])
        else:
            parts[-1].append(line)
    for command, *expected in parts:
        code = int(expected.pop().split()[1]) if expected and re.fullmatch(r"exit \d+", expected[-1]) else 0
        yield command, expected, code


def missing(expected: list[str], printed: str) -> str:
    """The first expected line that is not there in its place, "" if all are."""
    pattern, lines = "", printed.splitlines()
    at, free = 0, False
    for line in expected:
        if line == "...":
            free = True
            continue
        pattern = ".*".join(re.escape(part) for part in line.rstrip().split("..."))
        reach = range(at, len(lines) if free else min(at + 1, len(lines)))
        found = next((i for i in reach if re.fullmatch(pattern, lines[i].rstrip())), None)
        if found is None:
            return line
        at, free = found + 1, False
    return ""


def apply(lines: list[str], folder: Path) -> None:
    """A diff of one file whose removed lines stand there once."""
    name = next(line for line in lines if line.startswith("+++ b/"))[6:]
    old = "\n".join(line[1:] for line in lines if line.startswith("-") and not line.startswith("---"))
    new = "\n".join(line[1:] for line in lines if line.startswith("+") and not line.startswith("+++"))
    text = (folder / name).read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise SystemExit(f"guide: the diff's removed lines stand {text.count(old)} times in {name}, expected once")
    (folder / name).write_text(text.replace(old, new), encoding="utf-8")


def walk(text: str, folder: Path, run: Callable[[str], tuple[int, str]]) -> int:
    """Go through the guide: ``run`` takes a command and returns exit code and output. Returns how many commands there
    were. Exits where one does something else."""
    count = 0
    for kind, lines in blocks(text):
        if kind == "diff":
            apply(lines, folder)
            continue
        for command, expected, code in commands(lines):
            got, printed = run(command)
            absent = missing(expected, printed)
            if absent or got != code:
                what = f"does not print {absent!r}" if absent else f"exits {got}, expected {code}"
                raise SystemExit(f"guide: {command}\n{what}; it printed:\n{printed}")
            count += 1
    return count


def copied(folder: Path) -> Path:
    """A copy of the toy engine below ``folder``."""
    return Path(shutil.copytree(ROOT / "examples" / "toy_engine", folder / "toy_engine"))


def main(path: str) -> None:
    environment = os.environ | {"PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder))

        def run(command: str) -> tuple[int, str]:
            done = subprocess.run(command, shell=True, cwd=copy, env=environment, stdout=subprocess.PIPE, text=True)
            return done.returncode, done.stdout

        count = walk(GUIDE.read_text(encoding="utf-8"), copy, run)
    print(f"guide: {count} commands did what docs/guide.md says")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.dirname(sys.executable))
