"""Loads single files of an engine from a checkout, unmodified, with what they import supplied by us.

Nothing else of the engine is imported: a module that is neither a named file nor supplied does not exist while the
files run. Nothing is left behind either: sys.modules is as it was, and no byte code is written into the checkout.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.shield import in_words

Supplied = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Engine:
    """Where an engine's sources are. package: its import name; variable: the environment variable that names a
    checkout; below: where in a checkout the package's folder stands; repository, tried: for messages."""

    package: str
    variable: str
    repository: str
    tried: str
    below: tuple[str, ...] = ("python", "")

    def root(self) -> Path:
        """The folder that holds the package: below ``variable``, else where the package is installed.

        Raises UsageError, one line that says what to set."""
        named = os.environ.get(self.variable, "")
        if named:
            for folder in self.below:
                if (Path(named) / folder / self.package).is_dir():
                    return Path(named) / folder
            expected = " or ".join(str(Path(folder, self.package)) for folder in self.below)
            raise UsageError(
                f"{self.variable}={named}: no folder {expected} there; name a checkout of {self.repository}"
            )
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise UsageError(
                f"{self.package} is not here: set {self.variable} to a checkout of {self.repository}, or install it"
            )
        return Path(next(iter(spec.submodule_search_locations))).parent

    def load(self, files: Mapping[str, str], supplied: Supplied, root: Path | None = None) -> dict[str, ModuleType]:
        """Run ``files`` (module name -> path below the root), in order, and return their modules by name.

        supplied: module name -> the names it holds. Raises UsageError, one line, for a file that is missing, that does
        not run, or that imports what is not supplied."""
        root = self.root() if root is None else root
        loaded: dict[str, ModuleType] = {}
        with _only(supplied, files):
            for name, path in files.items():
                loaded[name] = sys.modules[name] = self._run(name, root / path)
        return loaded

    def _run(self, name: str, path: Path) -> ModuleType:
        try:
            code = compile(path.read_bytes(), str(path), "exec")
        except OSError as error:
            why = error.strerror or in_words(error)
            raise UsageError(f"{path}: {why}; {self.package} was tried at {self.tried}") from error
        except (SyntaxError, ValueError) as error:
            raise UsageError(f"{path}: {in_words(error)}") from error
        module = sys.modules[name] = ModuleType(name)
        module.__file__ = str(path)
        try:
            exec(code, module.__dict__)
        except ImportError as error:
            raise UsageError(
                f"{path} imports what the adapter does not supply ({in_words(error)}); it was tried at {self.tried}"
            ) from error
        except (Exception, SystemExit) as error:
            raise UsageError(f"{path} does not run: {in_words(error)}; it was tried at {self.tried}") from error
        return module


@contextmanager
def _only(supplied: Supplied, files: Mapping[str, str]) -> Iterator[None]:
    """sys.modules with the supplied modules, and their parents as packages without files; as before afterwards."""
    tops = {name.partition(".")[0] for name in (*supplied, *files)}
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in tops}
    for name in before:
        del sys.modules[name]
    try:
        for name in (*supplied, *files):
            parts = name.split(".")
            for end in range(1, len(parts) + (name in supplied)):
                _package(".".join(parts[:end]))
        for name, values in supplied.items():
            vars(sys.modules[name]).update(values)
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
            del sys.modules[name]
        sys.modules.update(before)


def _package(name: str) -> None:
    if name in sys.modules:
        return
    module = sys.modules[name] = ModuleType(name)
    module.__path__ = []  # a package with nothing in it: what is not supplied is not found
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
