"""What went wrong in the input: counted by kind, located by file and line, never silently dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

KEPT_PER_KIND = 10_000


def printable(text: object) -> str:
    """``text`` without what no file can be written with: a file's name need not be UTF-8."""
    return str(text).encode("utf-8", "replace").decode()


@dataclass(frozen=True)
class Problem:
    """One defect. ``where`` is ``file:line`` (``file:row`` for columnar files); ``message`` is one line."""

    kind: str
    where: str
    message: str


@dataclass
class ProblemLog:
    """Counts every problem and keeps the first ``KEPT_PER_KIND`` of each kind with their place."""

    counts: Counter[str] = field(default_factory=Counter)
    kept: dict[str, list[Problem]] = field(default_factory=dict)

    def add(self, kind: str, path: str, line: int | None, message: str) -> None:
        self.counts[kind] += 1
        rows = self.kept.setdefault(kind, [])
        if len(rows) < KEPT_PER_KIND:
            where = printable(path if line is None else f"{path}:{line}")
            rows.append(Problem(kind, where, " ".join(printable(message).split())[:400]))

    def add_rows(self, kind: str, path: str, lines: Iterable[int], total: int, message: str) -> None:
        """``total`` problems of one kind at once; ``lines`` may stop early (only the kept ones need a place)."""
        before = self.counts[kind]
        for line in lines:
            if len(self.kept.get(kind, ())) >= KEPT_PER_KIND:
                break
            self.add(kind, path, int(line), message)
        if total:
            self.counts[kind] = before + total

    def merge(self, other: ProblemLog) -> None:
        for kind, rows in other.kept.items():
            mine = self.kept.setdefault(kind, [])
            mine.extend(rows[: KEPT_PER_KIND - len(mine)])
        self.counts.update(other.counts)

    def total(self) -> int:
        return sum(self.counts.values())

    def rows(self) -> list[Problem]:
        return [problem for kind in sorted(self.kept) for problem in self.kept[kind]]
