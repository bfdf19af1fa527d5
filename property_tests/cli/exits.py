"""Exit codes, and what the verbs need before they can start."""

from __future__ import annotations

import importlib.util

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.registry import HardwareMissing

__all__ = ["HardwareMissing"]

EQUAL = 0
DIVERGENCE = 1
USAGE = 2
HARDWARE = 3
NOTHING_RAN = 5
CRASH = 70
INTERRUPTED = 130

REPORT_MODULES = ("jinja2", "matplotlib", "pyarrow")


def need_torch() -> None:
    """Drafters run on torch, an extra. Raises UsageError that names it."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"this command needs torch, which cannot be imported ({error}): pip install 'frontier-oracle[torch]'"
        ) from None


def need_cuda(what: str = "--require-cuda") -> None:
    """Raises HardwareMissing where torch sees no CUDA device; ``what`` is what asked for one."""
    import torch

    if not torch.cuda.is_available():
        raise HardwareMissing(f"{what}: torch sees no CUDA device on this machine")


def need_modules(what: str, extra: str, *names: str) -> None:
    """Raises UsageError that names the extra where one of ``names`` is not installed."""
    missing = [name for name in names if not _installed(name)]
    if missing:
        raise UsageError(f"{what} needs {', '.join(missing)}: pip install 'frontier-oracle[{extra}]'")


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # what sys.modules holds under that name is no module
        return False
