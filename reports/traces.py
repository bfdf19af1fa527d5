"""Accept-length sequences from Spec-Bench answer files, for driving scenarios and what-if replays.

A Spec-Bench answer file is JSONL, one question a line; ``choices[].accept_lengths`` holds one accept length (bonus
included) per verify round, flat over the turns, and ``choices[].decoding_steps`` the rounds of each turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from frontier_oracle.oracle.errors import UsageError

UNCUT = -1


@dataclass(frozen=True)
class AcceptSequence:
    """Accept lengths of one turn, in order, each >= 1. turn counts from 0; UNCUT (-1) where ``decoding_steps`` does not
    add up to the rounds, so that all turns stand in one sequence."""

    source: str
    request_id: str
    turn: int
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class Skipped:
    """A line (from 1) that gave no sequence, and why."""

    file: str
    line: int
    why: str


@dataclass
class Scan:
    """What a directory holds: sequences in file order, and every line left out."""

    sequences: list[AcceptSequence] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def uncut(self) -> int:
        """How many sequences hold all turns of a request in one."""
        return sum(s.turn == UNCUT for s in self.sequences)


class _Unusable(Exception):
    """A line that gives no sequence. ``empty`` lines are sound, only without rounds; ``foreign`` ones no Spec-Bench."""

    def __init__(self, why: str, empty: bool = False, foreign: bool = False) -> None:
        super().__init__(why)
        self.empty, self.foreign = empty, foreign


def read_accept_lengths(path: str | Path) -> list[AcceptSequence]:
    """Every sequence of one named file. Questions without a round are left out.

    Raises UsageError with file and line at the first line that is broken, truncated, or has a length that is no
    integer >= 1, and for a file without any accept length.
    """
    sequences = []
    for item in _stream(Path(path)):
        if isinstance(item, AcceptSequence):
            sequences.append(item)
        elif not item[1].empty:
            raise UsageError(f"{item[0].file}:{item[0].line}: {item[0].why}")
    if not sequences:
        raise UsageError(f"{path}: no accept lengths in it; expected Spec-Bench JSONL with choices[].accept_lengths")
    return sequences


def read_directory(path: str | Path) -> Scan:
    """Every ``*.jsonl`` below a directory, in the order of their paths; lines that give nothing are listed.

    A file whose first line is no Spec-Bench answer is listed once and left. Raises UsageError for a path that is no
    directory.
    """
    root = Path(path)
    if not root.is_dir():
        raise UsageError(f"{path}: not a directory; name a directory with Spec-Bench *.jsonl files below it")
    scan = Scan()
    for file in sorted(root.rglob("*.jsonl")):
        for item in _stream(file):
            if isinstance(item, AcceptSequence):
                scan.sequences.append(item)
                continue
            scan.skipped.append(item[0])
            if item[1].foreign and item[0].line == 1:
                break
    return scan


def clip(lengths: Sequence[int], k: int) -> tuple[tuple[int, ...], int]:
    """Lengths cut to at most k (a drafter with a wider window made the trace), and how many of them were cut."""
    return tuple(min(a, k) for a in lengths), sum(a > k for a in lengths)


def bundled_path() -> Path:
    """The traces that ship with this project (bundled/make_traces.py says how they were made)."""
    return Path(__file__).parent / "bundled" / "prompt_lookup_stdlib.jsonl"


def _stream(path: Path) -> Iterator[AcceptSequence | tuple[Skipped, _Unusable]]:
    """Line by line, so that a file may be larger than memory."""
    if path.is_dir():
        raise UsageError(f"{path}: is a directory; name a Spec-Bench JSONL file")
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    yield from _sequences(str(path), _answer(line))
                except _Unusable as why:
                    yield Skipped(str(path), number, str(why)), why
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error


def _answer(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError) as error:  # broken JSON, broken UTF-8, nested past all reason
        if not line.endswith(b"\n"):
            raise _Unusable("truncated last line: the JSON ends early; cut it off or fetch the file anew") from None
        raise _Unusable(f"broken JSON ({error}); expected one object a line", foreign=True) from None
    if not isinstance(answer, dict):
        raise _Unusable(f"expected a JSON object, got {_show(answer)}", foreign=True)
    return answer


def _sequences(source: str, answer: dict[str, Any]) -> Iterator[AcceptSequence]:
    """Checks the whole line before the first sequence leaves it."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not all(isinstance(c, dict) for c in choices):
        raise _Unusable("no choices[]; expected a Spec-Bench answer with choices[].accept_lengths", foreign=True)
    if not any("accept_lengths" in choice for choice in choices):
        raise _Unusable("no choices[].accept_lengths: this format has no lengths of single rounds", foreign=True)
    request = str(answer.get("question_id", ""))
    found = []
    for index, choice in enumerate(choices):
        name = request if len(choices) == 1 else f"{request}/{index}"
        lengths = _lengths(choice.get("accept_lengths"))
        found += [AcceptSequence(source, name, turn, part) for turn, part in _turns(lengths, choice) if part]
    if not found:
        raise _Unusable("accept_lengths is empty: no round was counted", empty=True)
    yield from found


def _lengths(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list):
        raise _Unusable(f"accept_lengths: expected a list of integers >= 1, got {_show(values)}")
    for i, value in enumerate(values):
        if type(value) is not int or value < 1:
            raise _Unusable(f"accept_lengths[{i}]: expected an integer >= 1 (bonus included), got {_show(value)}")
    return tuple(values)


def _turns(lengths: tuple[int, ...], choice: dict[str, Any]) -> list[tuple[int, tuple[int, ...]]]:
    steps = choice.get("decoding_steps")
    if not isinstance(steps, list):
        steps = [steps]
    if not all(type(step) is int and step >= 0 for step in steps) or sum(steps) != len(lengths):
        return [(UNCUT, lengths)]
    return [(turn, lengths[a:b]) for turn, (a, b) in enumerate(pairwise(accumulate(steps, initial=0)))]


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
