"""The gate report as JUnit XML: a suite per system and one for planted faults, a test case per check and per fault."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as xml

from frontier_oracle.property_tests.gate.results import CheckResult, FindingReport, GateReport, MutantResult
from frontier_oracle.property_tests.render.table import story

# XML 1.0 has no way to write these, not even escaped.
ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def render(report: GateReport) -> str:
    root = xml.Element("testsuites", name="frontier-oracle")
    for system in report.systems:
        cases = [_check(system.name, check) for check in system.checks]
        _add_suite(root, system.name, cases, sum(check.seconds for check in system.checks), report)
    if report.mutants:
        _add_suite(root, "planted faults", [_mutant(m) for m in report.mutants], 0.0, report)
    for count in ("tests", "failures", "skipped"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    root.set("errors", "0")
    root.set("time", f"{report.seconds:.3f}")
    xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, encoding="unicode")


def _add_suite(root: xml.Element, name: str, cases: Sequence[xml.Element], seconds: float, report: GateReport) -> None:
    counts = {"failures": "failure", "skipped": "skipped"}
    suite = xml.SubElement(root, "testsuite", name=_clean(name), tests=str(len(cases)), errors="0")
    for attribute, tag in counts.items():
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", f"{seconds:.3f}")
    properties = xml.SubElement(suite, "properties")
    for key, value in {"seed": str(report.seed), "profile": report.profile, **report.environment}.items():
        xml.SubElement(properties, "property", name=_clean(key), value=_clean(value))
    suite.extend(cases)


def _check(system: str, check: CheckResult) -> xml.Element:
    case = xml.Element("testcase", classname=_clean(f"frontier-oracle.{system}"), name=_clean(check.id))
    case.set("time", f"{check.seconds:.3f}")
    failing = [finding for finding in check.findings if not finding.declared]
    if check.skipped:
        xml.SubElement(case, "skipped", message=_clean(check.skipped))
    elif failing:
        failure = xml.SubElement(case, "failure", type=failing[0].code, message=_clean(_message(failing)))
        failure.text = _clean("\n\n".join("\n".join(story(finding)) for finding in failing))
    counted = f"{check.cases} cases, {check.request_rounds} request-rounds"
    xml.SubElement(case, "system-out").text = _clean("\n".join([counted, *check.notes]))
    return case


def _mutant(m: MutantResult) -> xml.Element:
    case = xml.Element("testcase", classname=_clean(f"planted.{m.base}"), name=_clean(m.id), time="0.000")
    if not m.killed:
        got = f"killed by {m.got} instead" if m.got else "it survived"
        failure = xml.SubElement(case, "failure", type="survivor", message=f"expected {m.expected}, {got}")
        failure.text = _clean(m.scenario)
    return case


def _message(failing: Sequence[FindingReport]) -> str:
    first = failing[0]
    more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
    return f"{first.code} {first.title}: {first.scenario}{more}"


def _clean(text: str) -> str:
    return ILLEGAL.sub("?", text)
