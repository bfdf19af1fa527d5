"""``bench fuzz`` for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def render(found: Mapping[str, Any]) -> str:
    """Both ways of choosing over all faults, then the hard ones, a line each."""
    lines = [f"{found['faults']} planted faults, request-rounds until the first finding"]
    for way, spread in found["all"].items():
        survivors = f", {spread['survivors']} survived" if spread["survivors"] else ""
        lines.append(f"  {way:<8} median {spread['median']:g}, worst {spread['worst']:,}{survivors}")
    lines.append(f"hard: uniform choice needs more than {found['hard_rounds']} (median of seeds {found['pick_seeds']})")
    for row in found["hard"]:
        rounds = f"uniform {row['uniform']} guided {row['guided']}"
        lines.append(f"  {row['ratio']:6.2f} x  {row['fault']} on {row['base']}: {rounds}")
    if found["ratio"] is not None:
        lines.append(f"geometric mean over the hard ones, uniform over guided: {found['ratio']:.2f} x")
    return "\n".join(lines)
