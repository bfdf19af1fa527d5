"""Files that are there whole or not at all, and plain data for JSON."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any


def write_whole(target: Path, text: str) -> None:
    """Put ``text`` at ``target`` in one step; both the bytes and the new name are on disk afterwards. Parent folders
    are made. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own, beside the target: os.replace is atomic only inside one file system.
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def plain(value: Any) -> Any:
    """numpy scalars and arrays become plain numbers and lists (json's ``default``)."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__}: expected plain data")
