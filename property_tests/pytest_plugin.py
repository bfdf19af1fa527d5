"""The pytest plugin: ``pytest --frontier-system pkg.mod:make`` adds a test for each rule to the run.

pytest loads this module in every environment that the wheel is in, so it imports nothing of the package by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PROFILES = ("rules", "dev", "ci", "nightly")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("frontier-oracle")
    group.addoption(
        "--frontier-system",
        action="append",
        default=[],
        metavar="PKG.MOD:MAKE",
        help="add a test for each rule S1..S26, run on this drafter (repeatable)",
    )
    group.addoption(
        "--frontier-profile",
        choices=PROFILES,
        default="rules",
        help="rules: the rule tests (seconds); dev, ci, nightly: the checks of that gate profile too",
    )
    group.addoption("--frontier-seed", type=int, default=0, metavar="N", help="everything random follows from it")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("frontier_system"):
        from frontier_oracle.property_tests.pytest_items import RuleTests

        config.pluginmanager.register(RuleTests(), "frontier-oracle-rules")


@pytest.fixture(scope="session")
def frontier_system(request: pytest.FixtureRequest) -> Any:
    """The drafter named by --frontier-system (the first one), as the gate sees it: name, factory, policy,
    capabilities. Skips where none is named."""
    names = request.config.getoption("frontier_system")
    if not names:
        pytest.skip("no --frontier-system is named")
    from frontier_oracle.property_tests.gate.system import resolve

    return resolve(names[0])


@pytest.fixture
def frontier_replay(frontier_system: Any) -> Callable[[str], None]:
    """``frontier_replay("k4 page4 | a: p9 | a2, a1")`` runs a scenario on ``frontier_system``; fails with the story."""
    from frontier_oracle.oracle.language import parse
    from frontier_oracle.property_tests.conformance import RuleFailed, replay

    def run(text: str) -> None:
        __tracebackhide__ = True
        try:
            replay(frontier_system, parse(text))
        except RuleFailed as failed:
            pytest.fail(str(failed), pytrace=False)

    return run
