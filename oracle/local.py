"""Local checks: is each row of each call given what that row must get? One finding per rule and row (S1, S5-S9)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from frontier_oracle.oracle.calls import CallLog
from frontier_oracle.oracle.evidence import Evidence
from frontier_oracle.oracle.geometry import RowPlace, places
from frontier_oracle.oracle.ledger import Ledger, Record, token_at
from frontier_oracle.oracle.registry import Registry, Source
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.oracle.timeline import Round, View

GARBAGE_KINDS = ("garbage", "garbage hidden")
OUTPUT_BELOW = -2


@dataclass
class Found:
    """Findings of a round's calls, and what its unmasked rows wrote: KV cells as (depth, location), ring rows as
    (depth, slot, row)."""

    findings: list[Finding] = field(default_factory=list)
    written: set[tuple[int, int]] = field(default_factory=set)
    ring_rows: set[tuple[int, int, int]] = field(default_factory=set)


@dataclass
class _Call:
    """One call under check, with the books it is checked against."""

    step: Round
    call: CallLog
    number: int
    evidence: Evidence
    changed: set[tuple[int, int]]
    ledger: Ledger
    registry: Registry
    spec: Spec
    found: Found

    def add(self, code: str, view: View | None, place: RowPlace | None, **detail: Any) -> None:
        name = view.request.name if view is not None else ""
        position = place.anchor if place is not None else -1
        self.found.findings.append(Finding(code, self.step.index, name, self.call.depth, position, detail))


def check_calls(
    step: Round,
    evidence: Evidence,
    changed: set[tuple[int, int]],
    ledger: Ledger,
    registry: Registry,
    spec: Spec,
) -> Found:
    """Check every call of a round in order, and enter its rows in the ledger. changed: KV cells as (depth, location)
    that differ from what stood there before the round."""
    found = Found()
    views = dict(zip(evidence.rows_of(step), step.views, strict=True))
    for number, call in enumerate(evidence.calls):
        c = _Call(step, call, number, evidence, changed, ledger, registry, spec, found)
        for row in range(len(call.seq_lens)):
            if row in views:
                _check_request(c, row, views[row])
            else:
                _check_padding(c, row)
    return found


def call_errors(step: Round, evidence: Evidence, spec: Spec) -> list[str]:
    """What the judge relies on and the model cannot see: one call a depth and round, the whole batch in it."""
    errors = []
    if len(evidence.calls) > spec.steps:
        errors.append(f"{len(evidence.calls)} calls in a round of {spec.steps} depths, expected one a depth")
    for call in evidence.calls:
        rows, n = len(call.seq_lens), len(call.input_ids)
        if rows < len(step.views):
            errors.append(f"depth {call.depth}: a call of {rows} requests, expected all {len(step.views)} of the batch")
        if len(call.query_start_loc) != rows + 1 or int(call.query_start_loc[-1]) > n:
            errors.append(f"depth {call.depth}: query_start_loc does not cover {rows} requests within {n} rows")
    return errors


def sampled_drafts(evidence: Evidence, row: int, spec: Spec) -> list[int]:
    """What the model sampled for a batch row this round, by depth (or, of one layer, by call): draft m at [m-1]."""
    if spec.hidden == "single":
        return [int(call.tokens[row]) for call in evidence.calls]
    latest = {call.depth: int(call.tokens[row]) for call in evidence.calls if row < len(call.tokens)}
    return [latest[d] for d in sorted(latest)]


def check_results(step: Round, evidence: Evidence, drafts: list[list[int]]) -> list[Finding]:
    """Column 0 is the committed token at the frontier, the others are what was sampled (S10)."""
    out = []
    for row, view in enumerate(step.views):
        if row >= len(evidence.returned):
            break
        got = evidence.returned[row].tolist()
        want = int(view.tokens[view.computed])
        name = view.request.name
        if view.sampled and got[0] != want:
            detail = {"expected": want, "got": got[0]}
            out.append(Finding("FO106", step.index, name, -1, view.computed, detail))
        if view.sampled and got[1:] != drafts[row]:
            detail = {"expected": drafts[row], "got": got[1:]}
            out.append(Finding("FO108", step.index, name, -1, view.computed, detail))
    return out


def stale_story(record: Record) -> dict[str, Any]:
    """Why an entry with no row at fault is stale: what it consumed, and when."""
    consumed = ", ".join(f"{token} for position {q}" for q, token in record.chain)
    because = f"last written in round {record.round}, it consumed {consumed}, and nothing wrote it again"
    return {"because": because, "by": record.request, "written": record.round, "chain": [list(c) for c in record.chain]}


def hidden_source(spec: Spec, depth: int, p: int, computed: int) -> int:
    """The position whose target hidden a row must be given, OUTPUT_BELOW for O(d-1,p); -1 before position 0 (S1): h(p)
    at depth 0 and for target heads, h(p+d) while the target is there for shifted ones."""
    if spec.hidden == "previous":
        return p - 1
    source = p + (depth if spec.hidden == "shifted" else 0)
    return source if depth == 0 or (spec.hidden != "chain" and source < computed) else OUTPUT_BELOW


def _check_padding(c: _Call, row: int) -> None:
    """A padded row stores nothing and names no slot but 0 (S20)."""
    stores = [int(i) for i in c.call.rows_of(row) if not c.call.masked[i]]
    if stores or int(c.call.conv_slots[row]) != 0:
        c.add("FO205", None, None, batch_row=row, conv_slot=int(c.call.conv_slots[row]), unmasked_rows=stores)


def _check_request(c: _Call, row: int, view: View) -> None:
    group = c.spec.group_of(c.call.depth)
    if int(c.call.conv_slots[row]) != view.request.slot:
        c.add("FO204", view, None, expected_slot=view.request.slot, got_slot=int(c.call.conv_slots[row]))
    for g, table in enumerate(c.call.page_table):
        if not np.array_equal(table[row], view.request.tables[g].pages):
            c.add("FO203", view, None, group=g, because="the page table row is not this request's")
    sample, wanted = int(c.call.sample_rows[row]), _sampled_position(c, view)
    sampled_here = False
    for place in places(c.call, row, view, group):
        faults = _check_row(c, row, view, place, group)
        sampled_here |= place.row == sample and place.anchor == wanted
        _enter(c, row, view, place, faults, group)
    if not sampled_here:
        rows = list(c.call.rows_of(row))
        c.add("FO105", view, None, expected=f"the row of position {wanted}", got=sample, rows=rows)


def _sampled_position(c: _Call, view: View) -> int:
    """Where this call's draft comes from: F-1 (S2); of heads that run rows on their own drafts, the last such row."""
    if c.spec.hidden == "previous":
        return view.computed + c.call.depth
    return view.computed - 1 + (c.number if c.spec.hidden == "single" else 0)


def _check_row(c: _Call, row: int, view: View, place: RowPlace, group: int) -> set[str]:
    """Check one unmasked row; returns the codes of its faults."""
    faults: set[str] = set()

    def fault(code: str, **detail: Any) -> None:
        faults.add(code)
        c.add(code, view, place, **detail)

    if place.located is None and _held(c, view, place, group):
        fault("FO204", location=place.location, because="the cell is on a page that is not this request's")
    if place.extent < 1 <= place.anchor + 1:  # a row before the first position, placed at one all the same
        fault("FO103", expected=place.extent - 1, got=place.position)
    else:
        if place.extent - 1 != place.anchor:
            fault("FO107", expected=place.anchor + 1, got=place.extent)
        if place.position != place.anchor:
            fault("FO103", expected=place.anchor, got=place.position)
    if place.anchor < 0 or _misplaced(c, view, place):
        want = [table.location(place.anchor) if place.anchor >= 0 else -1 for table in view.request.tables]
        got = [int(loc[place.row]) for loc in c.call.out_cache_loc]
        fault("FO104", expected=want, got=got, located=place.located)
    if place.located is not None and _changes_shared(c, view, place, group):
        fault("FO209", because=f"page {_page(c, place, group)} is held by others too, its cell changed")
        return faults | _value_faults(c, row, view, place, silent=True)
    return faults | _value_faults(c, row, view, place, silent=False)


def _value_faults(c: _Call, row: int, view: View, place: RowPlace, silent: bool) -> set[str]:
    """Wrong token and wrong hidden of a row before the frontier (past it, rows are garbage and owe nothing)."""
    faults: set[str] = set()
    if not 0 <= place.anchor < view.computed:
        return faults
    name = view.request.name
    want, got = _wanted_token(c, row, view, place), int(c.call.input_ids[place.row])
    if want != got:
        code = _value_code("FO101", c.registry.token(got, name))
        faults.add(code)
        if not silent:
            c.add(code, view, place, **_story("token", want, got, c.registry.token(got, name)))
    expected, held = _wanted_hidden(c, view, place), int(c.call.hidden_digest[place.row])
    if expected != held:
        code = _value_code("FO102", c.registry.hidden(held, name))
        faults.add(code)
        if not silent:
            c.add(code, view, place, **_story("hidden", expected, held, c.registry.hidden(held, name)))
    return faults


def _value_code(code: str, source: Source | None) -> str:
    return "FO203" if source is not None and source.kind in GARBAGE_KINDS else code


def _story(what: str, want: int | None, got: int, source: Source | None) -> dict[str, Any]:
    words = f"the {source.words()}" if source is not None else "a value nobody gave out"
    return {"what": what, "expected": want, "got": got, "because": f"it consumed {words}"}


def _wanted_token(c: _Call, row: int, view: View, place: RowPlace) -> int | None:
    drafts = sampled_drafts(c.evidence, row, c.spec)[: c.call.depth]
    return token_at(view, place.anchor + c.spec.ahead(c.call.depth), drafts)


def _wanted_hidden(c: _Call, view: View, place: RowPlace) -> int | None:
    depth, p = c.call.depth, place.anchor
    source = hidden_source(c.spec, depth, p, view.computed)
    if source == OUTPUT_BELOW:
        return c.ledger.latest_output(view.request.name, depth - 1, p)
    return int(view.hidden[source]) if source >= 0 else 0


def _misplaced(c: _Call, view: View, place: RowPlace) -> bool:
    """Some group's location is not where the row's position lives (S17)."""
    for g, table in enumerate(view.request.tables):
        if int(c.call.out_cache_loc[g][place.row]) != table.location(place.anchor):
            return True
    return False


def _page(c: _Call, place: RowPlace, group: int) -> int:
    return place.location // c.spec.groups[group].page_size


def _held(c: _Call, view: View, place: RowPlace, group: int) -> bool:
    """Somebody holds the page that the row writes."""
    return bool(view.request.tables[group].pool.refs[_page(c, place, group)] > 0)


def _changes_shared(c: _Call, view: View, place: RowPlace, group: int) -> bool:
    """The row writes a shared page, and what it writes is not what stood there."""
    if not view.request.tables[group].pool.shared(_page(c, place, group)):
        return False
    return (c.call.depth, place.location) in c.changed


def _enter(c: _Call, row: int, view: View, place: RowPlace, faults: set[str], group: int) -> None:
    """Enter the row in the ledger: its chain, and whether something foreign is in it."""
    name, depth = view.request.name, c.call.depth
    got, held = int(c.call.input_ids[place.row]), int(c.call.hidden_digest[place.row])
    chain: tuple[tuple[int, int], ...] = ((place.anchor + c.spec.ahead(depth), got),)
    foreign = False
    if "FO101" in faults or "FO203" in faults:
        source = c.registry.token(got, name)
        foreign |= source is not None and source.request != name
    if "FO102" in faults:
        origin = c.registry.hidden(held, name)
        foreign |= origin is not None and origin.request != name
    below = c.ledger.by_output.get(held) if depth and c.spec.hidden != "target" else None
    if below is not None and below.depth == depth - 1 and below.anchor == place.anchor:
        chain = below.chain + chain
        foreign |= below.foreign
    output = int(c.call.output_digest[place.row])
    record = Record(name, depth, place.anchor, c.step.index, chain, foreign, frozenset(faults), output, held)
    c.ledger.write(place.location, record)
    c.registry.note_output(name, depth, place.anchor, output, c.step.index)
    c.found.written.add((depth, place.location))
    ring_row = (place.extent - 1) % c.evidence.ring.shape[2]
    c.found.ring_rows.add((depth, int(c.call.conv_slots[row]), ring_row))
    if place.row == int(c.call.sample_rows[row]):
        position = view.computed + depth + 1
        c.registry.note_draft(int(c.call.tokens[row]), name, depth, position, c.step.index)
