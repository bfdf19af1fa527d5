"""Errors of the GPU implementation: one clear line each, the user's to mend."""

from __future__ import annotations

from frontier_oracle.oracle.errors import UsageError


class CaptureRefused(UsageError):
    """A round that cannot be captured: the message says which operation or size stands in the way (S24)."""


class ReplayError(RuntimeError):
    """A replay that does not fit what was captured: a shape that changed."""


class BatchError(UsageError):
    """A batch whose shapes or dtypes differ from contract.DecodeBatch or contract.ExtendBatch."""
