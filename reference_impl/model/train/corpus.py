"""Text to train on: source files as bytes, held-out files apart, batches that follow from a seed."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reference_impl.model.config import BOS, EOS

# Contents of files -> the tokens of each, uint16.
Encode = Callable[[list[bytes]], list[np.ndarray]]
# Not source text: installed packages, tables of character codes, one module of prose, what a build wrote down.
LEFT_OUT = ("site-packages", "dist-packages", "encodings", "pydoc_data", "config-")
HELD_OUT_PART = 16 / 256


@dataclass(frozen=True)
class Part:
    """Packed files. tokens [n] uint16: each file's, in order. sha256: over every path and content, in order."""

    tokens: np.ndarray
    files: int
    bytes: int
    sha256: str

    def facts(self) -> dict[str, int | str]:
        """What a record says of it."""
        return {"files": self.files, "bytes": self.bytes, "tokens": len(self.tokens), "sha256": self.sha256}


@dataclass(frozen=True)
class Corpus:
    """Training and held-out text, of different files."""

    train: Part
    held_out: Part

    def facts(self) -> dict[str, dict[str, int | str]]:
        return {"train": self.train.facts(), "held_out": self.held_out.facts()}


def standard_library() -> Path:
    """Where this Python keeps its standard library's sources (PSF licence)."""
    return Path(sysconfig.get_paths()["stdlib"])


def as_bytes(contents: list[bytes]) -> list[np.ndarray]:
    """A token a byte, between BOS and EOS."""
    ends = np.array([[BOS], [EOS]], np.uint16)
    return [np.concatenate([ends[0], np.frombuffer(c, np.uint8), ends[1]], dtype=np.uint16) for c in contents]


def read_corpus(folder: Path, encode: Encode = as_bytes) -> Corpus:
    """All .py files below ``folder``, in order of their paths. Raises UsageError where one part would be empty."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py") if path.is_file())
    chosen = [path for path in paths if not path.startswith(LEFT_OUT) and not path.startswith("_sysconfigdata")]
    parts = []
    for held_out in (False, True):
        names = [path for path in chosen if is_held_out(path) is held_out]
        if not names:
            what = "held-out" if held_out else "training"
            raise UsageError(f"{folder}: {len(chosen)} .py files, none of them {what} text; name a larger folder")
        parts.append(pack([(name, (folder / name).read_bytes()) for name in names], encode))
    return Corpus(*parts)


def is_held_out(path: str) -> bool:
    """One file in sixteen, by a hash of its path, so that a file stays on its side whatever stands beside it."""
    return hashlib.sha256(os.fsencode(path)).digest()[0] < HELD_OUT_PART * 256


def pack(files: list[tuple[str, bytes]], encode: Encode = as_bytes) -> Part:
    """(path, content) pairs as one run of tokens."""
    digest = hashlib.sha256()
    for path, content in files:
        digest.update(os.fsencode(path) + f"\0{len(content)}\0".encode())
        digest.update(content)
    contents = [content for _, content in files]
    return Part(np.concatenate(encode(contents)), len(files), sum(map(len, contents)), digest.hexdigest())


class Batches:
    """Random stretches of a part. Batch ``step`` depends on seed and step alone, so a resumed run draws the same."""

    def __init__(self, tokens: np.ndarray, rows: int, length: int, seed: int, device: str) -> None:
        if len(tokens) <= length:
            raise UsageError(f"{len(tokens)} tokens of text; a stretch takes {length}: name more text")
        self.tokens = torch.from_numpy(tokens.astype(np.int32)).to(device)
        self.rows, self.length, self.seed = rows, length, seed
        self.span = torch.arange(length, device=device)

    def __call__(self, step: int) -> Tensor:
        """[rows, length] int64."""
        drawn = np.random.default_rng([self.seed, step]).integers(0, len(self.tokens) - self.length, self.rows)
        starts = torch.from_numpy(drawn).to(self.tokens.device)
        return self.tokens[starts[:, None] + self.span].long()
