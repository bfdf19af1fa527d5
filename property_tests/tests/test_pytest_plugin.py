"""The pytest plugin: a test a rule, failures that read like the command line's, nothing where it is not asked for."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest

from frontier_oracle.property_tests.cli.app import run
from frontier_oracle.property_tests.conformance import RULES, RuleFailed, run_rule
from frontier_oracle.property_tests.gate.checks import supported
from frontier_oracle.property_tests.gate.system import resolve
from frontier_oracle.property_tests.mutants.planting import FRONTIER, PLANTED

pytest_plugins = "pytester"

PLUGIN = "frontier_oracle.property_tests.pytest_plugin"
# An installation made before the entry point came does not load it by itself.
INSTALLED = any(point.value == PLUGIN for point in metadata.entry_points(group="pytest11"))
ARGUMENTS = ("-W", "error", "-p", "no:cacheprovider", *(() if INSTALLED else ("-p", PLUGIN)))
FAULTY = "frontier_oracle.property_tests.tests.cli_adapters:ids_at_accept"


def test_a_right_system_passes_a_test_a_rule(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*ARGUMENTS, "--frontier-system", "frontier", "-v", "-rs")
    result.assert_outcomes(passed=24, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "frontier-oracle: frontier, profile rules, seed 0",
            "*collected 26 items",
            "frontier-oracle?frontier?::S1 each depth consumes its token and its hidden PASSED*",
            "frontier-oracle?frontier?::S26 *PASSED*",
            "SKIPPED*accept lengths are inputs here: it takes a target that verifies*",
        ]
    )


def test_a_failure_reads_like_the_command_lines(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    result = pytester.runpytest_inprocess(*ARGUMENTS, "--frontier-system", FAULTY, "-k", "S5")
    result.assert_outcomes(failed=1, deselected=25)
    shown = result.stdout.lines
    start = shown.index("S5 is broken:")
    capsys.readouterr()
    assert run(["replay", "k6 page16 | a: p8 | a3, a2, a5, a6", "--system", FAULTY]) == 1
    told = capsys.readouterr().out.split("\n\n")[0].splitlines()
    assert shown[start + 1 : start + 1 + len(told)] == told
    assert "Traceback" not in result.stdout.str()


def test_what_a_system_does_not_claim_is_skipped_with_the_reason(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        plain="""
        from frontier_oracle.reference_impl.frontier import Frontier

        class Plain(Frontier):
            capabilities = frozenset({"extend"})
        """
    )
    pytester.syspathinsert()
    result = pytester.runpytest_inprocess(*ARGUMENTS, "--frontier-system", "plain:Plain", "-rs")
    result.assert_outcomes(passed=18, skipped=8)
    for name in ("stash", "refusals", "media", "padding", "adopt", "device_only"):
        result.stdout.fnmatch_lines([f'SKIPPED*the system does not claim "{name}"*'])


def test_a_gate_profile_adds_its_checks(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(
        *ARGUMENTS, "--frontier-system", FAULTY, "--frontier-profile", "dev", "-k", "gate and (known or refusals)", "-v"
    )
    result.assert_outcomes(passed=1, failed=1, deselected=26 + 9)
    result.stdout.fnmatch_lines(["*gate known FAILED*", "*gate refusals PASSED*", "FO101 wrong token*", "*found on*"])


def test_an_adapter_that_raises_is_one_line(pytester: pytest.Pytester) -> None:
    adapter = "frontier_oracle.property_tests.tests.cli_adapters:RaisesInDecode"
    result = pytester.runpytest_inprocess(*ARGUMENTS, "--frontier-system", adapter, "-k", "S5")
    result.assert_outcomes(failed=1, deselected=25)
    result.stdout.fnmatch_lines(["the system raised in decode(): ValueError: bad index in line two*"])


def test_a_system_that_is_not_there_is_a_usage_error(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*ARGUMENTS, "--frontier-system", "fronteer")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --frontier-system: unknown system 'fronteer' (did you mean 'frontier'?)*"])


def test_fixtures_for_tests_of_ones_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_name(frontier_system):
            assert frontier_system.name

        def test_scenario(frontier_replay):
            frontier_replay("k4 page4 | a: p9 | a2, a1")
        """
    )
    result = pytester.runpytest_inprocess(*ARGUMENTS, "--frontier-system", FAULTY, "-k", "test_")
    result.assert_outcomes(passed=1, failed=1, deselected=26)
    result.stdout.fnmatch_lines(["FO101 wrong token*", "  replay    frontier-oracle replay --system *"])
    result = pytester.runpytest_inprocess(*ARGUMENTS)
    result.assert_outcomes(skipped=2)


def test_without_the_option_nothing_of_the_package_is_loaded(pytester: pytest.Pytester) -> None:
    script = pytester.makepyfile(
        load=f"""
        import sys, pytest
        pytest.main([*{ARGUMENTS!r}, "--collect-only", "-q"])
        mine = sorted(name for name in sys.modules if name.startswith("frontier_oracle."))
        assert mine == ["frontier_oracle.property_tests", {PLUGIN!r}], mine
        assert "torch" not in sys.modules and "numpy" not in sys.modules
        """
    )
    done = pytester.run(sys.executable, script)
    assert done.ret == 0, done.stderr.str()


def test_the_table_is_the_rules_of_the_semantics() -> None:
    assert [rule.id for rule in RULES] == [f"S{n}" for n in range(1, 27)]
    assert all(rule.scenarios or rule.why or rule.id in ("S15", "S23") for rule in RULES)


@pytest.mark.parametrize(
    "id, rule",
    [
        ("ids_at_accept", "S5"),
        ("hidden_at_accept", "S6"),
        ("ids_rolled_by_two", "S7"),
        ("stash_not_rolled", "S8"),
        ("host_max", "S24"),
        ("ring_not_restored", "S21"),
        ("slot_not_reset_after_hit", "S21"),
    ],
)
def test_a_rule_fails_on_a_fault_of_its_kind(id: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from frontier_oracle.property_tests.gate import system as systems

    monkeypatch.setattr(systems, "load_system", lambda name: PLANTED[id].factory(FRONTIER))
    faulty = resolve("faulty")
    test = next(r for r in RULES if r.id == rule)
    with pytest.raises(RuleFailed, match=f"^{rule} is broken:\n{PLANTED[id].code} "):
        run_rule(faulty, test)


def test_scenarios_of_rules_are_served_by_the_reference() -> None:
    from frontier_oracle.oracle.language import parse

    system = resolve("frontier")
    assert all(supported(system, parse(text)) for rule in RULES for text in rule.scenarios)
