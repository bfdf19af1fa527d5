"""Opens input files: plain, gzip or zstd, in a stream, within limits that a hostile file cannot pass."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import pyarrow as pa

from frontier_oracle.oracle.errors import UsageError

MAX_LINE = 64 << 20
"""Longest line (bytes) that is read. A response with its text is far below this; a longer line is refused."""
MAX_DOCUMENT = 256 << 20
"""Largest JSON document (bytes, decompressed) that has to be held whole because it is not one record a line."""
MAX_RATIO = 200
"""Most times larger than its file a compressed stream may become (beyond the first MAX_DOCUMENT bytes)."""
_BLOCK = 1 << 20

GZIP_MAGIC, ZSTD_MAGIC, PARQUET_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"


class SourceError(UsageError):
    """A file that cannot be read: missing, not a regular file, over a limit, or damaged compression."""


def magic(path: Path) -> bytes:
    """The first four bytes; SourceError if the path is not a readable regular file."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise SourceError(f"{path}: a directory, where a file was expected")
        if not stat.S_ISREG(mode):
            raise SourceError(f"{path}: not a regular file; give a file, a directory or a glob")
        with path.open("rb") as stream:
            return stream.read(4)
    except OSError as error:
        raise SourceError(
            f"{path}: cannot be read ({error.strerror or error}); check the name and permissions"
        ) from None


class _Bounded(io.RawIOBase):
    """Passes a decompressed stream through and refuses one that swells beyond MAX_RATIO."""

    def __init__(self, inner: IO[bytes], path: Path) -> None:
        self.inner, self.path, self.total = inner, path, 0
        self.limit = MAX_DOCUMENT + MAX_RATIO * path.stat().st_size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer))
        data = self.inner.read(len(view))
        view[: len(data)] = data
        self.total += len(data)
        if self.total > self.limit:
            raise SourceError(
                f"{self.path}: decompresses to more than {self.limit >> 20} MB (over {MAX_RATIO} times "
                "its size); decompress it yourself if it is genuine"
            )
        return len(data)


def open_bytes(path: Path) -> IO[bytes]:
    """A buffered binary stream of the decompressed content."""
    head = magic(path)
    if head.startswith(GZIP_MAGIC):
        inner = cast(IO[bytes], gzip.open(path, "rb"))  # noqa: SIM115 (the caller closes the stream around it)
    elif head == ZSTD_MAGIC:
        inner = cast(IO[bytes], pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))
    else:
        return path.open("rb")
    return io.BufferedReader(_Bounded(inner, path), _BLOCK)


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, line) of the decompressed content. A line over MAX_LINE is refused."""
    try:
        with open_bytes(path) as stream:
            number = 0
            while line := stream.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise SourceError(
                        f"{path}:{number}: a line of more than {MAX_LINE >> 20} MB; one record a line is expected"
                    )
                yield number, line
    except (OSError, EOFError, ValueError) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"{path}: damaged or truncated ({error})") from None


def matching_lines(path: Path, needles: Sequence[bytes], everything: Callable[[], bool]) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, line) of the lines that contain a needle; of every line once ``everything()`` is true.

    Whole blocks are searched, so that a log costs by its matches and not by its lines.
    """
    done, rest = 0, b""
    try:
        with open_bytes(path) as stream:
            while block := stream.read(_BLOCK):
                data = rest + block
                end = data.rfind(b"\n") + 1
                rest = data[end:]
                if len(rest) > MAX_LINE:
                    raise SourceError(f"{path}: a line of more than {MAX_LINE >> 20} MB; no log has such lines")
                yield from _matches(data[:end], done, needles, everything)
                done += data.count(b"\n", 0, end)
            yield from _matches(rest, done, needles, everything)
    except (OSError, EOFError) as error:
        raise SourceError(f"{path}: damaged or truncated ({error})") from None


def _matches(
    data: bytes, done: int, needles: Sequence[bytes], everything: Callable[[], bool]
) -> Iterator[tuple[int, bytes]]:
    """Matching lines of a block of whole lines, the first of which has the number done + 1."""
    spans = {span for needle in needles for span in _spans(data, needle)} if not everything() else set()
    at, number = 0, done
    for start, end in sorted(spans):
        number += data.count(b"\n", at, start)
        at = start
        yield number + 1, data[start:end]
        if everything():
            break
    if everything() and data:
        skip = data.find(b"\n", at) + 1 if spans else 0
        if spans and not skip:
            return
        first = number + 2 if spans else done + 1
        yield from enumerate(data[skip:].splitlines(), start=first)


def _spans(data: bytes, needle: bytes) -> Iterator[tuple[int, int]]:
    at = data.find(needle)
    while at >= 0:
        start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield start, end
        at = data.find(needle, end)


def whole(path: Path) -> bytes:
    """The decompressed content, refused beyond MAX_DOCUMENT."""
    try:
        with open_bytes(path) as stream:
            data = stream.read(MAX_DOCUMENT + 1)
    except (OSError, EOFError) as error:
        raise SourceError(f"{path}: damaged or truncated ({error})") from None
    if len(data) > MAX_DOCUMENT:
        raise SourceError(
            f"{path}: one JSON document of more than {MAX_DOCUMENT >> 20} MB; one record a line (JSONL) "
            "or Parquet can be of any size"
        )
    return data


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def expand(given: str) -> tuple[list[Path], bool, list[str]]:
    """Files of one argument: (files, named, skipped). A directory is walked without following links; a glob expands.

    ``named`` is true for a single file that the user named, whose failure is an error and not a count.
    """
    path = Path(given)
    if path.is_dir():
        files, skipped = _walk(path)
        return files, False, skipped
    if not path.exists() and any(char in given for char in "*?["):
        anchor = Path(path.anchor) if path.is_absolute() else Path()
        pattern = str(path.relative_to(path.anchor)) if path.is_absolute() else given
        files, skipped = _split(sorted(anchor.glob(pattern)))
        if not files:
            raise SourceError(f"{given}: no file matches")
        return files, False, skipped
    return [path], True, []


def _walk(root: Path) -> tuple[list[Path], list[str]]:
    found: list[Path] = []
    skipped: list[str] = []
    for folder, folders, names in os.walk(root, followlinks=False):
        folders.sort()
        skipped += [str(Path(folder, name)) for name in folders if Path(folder, name).is_symlink()]
        found += [Path(folder, name) for name in sorted(names)]
    files, more = _split(found)
    return files, skipped + more


def _split(paths: list[Path]) -> tuple[list[Path], list[str]]:
    """Regular files, and the links and special files that are passed over."""
    files = [path for path in paths if path.is_file() and not path.is_symlink()]
    skipped = [str(path) for path in paths if path.is_symlink() or not (path.is_file() or path.is_dir())]
    return files, skipped
