"""The tests that the pytest plugin adds: one a rule, and with a gate profile one a check."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.conformance import RULES, NotAsked, RuleFailed, RuleTest, raise_findings, run_rule
from frontier_oracle.property_tests.gate.profiles import PROFILES
from frontier_oracle.property_tests.gate.run import Task, system_tasks, trace_sequences
from frontier_oracle.property_tests.gate.system import SystemUnderTest, resolve
from frontier_oracle.property_tests.registry import HardwareMissing


class RuleTests:
    """Registered where --frontier-system is named."""

    def pytest_report_header(self, config: pytest.Config) -> str:
        names, profile, seed = (config.getoption(f"frontier_{word}") for word in ("system", "profile", "seed"))
        return f"frontier-oracle: {', '.join(names)}, profile {profile}, seed {seed}"

    @pytest.hookimpl(tryfirst=True)  # before -k and -m choose
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        for name in dict.fromkeys(config.getoption("frontier_system")):
            try:
                system = resolve(name)
            except (UsageError, HardwareMissing) as error:
                raise pytest.UsageError(f"--frontier-system: {error}") from None
            collector = SystemCollector.of(session, system)
            found = list(collector.collect())
            items.extend(found)
            report = pytest.CollectReport(collector.nodeid, "passed", None, [*found])  # so that they are counted
            config.hook.pytest_collectreport(report=report)


class SystemCollector(pytest.Collector):
    """The tests of one system."""

    system: SystemUnderTest

    @classmethod
    def of(cls, session: pytest.Session, system: SystemUnderTest) -> SystemCollector:
        name = f"frontier-oracle[{system.name}]"
        made: SystemCollector = cls.from_parent(session, name=name, nodeid=name)
        made.system = system
        return made

    def collect(self) -> Iterator[pytest.Item]:
        seed, profile = (self.config.getoption(f"frontier_{word}") for word in ("seed", "profile"))
        for rule in RULES:
            yield RuleItem.from_parent(self, name=f"{rule.id} {rule.title}", rule=rule, seed=seed)
        if profile in PROFILES:
            tasks: dict[str, list[Task]] = {}
            for task in system_tasks(self.system, PROFILES[profile], seed, trace_sequences(None)):
                tasks.setdefault(task.label, []).append(task)
            for label, mine in tasks.items():
                yield GateItem.from_parent(self, name=f"gate {label}", tasks=mine)


class _Item(pytest.Item):
    """Fails with the story alone: the lines that the command line prints."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, RuleFailed | UsageError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"{self.parent.name if self.parent else ''}: {self.name}"

    @property
    def system(self) -> SystemUnderTest:
        assert isinstance(self.parent, SystemCollector)
        return self.parent.system


class RuleItem(_Item):
    """One rule on one system."""

    def __init__(self, *, rule: RuleTest, seed: int, **more: Any) -> None:
        super().__init__(**more)
        self.rule, self.seed = rule, seed

    def runtest(self) -> None:
        try:
            run_rule(self.system, self.rule, self.seed)
        except NotAsked as reason:
            pytest.skip(str(reason))


class GateItem(_Item):
    """One check of a gate profile on one system."""

    def __init__(self, *, tasks: list[Task], **more: Any) -> None:
        super().__init__(**more)
        self.tasks = tasks

    def runtest(self) -> None:
        results = [task.call(self.system, *task.args)[0] for task in self.tasks]
        for result in results:
            raise_findings("", result.findings)
        if all(result.skipped for result in results):
            pytest.skip(results[0].skipped)
