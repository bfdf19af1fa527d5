"""An engine's Triton kernels on a CPU, in Triton's interpreter."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from frontier_oracle.oracle.errors import UsageError


def need_triton(engine: str) -> None:
    """Raises UsageError where an engine's kernels have no Triton to run in."""
    if importlib.util.find_spec("triton") is None:
        raise UsageError(f"{engine}: its kernels need triton: install frontier-oracle[cuda]")


class Interpreted:
    """A module of kernels' launchers, each run in the interpreter. ``engine`` is for messages.

    Raises UsageError unless TRITON_INTERPRET=1 was set before triton was imported."""

    def __init__(self, module: ModuleType, engine: str) -> None:
        if os.environ.get("TRITON_INTERPRET") != "1":
            raise UsageError(f"{engine}: on a CPU its kernels run in Triton's interpreter only: set TRITON_INTERPRET=1")
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        launcher = getattr(self._module, name)

        def run(*arguments: Any, **named: Any) -> Any:
            with _bounds_from_tensors():
                return launcher(*arguments, **named)

        return run


@contextmanager
def _bounds_from_tensors() -> Iterator[None]:
    """Loops to a bound that was loaded. Triton 3.6's interpreter makes an int of an array of one element, which numpy
    from 2.4 on refuses to do for one with dimensions."""
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched
    try:
        yield
    finally:
        interpreter._patch_lang_tensor = original
