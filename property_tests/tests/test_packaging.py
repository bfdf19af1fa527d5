"""What the wheel promises: every module is in it, each floor asks only for what its extra installs, pins fit ranges."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]

# Third-party packages a floor may import, at module level or inside a function. The oracle is stdlib and numpy only.
THIRD_PARTY = {
    "oracle": {"numpy"},
    "reference_impl": {"numpy", "safetensors", "torch", "gguf", "tokenizers"},
    "cuda_impl": {"numpy", "torch", "triton"},
    "reports": {"numpy", "rich", "jinja2", "matplotlib", "pandas", "pyarrow", "zstandard"},
    "property_tests": {"numpy", "rich", "typer", "torch", "triton", "hypothesis", "pytest", "pyarrow", "ray"},
}


def modules(floor: str) -> Iterator[Path]:
    """Source files of a floor, its tests apart."""
    for path in sorted((ROOT / floor).rglob("*.py")):
        if "tests" not in path.relative_to(ROOT / floor).parts:
            yield path


def imported(path: Path) -> set[str]:
    """Top-level names of all absolute imports in a file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("floor", THIRD_PARTY)
def test_a_floor_imports_only_the_third_party_packages_it_may(floor: str) -> None:
    known = set(sys.stdlib_module_names) | {"frontier_oracle"} | THIRD_PARTY[floor]
    strangers = {str(path.relative_to(ROOT)): names for path in modules(floor) if (names := imported(path) - known)}
    assert strangers == {}


@pytest.mark.parametrize("floor", THIRD_PARTY)
def test_every_module_lies_in_a_package(floor: str) -> None:
    # setup.py ships folders that have an __init__.py: without one, a module is missing from the wheel and nowhere else.
    bare = {str(path.parent.relative_to(ROOT)) for path in modules(floor) if not (path.parent / "__init__.py").exists()}
    assert bare == set()


def test_constraints_pin_every_dependency_within_its_range() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.lower().split("==") for line in lines if line and not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    for text in [*project["dependencies"], *(requirement for extra in extras for requirement in extra)]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pins[requirement.name]), f"{text} is pinned to {pins[requirement.name]}"
