"""What is simulated: window width, depths, cache groups, conv ring. Limits are named errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from frontier_oracle.oracle.errors import RingTooShort, SpecError, StepsExceedWindow, WindowTooNarrow

# chain, target, shifted: S1. previous: unshifted, depth d at p consumes x[p] and h(p-1). single: one layer serves every
# step, which runs one more row, on the output of the row before (EAGLE-like).
HiddenSemantic = Literal["chain", "target", "shifted", "previous", "single"]


@dataclass(frozen=True)
class CacheGroup:
    """One KV cache group (S17). ``window`` is None for full history, else the attention window in positions."""

    page_size: int
    window: int | None = None

    def cols(self, max_positions: int, k: int, chunk: int = 0) -> int:
        """Columns of the group's page table: full history, or a ring of pages.

        A ring covers the window and the rows of one call: 2k (a window, verify-anchored or lookback, S17), or a
        longest prompt chunk with its re-run rows, whose early rows must still see what the late ones overwrite.
        One page of slack lets a shared page be swapped out of a ring before any row can need its new content.
        """
        if self.window is None:
            return math.ceil(max_positions / self.page_size)
        return math.ceil((self.window + max(2 * k, chunk + k)) / self.page_size) + 1


@dataclass(frozen=True)
class Spec:
    """The configuration of one drafter under test.

    k: verify rows (``spec_num_tokens``); steps: draft depths (``spec_num_steps``, default k - 1);
    hidden: what depth d >= 1 consumes (S1); conv_width: W, taps are the W - 1 rows before (1 = no conv);
    groups: KV cache groups, depth d belongs to group d % len(groups); ring_rows: R (default (W-1) + k, S18).
    """

    k: int = 4
    steps: int = field(default=0)
    hidden: HiddenSemantic = "chain"
    conv_width: int = 4
    groups: tuple[CacheGroup, ...] = (CacheGroup(16),)
    ring_rows: int = field(default=0)

    def __post_init__(self) -> None:
        if self.k < 2:
            raise WindowTooNarrow(f"k={self.k}: a verify window needs k >= 2")
        if self.steps == 0:
            object.__setattr__(self, "steps", self.k - 1)
        if not self.steps >= 1:
            raise SpecError(f"steps={self.steps}: at least one draft depth is needed")
        if self.steps > self.k:
            raise StepsExceedWindow(f"steps={self.steps} > k={self.k}: a k-row window covers at most k depths (S4)")
        if self.conv_width < 1:
            raise SpecError(f"conv width W={self.conv_width}: W >= 1 (1 = no conv)")
        if not self.groups or any(g.page_size < 1 or (g.window is not None and g.window < 1) for g in self.groups):
            raise SpecError("cache groups need a page size and a window of at least 1")
        if self.ring_rows == 0:
            object.__setattr__(self, "ring_rows", self.conv_width - 1 + self.k)
        if self.ring_rows < self.conv_width - 1 + self.k:
            raise RingTooShort(f"ring of {self.ring_rows} rows < (W-1)+k = {self.conv_width - 1 + self.k} (S18)")

    @property
    def taps(self) -> int:
        """W - 1: how many earlier ring rows an entry reads."""
        return self.conv_width - 1

    @property
    def max_accept(self) -> int:
        """Longest accept length, bonus included: min(k, steps + 1)."""
        return min(self.k, self.steps + 1)

    @property
    def layers(self) -> int:
        """Draft layers with caches of their own: one a depth, or one for all steps."""
        return 1 if self.hidden == "single" else self.steps

    def ahead(self, depth: int) -> int:
        """How far in front of a row the token stands that it consumes: d + 1 (S1), 0 for unshifted heads."""
        return 0 if self.hidden == "previous" else depth + 1

    def group_of(self, depth: int) -> int:
        """Cache group of a depth's KV layer."""
        return depth % len(self.groups)

    def window_of(self, depth: int) -> int | None:
        """Attention window of a depth (None = full history)."""
        return self.groups[self.group_of(depth)].window

    @property
    def reaches(self) -> tuple[int | None, ...]:
        """How many positions below its end a donor must still hold, by group, for a prefix hit: the attention window,
        or the taps where they reach further; None for full history (S18, S21)."""
        return tuple(None if g.window is None else max(g.window, self.taps) for g in self.groups)
