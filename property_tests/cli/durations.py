"""Durations as people write them: 90, 30s, 10m, 8h."""

from __future__ import annotations

import re

from frontier_oracle.oracle.errors import UsageError

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str, option: str) -> float:
    """The seconds in "90", "30s", "10m", "8h" or "1.5h". Raises UsageError that names the option."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if found is None:
        raise UsageError(f"{option} {text!r}: expected a number of seconds, or one with s, m or h, as 30s, 10m, 8h")
    return float(found[1]) * UNITS[found[2]]
