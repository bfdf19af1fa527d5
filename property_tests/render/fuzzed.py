"""A fuzz run for people: what ran, what is in the corpus, the stories of what is new, one verdict sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from frontier_oracle.property_tests.fuzz.results import FuzzReport
from frontier_oracle.property_tests.render.table import story

MOST_STORIES = 5


def render(report: FuzzReport, quiet: bool = False) -> str:
    """The whole text; quiet: stories and verdict only."""
    lines = [] if quiet else [*_about(report), ""]
    for finding in report.findings[:MOST_STORIES]:
        lines += [*story(finding), ""]
    if len(report.findings) > MOST_STORIES:
        lines += [f"... and {len(report.findings) - MOST_STORIES} more, each explained in {report.corpus}/*.txt", ""]
    for code, scenario in report.pending:
        lines.append(f"not made small yet (run again to go on): {code} on '{scenario}'")
    return "\n".join([*lines, report.sentence])


def as_data(report: FuzzReport) -> dict[str, Any]:
    """Plain data for JSON."""
    data = asdict(report)
    data["seconds"] = round(report.seconds, 3)
    data["rounds_per_second"] = round(report.rounds / report.seconds, 1) if report.seconds else 0.0
    data["pending"] = [{"code": code, "scenario": scenario} for code, scenario in report.pending]
    return data


def _about(report: FuzzReport) -> Iterator[str]:
    e = report.environment
    how = "guided by coverage" if report.guided else "uniform"
    where = f"python {e['python']} · torch {e['torch']} · {e['machine']}, {e['cores']} cores"
    yield f"frontier-oracle {e['frontier_oracle']} · fuzz {report.system} · seed {report.seed} · {how} · {where}"
    speed = f", {report.rounds / report.seconds:,.0f} request-rounds/s" if report.seconds and report.rounds else ""
    units = f"{report.units:,} unit{'s' * (report.units != 1)}"
    yield f"this run    {units}, {report.scenarios:,} scenarios, {report.rounds:,} request-rounds{speed}"
    if report.all_units > report.units:
        yield f"all runs    {report.all_units:,} units, {report.all_rounds:,} request-rounds"
    yield f"rules       {' '.join(report.rules) or '-'}"
    yield f"situations  {report.pairs:,} met, {report.known_pairs:,} known (rule x state x event)"
    if report.replayed:
        still = [Path(r.path).name for r in report.replayed if r.still]
        names = f": {', '.join(still)}" if still else ""
        yield f"corpus      {len(report.replayed)} files replayed, {len(still)} still fail{names}"
    if report.met:
        yield "met         " + ", ".join(f"{code} in {n} unit{'s' * (n != 1)}" for code, n in report.met.items())
