"""The ledger of a fuzz run: which units are done, what they showed. One JSON object a line, appended and never changed.

Units are entered in their order, so the ledger is the run's first n units and the next one to do is number n: nothing
is lost, since what is not entered is done again, and nothing counts twice. A line is written in one go; half a line
that a crash left at the end is cut off by the next run.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from frontier_oracle.oracle.errors import RecordError, UsageError
from frontier_oracle.oracle.repro import tool_version
from frontier_oracle.property_tests.fuzz.situations import Pair
from frontier_oracle.property_tests.fuzz.units import Plan, Raw, UnitResult

FORMAT = "frontier-oracle/fuzz"
VERSION = 1
# So many findings of one code are made small; of more it is only counted how often: mend these first.
SHRUNK_PER_CODE = 4

Json = dict[str, Any]


def path_of(folder: Path, plan: Plan) -> Path:
    """A file for each plan and version of this tool: another one draws other units under the same numbers."""
    system = re.sub("[^A-Za-z0-9_.]+", "-", plan.system)
    how = "guided" if plan.guided else "uniform"
    return folder / f"fuzz-{system}-seed{plan.seed}-{how}{plan.scenarios}-{tool_version()}.jsonl"


class Ledger:
    """What is done of a plan. Only one process at a time has it open.

    units, scenarios, rounds: totals; pairs: those exercised; met: how many units met each code; open: findings that are
    still to be made small, in the order they were met; files: repro files by the finding they came from.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        self.units = self.scenarios = self.rounds = 0
        self.pairs: set[Pair] = set()
        self.met: Counter[str] = Counter()
        self.open: list[tuple[int, Raw]] = []
        self.files: list[str] = []
        header = {
            "type": "header",
            "format": FORMAT,
            "version": VERSION,
            "system": plan.system,
            "seed": plan.seed,
            "guided": plan.guided,
            "scenarios": plan.scenarios,
            "tool_version": tool_version(),
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise RecordError(f"{path}: cannot be written: {error.strerror}") from None
        self._lock()
        if not self._read(header):
            self._append(header)

    def close(self) -> None:
        os.close(self._file)

    def enter(self, result: UnitResult) -> None:
        """A unit is done; it must be the next one. On disk when this returns."""
        assert result.index == self.units, f"unit {result.index} entered, unit {self.units} is next"
        data: Json = {
            "type": "unit",
            "unit": result.index,
            "scenarios": result.scenarios,
            "rounds": result.rounds,
            "new_pairs": sorted(result.pairs - self.pairs),
            "findings": [[raw.code, raw.scenario, raw.guard] for raw in result.raw],
        }
        self._append(data)
        self._take(data)

    def settle(self, unit: int, code: str, file: str) -> None:
        """A finding was made small and stands in ``file``; "" where the system does not show it any more."""
        data: Json = {"type": "finding", "unit": unit, "code": code, "file": file}
        self._append(data)
        self._take(data)

    # -- the file -----------------------------------------------------------------------------------------------------

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise UsageError(f"{self.path}: another fuzz run has it open; give this one another --seed") from None

    def _append(self, data: Json) -> None:
        line = (json.dumps(data, separators=(",", ":")) + "\n").encode()
        try:
            while line:
                line = line[os.write(self._file, line) :]
            os.fsync(self._file)
        except OSError as error:
            raise RecordError(f"{self.path}: cannot be written: {error.strerror}") from None

    def _read(self, header: Json) -> bool:
        """Take in what stands there; False for an empty file."""
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            os.ftruncate(self._file, len(whole))
        for number, data in enumerate(self._lines(whole), start=1):
            if number == 1:
                if data != header:
                    raise RecordError(f"{self.path}:1: not this run's ledger; move it away, or name another folder")
                continue
            try:
                self._take(data)
            except (KeyError, TypeError, ValueError) as error:
                raise self._broken(number, f"{type(error).__name__}: {error}") from None
        return bool(whole)

    def _lines(self, text: bytes) -> Iterator[Json]:
        for number, line in enumerate(text.splitlines(), start=1):
            try:
                data = json.loads(line)
            except ValueError as error:
                raise self._broken(number, str(error)) from None
            if not isinstance(data, dict):
                raise self._broken(number, f"a {type(data).__name__}")
            yield data

    def _broken(self, number: int, problem: str) -> RecordError:
        return RecordError(f"{self.path}:{number}: broken, expected a line of a ledger ({problem}); move the file away")

    def _take(self, data: Json) -> None:
        if data["type"] == "unit":
            if data["unit"] != self.units:
                raise ValueError(f"unit {data['unit']}, expected {self.units}")
            self.units += 1
            self.scenarios += data["scenarios"]
            self.rounds += data["rounds"]
            self.pairs |= {(rule, state, event) for rule, state, event in data["new_pairs"]}
            for code, scenario, guard in data["findings"]:
                self.met[code] += 1
                if self.met[code] <= SHRUNK_PER_CODE:
                    self.open.append((data["unit"], Raw(code, scenario, guard)))
        elif data["type"] == "finding":
            at = [(unit, raw.code) for unit, raw in self.open].index((data["unit"], data["code"]))
            self.open.pop(at)
            self.files += [data["file"]] * (data["file"] != "" and data["file"] not in self.files)
        else:
            raise ValueError(f"unknown line type {data['type']!r}")
