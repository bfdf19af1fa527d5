"""Sizes and standings as coarse classes, a boundary of some rule between each two: the words that situations are told
in."""

from __future__ import annotations

from frontier_oracle.oracle.policies import page_unit
from frontier_oracle.oracle.scenario import Decode, Event, Request
from frontier_oracle.oracle.spec import CacheGroup, Spec


def standing(request: Request) -> str:
    if request.ended:
        return "ended"
    if request.kept:
        return "preempted"
    return "live" if request.finished else "reading"


def how(event: Event) -> str:
    return "eos" if isinstance(event, Decode) else type(event).__name__.lower()


def short(n: int, spec: Spec) -> str:
    """A count against the stash and the window."""
    return "none" if n <= 0 else "below k-1" if n < spec.k - 1 else "below 2k" if n < 2 * spec.k else "enough"


def some(n: int) -> str:
    return ("no", "one", "two", "several")[min(n, 3)]


def times(n: int) -> str:
    return ("not full", "once round", "twice round", "round and round")[min(n, 3)]


def rows_class(n: int) -> str:
    return str(n) if n <= 3 else "4-6" if n <= 6 else "7-9" if n <= 9 else "10 and more"


def far(position: int) -> str:
    """Sizes at which counters and offsets overflow or wrap."""
    return next((f"below {limit}" for limit in (16, 64, 256, 512) if position < limit), "far")


def steps(spec: Spec) -> str:
    gap = spec.steps - spec.k
    return "1 step" if spec.steps == 1 else {0: "steps k", -1: "steps k-1"}.get(gap, "fewer steps")


def page_class(group: CacheGroup, spec: Spec) -> str:
    size = group.page_size
    page = "1" if size == 1 else "below k" if size < spec.k else "16 and less" if size <= 16 else "large"
    return f"page {page}{', window' if group.window is not None else ''}"


def crossing(group: CacheGroup, start: int, end: int) -> str:
    """How positions start..end-1 lie on pages."""
    first, last = start // group.page_size, max(start, end - 1) // group.page_size
    return f"on {some(last - first + 1)} pages, {'ending one' if end % group.page_size == 0 else 'inside'}"


def hit_class(hit: int, spec: Spec) -> str:
    return "gets nothing" if not hit else "gets a page" if hit == page_unit(spec) else "gets pages"
