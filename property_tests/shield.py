"""A user's system behind a shield: whatever it raises becomes one clear line, and never reads as a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from frontier_oracle.oracle.contract import DraftConfig, DraftModel
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.rules import Divergence

Factory = Callable[[DraftConfig, DraftModel], Any]
CALLS = ("extend", "decode", "adopt", "release", "stash", "load_stash", "init_forward_metadata")
LONGEST = 300


class AdapterError(UsageError):
    """The system under test raised, or is not what the contract asks for: its adapter is at fault, not its books."""


class Shield:
    """The system, its calls guarded; every other attribute is the system's own."""

    def __init__(self, system: Any) -> None:
        self._system = system

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._system, name)
        if name not in CALLS:
            return found
        return lambda *args, **kwargs: guarded(lambda: found(*args, **kwargs), f"{name}()")


def shielded(factory: Factory) -> Factory:
    """The factory of a shielded system."""

    def make(config: DraftConfig, model: DraftModel) -> Any:
        system = guarded(lambda: factory(config, model), "make(config, model)")
        return system if isinstance(system, Shield) else Shield(system)

    return on_device(make, device_of(factory))


def device_of(factory: Factory) -> str:
    """Where a factory's systems run: what its attribute ``device`` says ("cuda" for one that needs a GPU), else "cpu".
    The harness makes every tensor there."""
    return str(getattr(factory, "device", "cpu"))


def on_device(factory: Factory, device: str) -> Factory:
    """The factory of the same systems on ``device``."""

    def make(config: DraftConfig, model: DraftModel) -> Any:
        return factory(config, model)

    make.device = device  # type: ignore[attr-defined]
    return make


def placed_config(factory: Factory, config: DraftConfig) -> DraftConfig:
    """The configuration on the device of the factory's systems."""
    return replace(config, device=device_of(factory))


def guarded(action: Callable[[], Any], what: str) -> Any:
    """Run a system's code. Its own findings (FO302) and usage errors pass; anything else, ``sys.exit`` too, is an
    AdapterError of one line."""
    try:
        return action()
    except (UsageError, Divergence):
        raise
    except (Exception, SystemExit) as error:
        raise AdapterError(f"the system raised in {what}: {in_words(error)}{_last_frame(error)}") from error


def in_words(error: BaseException) -> str:
    """Type and message of an exception in one line of bearable length, whatever its ``__str__`` does."""
    try:
        message = " ".join(str(error).split())
    except Exception:
        message = "its message cannot be read"
    if len(message) > LONGEST:
        message = message[:LONGEST] + " ..."
    return f"{type(error).__name__}: {message}"


def _last_frame(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace is not None else ""
