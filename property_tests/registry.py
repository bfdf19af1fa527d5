"""Systems by name: the built-in ones, and a user's adapter as ``pkg.mod:make``."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from types import ModuleType
from typing import Any

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.shield import Factory, device_of, in_words, on_device

BUILT_IN = {
    "frontier": "frontier_oracle.reference_impl.frontier:make",
    "tokenspeed_frontier": "frontier_oracle.reference_impl.tokenspeed:make",
    "cuda_eager": "frontier_oracle.cuda_impl.system:cuda_eager",
    "cuda_tape": "frontier_oracle.cuda_impl.system:cuda_tape",
    "minimal": "frontier_oracle.reference_impl.generic:minimal",
    "cuda_graph": "frontier_oracle.cuda_impl.system:cuda_graph",
    "tokenspeed": "frontier_oracle.property_tests.adapters.tokenspeed:make",
    "tokenspeed_backend": "frontier_oracle.property_tests.adapters.tokenspeed_backend:make",
    "tokenspeed_eagle": "frontier_oracle.property_tests.adapters.tokenspeed_eagle:make",
    "sglang": "frontier_oracle.property_tests.adapters.sglang:make",
    "vllm": "frontier_oracle.property_tests.adapters.vllm:make",
}
NEED_CUDA = ("cuda_graph",)
# An engine's own drafter, from a checkout or an installed package: asked for by name only (docs/engines.md).
NEED_ENGINE = ("tokenspeed", "tokenspeed_backend", "tokenspeed_eagle", "sglang", "vllm")
# The same books run eagerly, for systems that capture their rounds.
EAGER = {"cuda_tape": "cuda_eager", "cuda_graph": "cuda_eager"}
# What a verb takes where no system is named, and what of that the gate then gives the light form of its profile.
DEFAULT = tuple(name for name in BUILT_IN if name not in NEED_CUDA + NEED_ENGINE)
LIGHT = ("cuda_eager", "cuda_tape", "minimal", "cuda_graph")


class HardwareMissing(Exception):
    """What was asked for needs hardware that is not there (exit 3)."""


def load_system(name: str) -> Factory:
    """The factory ``make(config, model)`` behind a built-in name or ``pkg.mod:make``.

    Modules are found as Python finds them, and in the current directory. Raises UsageError with one line that says what
    is not there: the name, the module, something the module imports, or the attribute; HardwareMissing for a system
    that needs a CUDA device where there is none: a built-in one, or an adapter whose factory's ``device`` says so.
    """
    if name in NEED_CUDA:
        _need_cuda(name)
    target = BUILT_IN.get(name, name)
    module_name, colon, attribute = target.partition(":")
    if not colon:
        raise UsageError(_unknown(name))
    dotted = all(part.isidentifier() for part in (*module_name.split("."), *attribute.split(".")))
    if not dotted or module_name.endswith(".py"):
        raise UsageError(f"system {name!r}: expected pkg.mod:make, a module's dotted name and a callable in it")
    found: Any = _module(module_name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UsageError(f"system {name!r}: {module_name} has no {attribute!r}{_offers(found, part)}")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(
            f"system {name!r}: {attribute} is of type {type(found).__name__}, expected a callable make(config, model)"
        )
    factory: Factory = on_device(found, "cuda") if name in NEED_CUDA else found
    if device_of(factory).startswith("cuda"):
        _need_cuda(name)
    return factory


def _need_cuda(name: str) -> None:
    import torch

    if not torch.cuda.is_available():
        twin = "; cuda_tape is its twin on a CPU" if name in NEED_CUDA else ""
        raise HardwareMissing(f"{name} needs a CUDA device, and torch sees none{twin}")


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, BUILT_IN, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return (
        f"unknown system {name!r}{hint}: known are {', '.join(BUILT_IN)}; name an adapter of your own as pkg.mod:make"
    )


def _module(name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)  # a console script does not look where it was started
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(missing + "."):
            raise UsageError(
                f"no module named {missing!r} for system {name}: install it, or start in its folder"
            ) from error
        raise UsageError(f"importing {name} failed: it needs the module {missing!r}, which is not installed") from error
    except (Exception, SystemExit) as error:  # a user's module may do anything on import
        raise UsageError(f"importing {name} failed: {in_words(error)}") from error


def _offers(found: Any, wanted: str) -> str:
    names = [n for n in vars(found) if not n.startswith("_") and callable(getattr(found, n))] if found else []
    near = difflib.get_close_matches(wanted, names, n=3) or names[:5]
    return f"; it has {', '.join(near)}" if near else ""
