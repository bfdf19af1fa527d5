"""Exit codes, and what the verbs need before they can start."""

from __future__ import annotations

from frontier_oracle.oracle.errors import UsageError

EQUAL = 0
DIVERGENCE = 1
USAGE = 2
HARDWARE = 3
NOTHING_RAN = 5
CRASH = 70
INTERRUPTED = 130


class HardwareMissing(Exception):
    """The run was told to need hardware that is not there (exit 3)."""


def need_torch() -> None:
    """Drafters run on torch, an extra. Raises UsageError that names it."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"this command needs torch, which cannot be imported ({error}): pip install 'frontier-oracle[torch]'"
        ) from None


def need_cuda() -> None:
    """Raises HardwareMissing where torch sees no CUDA device."""
    import torch

    if not torch.cuda.is_available():
        raise HardwareMissing("--require-cuda: torch sees no CUDA device on this machine")
