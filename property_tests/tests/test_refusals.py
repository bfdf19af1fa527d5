"""What must be refused is refused, what must be served is served; a system without the hooks is skipped and counted."""

from dataclasses import replace
from typing import Any

import pytest

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.gate.refusals import CASES, MEDIA_CASES, refusals
from frontier_oracle.property_tests.gate.system import SystemUnderTest, resolve
from frontier_oracle.reference_impl.frontier import Frontier


def system(factory: Any) -> SystemUnderTest:
    return replace(resolve("frontier"), factory=factory)


class ServesMixed(Frontier):
    def init_forward_metadata(self, mode: str) -> None:
        pass


class RefusesDecode(Frontier):
    def init_forward_metadata(self, mode: str) -> None:
        raise UsageError("nothing is served here")


def forgets(**fields: Any) -> Any:
    """A system that does not see these fields of its configuration."""
    return lambda config, model: Frontier(replace(config, **fields), model)


def test_the_exact_drafter_refuses_what_it_must_and_nothing_else() -> None:
    check, _ = refusals(resolve("frontier"))
    assert (check.cases, check.findings) == (len(CASES) + len(MEDIA_CASES), ())


@pytest.mark.parametrize(
    ("factory", "codes", "says"),
    [
        (ServesMixed, ["FO402"], "a mixed batch was served"),
        (RefusesDecode, ["FO403", "FO403"], "an extend batch was refused: nothing is served here"),
        (forgets(dp_size=1), ["FO402"], "data-parallel size 2 was served"),
        (forgets(media=None), ["FO402"] * 3, "media without a substitute was served"),
    ],
)
def test_faults_are_named(factory: Any, codes: list[str], says: str) -> None:
    check, _ = refusals(system(factory))
    assert [f.code for f in check.findings] == codes and check.findings[0].detail["because"] == says
    assert check.failed


def test_a_system_without_the_hooks_is_skipped_with_the_reason() -> None:
    check, _ = refusals(replace(resolve("frontier"), capabilities=frozenset({"extend"})))
    assert check.cases == 0 and "no hook to ask" in check.skipped
