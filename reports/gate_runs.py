"""Gate and fuzz records: what was run, what was killed, what was found, how fast. From run records and JSON reports."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frontier_oracle.oracle import records
from frontier_oracle.oracle.errors import RecordError
from frontier_oracle.reports.problems import printable
from frontier_oracle.reports.readers.source import SourceError, whole
from frontier_oracle.reports.table import Cell, Column, Table

Json = dict[str, Any]
_SHOWN = 500


@dataclass
class GateRun:
    """One record: its header, and its lines by type as ``oracle.records`` defines them. ``seconds`` maps
    (system, check id) to the time it took, where the record tells it."""

    path: str
    header: Json
    verdict: str = ""
    checks: list[Json] = field(default_factory=list)
    findings: list[Json] = field(default_factory=list)
    mutants: list[Json] = field(default_factory=list)
    deviations: list[Json] = field(default_factory=list)
    seconds: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def killed(self) -> int:
        return sum(mutant["got"] == mutant["expected"] for mutant in self.mutants)


def is_record(first_line: bytes) -> bool:
    return records.FORMAT.encode() in first_line


def read_record(path: Path) -> GateRun:
    """A run record (one JSON object a line). SourceError for a broken or truncated one."""
    try:
        lines = records.read(path)
    except RecordError as error:
        raise SourceError(str(error)) from None
    return _of_lines(printable(path), lines)


def read_json_report(path: Path) -> GateRun | None:
    """The gate's JSON report, or None if the document is none."""
    try:
        data = json.loads(whole(path))
    except (ValueError, RecursionError, SourceError):
        return None
    try:
        return _of_report(printable(path), data)
    except (KeyError, TypeError, AttributeError, ValueError):
        return None


def _of_lines(path: str, lines: Iterable[Json]) -> GateRun:
    run = GateRun(path, {})
    for line in lines:
        kind = line["type"]
        if kind == "header":
            run.header = line
        elif kind == "verdict":
            run.verdict = line["verdict"]
        elif kind == "timing":
            run.seconds = {(t["system"], t["check"]): _seconds(path, t["seconds"]) for t in line["checks"]}
        else:
            {"check": run.checks, "finding": run.findings, "mutant": run.mutants, "deviation": run.deviations}[
                kind
            ].append(line)
    return run


def _of_report(path: str, data: Json) -> GateRun:
    """The JSON report's fields as the lines of a record, checked by the same schema."""
    lines = [records.header(data["environment"].get("frontier_oracle", "unknown"), data["seed"], data["profile"],
                            [system["name"] for system in data["systems"]])]  # fmt: skip
    times = []
    for system in data["systems"]:
        for check in system["checks"]:
            times.append({"system": system["name"], "check": check["id"], "seconds": _seconds(path, check["seconds"])})
            lines.append(_line("check", {**check, "system": system["name"]}))
            lines += [
                _line("finding", {**finding, "system": system["name"], "check": check["id"]})
                for finding in check["findings"]
            ]
    lines += [_line("mutant", mutant) for mutant in data["mutants"]["kills"]]
    lines += [_line("deviation", deviation) for deviation in data["declared_deviations"]]
    lines.append(records.line("verdict", verdict=data["verdict"]))
    run = _of_lines(path, lines)
    run.seconds = {(time["system"], time["check"]): time["seconds"] for time in times}
    return run


def _seconds(path: str, value: Any) -> float:
    seconds = float(value)
    if not 0 <= seconds < float("inf"):
        raise SourceError(f"{path}: a check took {value} seconds, which is no time; the record is damaged")
    return seconds


def _line(kind: str, fields: Json) -> Json:
    return records.line(kind, **{name: fields[name] for name in records.FIELDS[kind]})


def tables(run: GateRun) -> list[Table]:
    """Coverage and throughput by check, findings, the planted faults, declared deviations."""
    return [_coverage(run), _findings(run), _mutants(run), _deviations(run)]


def kill_matrix(run: GateRun, title: str = "Kill matrix") -> Table:
    """Planted faults down, base systems across: the code that killed each, or SURVIVED."""
    bases = sorted({mutant["base"] for mutant in run.mutants})
    cells: dict[str, dict[str, str]] = {}
    for mutant in run.mutants:
        got, expected = mutant["got"], mutant["expected"]
        text = got if got == expected else "SURVIVED" if not got else f"{got}, not {expected}"
        cells.setdefault(mutant["id"], {})[mutant["base"]] = text
    rows: list[list[Cell]] = [[name, *(by_base.get(base, "") for base in bases)] for name, by_base in cells.items()]
    table = Table("kill_matrix", title, [Column("planted fault"), *map(Column, bases)], rows)
    table.note = f"{run.killed} of {len(run.mutants)} killed by the rule that names them. Empty: not planted there."
    if not rows:
        table.unavailable = "no fault was planted in this run"
    return table


def _coverage(run: GateRun) -> Table:
    rows: list[list[Cell]] = []
    for check in run.checks:
        seconds = run.seconds.get((check["system"], check["id"]))
        rate = check["request_rounds"] / seconds if seconds else None
        found = sum(f["system"] == check["system"] and f["check"] == check["id"] for f in run.findings)
        told = [check[name] for name in ("system", "id", "kind", "cases", "request_rounds")]
        rows.append([*told, seconds, rate, found, check["skipped"], "; ".join(map(str, check["notes"]))])
    columns = [
        Column("system"), Column("check"), Column("kind"), Column("cases", "int"), Column("request-rounds", "int"),
        Column("seconds", "number"), Column("request-rounds per second", "int"), Column("findings", "int"),
        Column("skipped because"), Column("notes"),
    ]  # fmt: skip
    return Table("coverage", "Coverage and throughput", columns, rows, "A skipped check is never counted as passed.")


def _findings(run: GateRun) -> Table:
    names = ("code", "system", "check", "declared", "round", "request", "depth", "position", "scenario", "replay")
    kinds = {"round": "int", "depth": "int", "position": "int"}
    rows: list[list[Cell]] = [[finding[name] for name in names] for finding in run.findings[:_SHOWN]]
    table = Table("findings", "Findings", [Column(name, kinds.get(name, "text")) for name in names], rows)
    if len(run.findings) > _SHOWN:
        table.note = f"The first {_SHOWN} of {len(run.findings)}."
    if not rows:
        table.unavailable = "nothing was found"
    return table


def _mutants(run: GateRun) -> Table:
    rows: list[list[Cell]] = [
        [m["id"], m["base"], m["expected"], m["got"], m["got"] == m["expected"], m["rounds"], m["scenario"]]
        for m in run.mutants
    ]
    columns = [
        Column("planted fault"), Column("base"), Column("expected"), Column("killed by"), Column("killed"),
        Column("request-rounds until the kill", "int"), Column("scenario"),
    ]  # fmt: skip
    table = Table("mutants", "Planted faults", columns, rows)
    if not rows:
        table.unavailable = "no fault was planted in this run"
    return table


def _deviations(run: GateRun) -> Table:
    rows: list[list[Cell]] = [[d["system"], d["id"], d["seen"]] for d in run.deviations]
    table = Table("deviations", "Declared deviations", [Column("system"), Column("deviation"), Column("seen")], rows)
    if not rows:
        table.unavailable = "no deviation is declared"
    return table
