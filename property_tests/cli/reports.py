"""The ``--report`` option: which files, and that they can be written is known before the run, not after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.files import write_whole
from frontier_oracle.oracle.records import encode
from frontier_oracle.property_tests.gate.results import GateReport
from frontier_oracle.property_tests.render import jsonout, junit, markdown, record

KINDS: Mapping[str, Callable[[GateReport], str]] = {
    "junit": junit.render,
    "json": lambda report: jsonout.render(report) + "\n",
    "md": markdown.render,
    "record": lambda report: encode(record.lines(report)),
}


def parse(values: Iterable[str]) -> dict[str, Path]:
    """Kinds and paths out of "junit=F,json=F". Makes the folders. Raises UsageError for what is no kind, or cannot be
    written."""
    files: dict[str, Path] = {}
    for part in (part for value in values for part in value.split(",")):
        kind, equals, name = part.partition("=")
        if kind not in KINDS or not equals or not name:
            raise UsageError(f"--report {part!r}: expected KIND=FILE with a kind out of {', '.join(KINDS)}")
        if kind in files:
            raise UsageError(f"--report {part!r}: {kind} stands twice")
        files[kind] = Path(name)
        _check_writable(files[kind])
    return files


def write(files: Mapping[str, Path], report: GateReport) -> None:
    """Write every file: whole or not at all. Raises UsageError."""
    for kind, path in files.items():
        try:
            write_whole(path, KINDS[kind](report))
        except OSError as error:
            raise UsageError(f"--report {kind}={path}: cannot be written: {error.strerror}") from None


def _check_writable(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"--report {path}: is a directory, expected a file")
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--report {path}: the folder cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--report {path}: no permission to write in {folder}")
