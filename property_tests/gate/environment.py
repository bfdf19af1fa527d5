"""Where a run happened: versions, machine, commit."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path


def version() -> str:
    """The installed version, "unknown" in a bare checkout."""
    try:
        return importlib.metadata.version("frontier-oracle")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def environment() -> dict[str, str]:
    """frontier_oracle, python, numpy, torch, machine, cores, commit ("" outside a checkout)."""
    found = {"frontier_oracle": version(), "python": platform.python_version()}
    for name in ("numpy", "torch"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    found["machine"] = f"{platform.system()} {platform.machine()}"
    found["cores"] = str(os.cpu_count() or 0)
    found["commit"] = _commit()
    return found


def _commit() -> str:
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
