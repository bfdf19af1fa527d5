"""The sentence a comparison ends with, and whether it fails the build."""

from __future__ import annotations

import re
from dataclasses import dataclass

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.analysis.bootstrap import MIN_CLUSTERS
from frontier_oracle.reports.pairing import PAIRED_SHARE, Pairing, Side


@dataclass(frozen=True)
class Change:
    """B / A - 1 and its 95 % interval; low and high are None where there are too few requests for one."""

    value: float
    low: float | None
    high: float | None

    @property
    def span(self) -> str:
        if self.low is None or self.high is None:
            return ""
        return f" [{100 * self.low:+.1f} %, {100 * self.high:+.1f} %]"


def parse_share(text: str | float) -> float:
    """``"2%"`` or ``0.02`` as 0.02. UsageError outside [0, 1)."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", str(text))
    share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= share < 1:
        raise UsageError(f"--fail-if-drop {text}: expected a percentage such as 2% or a share such as 0.02")
    return share


def verdict(name: str, a: Side, b: Side, change: Change, pairing: Pairing, allowed: float | None) -> tuple[str, bool]:
    """(one sentence, True if it dropped by more than ``allowed``). ``name`` is the definition compared."""
    head = (
        f"{name}: {a.mean:.3f} in A, {b.mean:.3f} in B, {100 * change.value:+.1f} %{change.span}, {_how(a, b, pairing)}"
    )
    if change.low is None or change.high is None:
        return _without_interval(head, change, allowed)
    drop, rise = change.high < 0, change.low > 0
    head += ": a drop" if drop else ": a rise" if rise else ": no difference that these requests can show"
    if allowed is None:
        return f"{head}.", False
    limit = f"{100 * allowed:g} %"
    if change.value >= -allowed:
        return f"{head}. PASS: no drop of more than {limit}.", False
    if not drop:
        noise = "but within the noise; more requests are needed"
        return f"{head}. PASS, undecided: more than {limit} lower, {noise}.", False
    return f"{head}. FAIL: dropped by more than {limit}.", True


def _without_interval(head: str, change: Change, allowed: float | None) -> tuple[str, bool]:
    """Fewer than five requests: noise cannot be told from a drop, so the drop alone decides."""
    few = f"fewer than {MIN_CLUSTERS} requests, so no interval"
    if allowed is None:
        return f"{head}: {few}.", False
    failed = change.value < -allowed
    what = "FAIL: dropped by more than" if failed else "PASS: no drop of more than"
    return f"{head}. {what} {100 * allowed:g} % ({few}: the drop alone decides).", failed


def _how(a: Side, b: Side, pairing: Pairing) -> str:
    if pairing.paired:
        left_out = pairing.unmatched_a + pairing.unmatched_b
        rest = f" ({pairing.unmatched_a} of A and {pairing.unmatched_b} of B have no partner)" if left_out else ""
        return f"paired over {len(a.keys)} requests or turns{rest}"
    share = f"{100 * pairing.share:.0f} %"
    why = "no id in common" if not pairing.share else f"ids of only {share} match, pairing needs {PAIRED_SHARE:.0%}"
    if pairing.repeated:
        why = "ids repeat within a side"
    return f"unpaired, {len(a.keys)} against {len(b.keys)} requests ({why})"
