"""Row geometry of a design declaration on tensors: which positions each request re-runs, and which rows only stand by.

Everything is rectangular, [bs, m], with each request's rows at the right: the window ends are what the rules are about.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from frontier_oracle.oracle.designs import Design
from frontier_oracle.oracle.spec import Spec


@dataclass(frozen=True)
class Rows:
    """positions [bs, m] int64, right-aligned; first, end [bs]: a request's rows are first..end-1, those in front of
    ``first`` do not exist; masked [bs, m] bool: rows that exist and store nothing."""

    positions: Tensor
    first: Tensor
    end: Tensor
    masked: Tensor

    @property
    def exists(self) -> Tensor:
        """[bs, m] bool."""
        return self.positions >= self.first[:, None]

    def query_start_loc(self) -> Tensor:
        """[bs+1] int32 offsets of the packed rows."""
        return torch.cat([self.first.new_zeros(1), (self.end - self.first).cumsum(0)]).int()


def stash_rows(design: Design, spec: Spec) -> int:
    """How many positions before the frontier the stash keeps."""
    if design.stash_length == "front":
        return spec.steps - 1 + spec.taps
    return {"0": 0, "1": 1, "steps-1": spec.steps - 1, "steps": spec.steps, "k-1": spec.k - 1}[design.stash_length]


def rule(design: Design, depth: int) -> str:
    return design.first_rows if depth == 0 else design.rows


def decode_rows(design: Design, spec: Spec, depth: int, frontier: Tensor, accepts: Tensor, covered: Tensor) -> Rows:
    """A depth's rows after a verification. frontier: F [bs], accepts: a [bs], covered [bs]: the lowest position that
    the stash vouches for."""
    k, steps, now, d = spec.k, spec.steps, frontier + accepts, depth
    which = rule(design, depth)
    idle = torch.zeros_like(frontier)
    if which in ("verify", "lookback", "front"):
        in_front = 0 if which == "verify" else steps - 1
        idle = idle + (spec.taps if which == "front" else 0)
        first, end = frontier - in_front - idle, frontier + k
    elif which == "minimal":
        first, end = now - accepts.clamp(min=steps), now
    elif which in ("frontier", "last_steps", "minimal_in_k"):
        first, end = now - (steps if which == "last_steps" else k), now
        idle = k - accepts.clamp(min=steps) if which == "minimal_in_k" else idle
    elif which == "advancing":
        first, end = now - 1 + d, now + d
    else:
        first, end, idle = now - k, now + d + 1, k - accepts
    positions = _right_aligned(first, end)
    masked = (positions < covered[:, None]) | (positions < (first + idle)[:, None]) | (positions < 0)
    if design.before_zero == "clamp":
        masked = torch.zeros_like(masked)
    return Rows(positions, first, end, masked)


def chunk_rows(design: Design, depth: int, start: Tensor, end: Tensor) -> Rows:
    """A depth's rows of a prompt chunk that runs from ``start`` (re-run rows included) to ``end`` - 1, [bs] each."""
    which, first = rule(design, depth), start
    if which == "advancing":
        first, end = end - 1 + depth, end + depth
    elif which == "rebuild":
        end = end + depth + 1
    positions = _right_aligned(first, end)
    return Rows(positions, first, end, torch.zeros_like(positions, dtype=torch.bool))


def sampled_position(design: Design, depth: int, now: Tensor) -> Tensor:
    """Where the draft is taken: F'-1, or the last row of those that run on drafts. [bs]"""
    return now + {"advancing": depth - 1, "rebuild": depth}.get(rule(design, depth), -1)


def _right_aligned(first: Tensor, end: Tensor) -> Tensor:
    most = int((end - first).max())
    return end[:, None] - most + torch.arange(most, device=end.device)
