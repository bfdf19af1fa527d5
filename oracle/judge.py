"""The judge: one round's evidence in, findings and entry states out.

Local checks compare each call's indices and inputs with what they must be, given what the model really returned: a
mismatch is a cause. The ideal is forced onto the drafts that really flowed: locally right but unequal is tainted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from frontier_oracle.oracle import images, local
from frontier_oracle.oracle.contract import DraftConfig
from frontier_oracle.oracle.evidence import Evidence
from frontier_oracle.oracle.incremental import IncrementalIdeal
from frontier_oracle.oracle.ledger import EXACT, PROVISIONAL, STALE, TAINTED, UNWRITTEN, WRONG, Entry, Ledger
from frontier_oracle.oracle.registry import Registry
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.timeline import Adopted, Released, Request, Round, View

GOOD = frozenset({EXACT, PROVISIONAL})
# Within a round the order of causes: contract, padding, ownership, geometry, missing rows, values, results, entries,
# state.
_ORDER = (401, 302, 303, 205, 204, 209, 107, 103, 104, 202, 101, 102, 203, 105, 106, 108, 201, 206, 207, 208)
ORDER = tuple(f"FO{number}" for number in _ORDER)


@dataclass(frozen=True)
class Verdict:
    """What one round showed. findings: causes, in the order they are to be believed; entries: states of the live
    entries of the requests in the batch; drafts_equal: per request, whether its drafts were the ideal's."""

    round: int
    findings: tuple[Finding, ...]
    entries: tuple[Entry, ...]
    drafts_equal: dict[str, bool]


class BlindSpot(RuntimeError):
    """Drafts differ and nothing was found: a fault of this judge, never to be passed over."""


@dataclass
class Judge:
    """Judges a scenario round by round. Call ``adopted``/``released`` for the steps between rounds."""

    config: DraftConfig
    max_positions: int
    registry: Registry = field(default_factory=Registry)
    ideals: dict[str, IncrementalIdeal] = field(default_factory=dict)
    live: dict[str, Request] = field(default_factory=dict)
    _reported: set[tuple[str, int, int]] = field(default_factory=set)
    _clean: bool = True

    def __post_init__(self) -> None:
        self.spec = self.config.spec
        self.ledger = Ledger(self.spec)
        self.images = images.Images(self.config)

    def adopted(self, step: Adopted) -> None:
        self.images.adopted(step)

    def released(self, step: Released) -> None:
        self.live.pop(step.request.name, None)

    def round(self, step: Round, evidence: Evidence) -> Verdict:
        """Judge one round. Raises nothing for a diverging system; findings say it."""
        for group, page in step.fresh_pages:
            self.ledger.clear_page(group, page)
        self.registry.note_round(step)
        broken = self._broken(step, evidence)
        if broken:
            self._clean = False
            self.images.keep(evidence)
            return Verdict(step.index, tuple(broken), (), {})
        changed = self.images.changed_cells(evidence)
        found = local.check_calls(step, evidence, changed, self.ledger, self.registry, self.spec)
        findings = found.findings
        rows = evidence.rows_of(step)
        drafts = [local.sampled_drafts(evidence, row, self.spec) for row in rows]
        findings += local.check_results(step, evidence, drafts)
        entries: list[Entry] = []
        equal: dict[str, bool] = {}
        for view, own in zip(step.views, drafts, strict=True):
            self._meet(view.request)
            ideal, same = self._ideal(view, own)
            equal[view.request.name] = same
            mine = self._entries(view, evidence, ideal, own)
            findings += entry_findings(step.index, view, mine, self.ledger, self._reported)
            good = {(e.depth, e.position) for e in mine if e.equal and e.state in GOOD}
            findings += self.images.check_request(step, view, evidence, ideal, good)
            entries += mine
        findings += self.images.check_rest(step, evidence, changed, found, self.live)
        self.images.keep(evidence)
        self._clean &= not findings
        blind = [v.request.name for v in step.views if v.sampled and not equal[v.request.name]]
        if blind and self._clean and all(e.state in GOOD for e in entries):
            raise BlindSpot(f"round {step.index}: drafts of {', '.join(blind)} differ from the ideal's, no cause found")
        findings.sort(key=lambda f: (ORDER.index(f.code), f.depth, f.position))
        return Verdict(step.index, tuple(findings), tuple(entries), equal)

    def _broken(self, step: Round, evidence: Evidence) -> list[Finding]:
        """A round that cannot be judged: the contract is not kept, so its indices mean nothing, or it was cut short by
        a host read or a buffer that moved."""
        errors = [*evidence.contract_errors, *local.call_errors(step, evidence, self.spec)]
        found = [Finding("FO401", step.index, "", detail={"because": error}) for error in errors]
        if evidence.host_read:
            found.append(Finding("FO302", step.index, "", detail={"because": evidence.host_read}))
        if evidence.moved:
            found.append(Finding("FO303", step.index, "", detail={"because": evidence.moved}))
        return found

    def _meet(self, request: Request) -> None:
        """A request's first round, or the first since it was preempted: nothing of before is held against it."""
        if self.live.get(request.name) is not request:
            self.live[request.name] = request
            self.ideals.pop(request.name, None)
            self._reported = {key for key in self._reported if key[0] != request.name}

    def _ideal(self, view: View, drafts: list[int]) -> tuple[IncrementalIdeal, bool]:
        """The request's ideal, moved to this view under the drafts that flowed, and whether it drafts the same."""
        name = view.request.name
        ideal = self.ideals.get(name)
        if ideal is None:
            ideal = self.ideals[name] = IncrementalIdeal(self.spec, 1, self.max_positions)
        forced = np.array([(drafts + [0] * self.spec.steps)[: self.spec.steps]], dtype=np.int64)
        own = ideal.update(
            view.tokens[None], np.array([view.known]), view.hidden[None], np.array([view.computed]), forced
        )
        return ideal, own[0].tolist() == drafts

    def _entries(self, view: View, evidence: Evidence, ideal: IncrementalIdeal, drafts: list[int]) -> list[Entry]:
        out: list[Entry] = []
        for depth in range(self.spec.layers):
            expected = ideal.entries[depth, 0, : view.computed]
            out += self.ledger.states(view, depth, evidence.kv[depth], expected, drafts)
        return out


def entry_findings(
    round_: int, view: View, entries: list[Entry], ledger: Ledger, reported: set[tuple[str, int, int]]
) -> list[Finding]:
    """FO201, FO202 and (a hidden left behind, S1) FO102, once per entry until it heals: entries that went wrong with no
    row at fault. reported: the entries that have been told."""
    out = []
    for e in entries:
        key = (e.request, e.depth, e.position)
        if e.state not in (STALE, UNWRITTEN, WRONG):
            if e.state != TAINTED:
                reported.discard(key)
            continue
        if key in reported:
            continue
        reported.add(key)
        record = ledger.record(view, e.depth, e.position)
        if e.state == UNWRITTEN:
            out.append(Finding("FO202", round_, e.request, e.depth, e.position, {"because": "no row wrote it"}))
        elif e.state == WRONG and record is not None and not record.faults:
            detail = {"because": "it consumed the draft's own hidden, and nothing ran it again on the target's"}
            out.append(Finding("FO102", round_, e.request, e.depth, e.position, detail))
        elif record is not None and not record.faults:
            out.append(Finding("FO201", round_, e.request, e.depth, e.position, local.stale_story(record)))
    return out
