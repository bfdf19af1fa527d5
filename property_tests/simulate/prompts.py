"""Text files cut into prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from frontier_oracle.oracle.errors import UsageError


@dataclass(frozen=True)
class Prompt:
    """One request to be served. name: file and number of its piece, the same for all turns of a piece; turn: 0, 1, ..;
    category: the file's name, or its path where two files have one name; tokens: ids."""

    name: str
    turn: int
    category: str
    tokens: tuple[int, ...]


def cut(
    paths: Sequence[Path], encode: Callable[[bytes], list[int]], length: int, turns: int = 1, limit: int | None = None
) -> list[Prompt]:
    """Prompts of exactly ``length`` tokens: each file's tokens cut into pieces one behind the other, a rest at its end
    left out. With ``turns`` > 1 each piece gives prompts that grow turn by turn to its whole length, as those of a
    conversation do; the later ones start with the earlier ones' tokens. Where that is more than ``limit`` prompts, the
    pieces are taken at even distances over all files. A file named twice counts once.

    Raises UsageError with one line for a file that cannot be read or is no text, and where no file has a prompt.
    """
    if turns > length:
        raise UsageError(f"{turns} turns of a prompt of {length} tokens: a turn needs a token at least")
    paths = list(dict.fromkeys(paths))
    names = Counter(path.name for path in paths)
    called = [path.name if names[path.name] == 1 else path.as_posix() for path in paths]
    pieces = [
        piece for path, name in zip(paths, called, strict=True) for piece in _of_file(path, name, encode, length, turns)
    ]
    if not pieces:
        given = ", ".join(map(str, paths[:3])) + ", ..." * (len(paths) > 3)
        raise UsageError(f"{given}: no file has {length} tokens, one prompt; see --prompt-tokens")
    wanted = len(pieces) if limit is None else min(len(pieces), -(-limit // turns))
    taken = [pieces[len(pieces) * i // wanted] for i in range(wanted)]
    return [prompt for piece in taken for prompt in piece][:limit]


def _of_file(
    path: Path, name: str, encode: Callable[[bytes], list[int]], length: int, turns: int
) -> list[list[Prompt]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); name a text file") from None
    if b"\0" in data:
        raise UsageError(f"{path}: holds a zero byte, so it is no text; name a text file")
    tokens = encode(data)
    ends = [length * (turn + 1) // turns for turn in range(turns)]
    return [
        [
            Prompt(f"{name}:{start // length}", turn, name, tuple(tokens[start : start + end]))
            for turn, end in enumerate(ends)
        ]
        for start in range(0, len(tokens) - length + 1, length)
    ]
