"""Judges a history round by round with the oracle's own local rules and ledger, and counts what it could not judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from frontier_oracle.oracle import local
from frontier_oracle.oracle.engine_requests import Round, View
from frontier_oracle.oracle.evidence import Evidence
from frontier_oracle.oracle.history.books import HistoryBooks
from frontier_oracle.oracle.history.filling import Filling
from frontier_oracle.oracle.history.needs import needs
from frontier_oracle.oracle.history.schema import Admitted, History, Left, LoggedRound
from frontier_oracle.oracle.judge import ORDER, entry_findings
from frontier_oracle.oracle.ledger import STALE, Entry, Ledger, token_at
from frontier_oracle.oracle.play import Outcome
from frontier_oracle.oracle.played import Played, writes_of
from frontier_oracle.oracle.registry import Registry
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.scenario import Scenario

Drafts = list[list[int | None]]


@dataclass(frozen=True)
class RuleResult:
    """One rule over a whole history. judged: rows, entries or request-rounds that it was applied to; unknown: those
    that it was not, since the log lacks the value that they must have; skipped: why it was not applied at all."""

    code: str
    judged: int
    unknown: int
    skipped: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Checked:
    """A judged history. lines: the line of each round, by its index; played: what an explanation needs."""

    history: History
    played: Played
    lines: dict[int, int]
    rules: tuple[RuleResult, ...]

    @property
    def findings(self) -> list[Finding]:
        """In the order in which they happened, those of a round in the order in which they are to be believed."""
        found = [f for rule in self.rules for f in rule.findings]
        return sorted(found, key=lambda f: (f.round, ORDER.index(f.code), f.depth, f.position))


def check(history: History, on_round: Callable[[], None] = lambda: None) -> Checked:
    """Judge a history. Raises RecordError, with file and line, where a round does not follow from those before."""
    checker = _Checker(history)
    for index, event in enumerate(history.events):
        if isinstance(event, Admitted):
            checker.books.admit(event)
        elif isinstance(event, Left):
            checker.books.release(event)
            checker.forget(event.request)
        else:
            checker.round(event, index)
            on_round()
    return checker.checked()


class _Checker:
    def __init__(self, history: History) -> None:
        self.history, self.books = history, HistoryBooks(history)
        self.spec = self.books.spec
        self.filling = Filling(history, self.books)
        self.ledger, self.registry = Ledger(self.spec), Registry()
        self.played = Played(Outcome(Scenario(self.spec)), self.registry)
        self.skipped = needs(history)
        self.judged: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.found: list[Finding] = []
        self.lines: dict[int, int] = {}
        self._settled: dict[tuple[str, int], int] = {}
        self._reported: set[tuple[str, int, int]] = set()

    def forget(self, name: str) -> None:
        """A request left: nothing of it is held against one of the same name."""
        self._settled = {key: p for key, p in self._settled.items() if key[0] != name}
        self._reported = {key for key in self._reported if key[0] != name}

    def round(self, event: LoggedRound, index: int) -> None:
        step = self.books.round(event)
        self.lines[step.index] = event.line
        for group, page in step.fresh_pages:
            self.ledger.clear_page(group, page)
        self.registry.note_round(step)
        drafts = self._drafts(event, step, index)
        evidence = self._evidence(event, step, drafts)
        found = list(self._found(event, step, evidence))
        self.found += [f for f in found if not self.skipped.get(f.code)]
        self.played.steps.append(step)
        self.played.outcome.request_rounds += len(step.views)

    def _evidence(self, event: LoggedRound, step: Round, drafts: Drafts) -> Evidence:
        placed = not self.skipped["FO202"]
        none = np.zeros((1, 1, 1), dtype=np.int64)
        rows = [event.rows[i].more.get("returned") for i in step.rows]
        returned = np.zeros((len(rows), self.spec.steps + 1), dtype=np.int32)
        for view, into, given in zip(step.views, returned, rows, strict=True):
            into[:] = 0 if given is None else given
            if view.computed in self.books.live[view.request.name].tokens:
                into[0] = view.tokens[view.computed]
        calls = self.filling.calls(event, step, drafts) if placed else []
        return Evidence(calls, returned, (), none, none, rows=step.rows)

    def _found(self, event: LoggedRound, step: Round, evidence: Evidence) -> Iterator[Finding]:
        if not self.skipped["FO202"]:
            errors = local.call_errors(step, evidence, self.spec)
            yield from (Finding("FO401", step.index, "", detail={"because": error}) for error in errors)
            if errors:
                return
            yield from local.check_calls(step, evidence, set(), self.ledger, self.registry, self.spec).findings
            self.played.writes += writes_of(step, evidence, self.spec)
            self._count_rows(event, step, evidence)
            for row, view in zip(step.rows, step.views, strict=True):
                yield from self._entries(step, view, local.sampled_drafts(evidence, row, self.spec))
        if not self.skipped["FO106"]:
            yield from local.check_results(step, evidence, [self._logged_drafts(event, row) for row in step.rows])
            for view in (v for v in step.views if v.sampled):
                unknown = view.computed in self.books.live[view.request.name].tokens
                (self.unknown if unknown else self.judged)["FO106"] += 1
                self.judged["FO108"] += 1
        for row, view in zip(step.rows, step.views, strict=True):
            if "stash" in event.rows[row].more:
                self.judged["FO206"] += 1
                yield from self._stash(step, view, *event.rows[row].more["stash"])

    def _logged_drafts(self, event: LoggedRound, row: int) -> list[int]:
        """What was sampled for a batch row by the log, or what came back where that does not say."""
        if not self.skipped["FO108"]:
            return self._sampled(event, row)
        return [int(token) for token in event.rows[row].more["returned"][1:]]

    def _sampled(self, event: LoggedRound, row: int) -> list[int]:
        """By depth, or by call where one layer serves all steps."""
        by_depth = {(n if self.spec.hidden == "single" else call.depth): call for n, call in enumerate(event.calls)}
        return [int(by_depth[d].more["sampled"][row]) for d in sorted(by_depth)]

    def _count_rows(self, event: LoggedRound, step: Round, evidence: Evidence) -> None:
        for call in evidence.calls:
            self.judged["FO401"] += 1
            rows = sum(int((~call.masked[call.rows_of(r).start : call.rows_of(r).stop]).sum()) for r in step.rows)
            self.judged["FO203"] += rows
            self.judged["FO204"] += rows
            self.judged["FO205"] += len(call.seq_lens) - len(step.rows)

    def _entries(self, step: Round, view: View, drafts: list[int]) -> Iterator[Finding]:
        """Entries whose tokens were not all known when they were looked at last."""
        name = view.request.name
        for depth in range(self.spec.layers):
            first = self._settled.get((name, depth), 0)
            entries = list(self.ledger.logged_states(view, depth, first, drafts))
            open_ = {e for e in entries if self._undecided(view, e, drafts)}
            self._settled[name, depth] = max(first, min(view.computed, view.known - self.spec.ahead(depth) + 1))
            for code in ("FO201", "FO202"):
                self.judged[code] += len(entries) - len(open_)
                self.unknown[code] += len(open_)
            entries = [e for e in entries if e not in open_]
            yield from entry_findings(step.index, view, entries, self.ledger, self._reported)

    def _undecided(self, view: View, e: Entry, drafts: list[int]) -> bool:
        """The prefix cache brought it and the log does not say from where, or it consumed other tokens than made-up
        ones."""
        record = self.ledger.record(view, e.depth, e.position)
        if record is None:
            return e.position < view.request.hit
        unknown = self.books.live[view.request.name].tokens
        off = [(q, token) for q, token in record.chain if token_at(view, q, drafts) != token]
        return e.state == STALE and record.anchor == e.position and all(q in unknown for q, _ in off)

    def _stash(
        self, step: Round, view: View, tokens: np.ndarray, hidden: np.ndarray | None, valid: int | None
    ) -> Iterator[Finding]:
        """S8, S14, S19, as far as the log goes."""
        name, c, k = view.request.name, view.computed, self.spec.k
        known = self.books.live[name]
        own = min(k - 1, c - view.request.hit)
        if valid is not None and valid != own:
            detail = {"expected": own, "got": valid, "because": "the stash's valid length is off"}
            yield Finding("FO206", step.index, name, -1, -1, detail)
            return
        for i in range(max(k - 1 - (own if valid is None else valid), k - 1 - c), k - 1):
            p = c - k + 1 + i
            want = [int(view.tokens[p + 1]), int(view.hidden[p])]
            got = [int(tokens[i]), int(hidden[i]) if hidden is not None else want[1]]
            got[0] = want[0] if p + 1 in known.tokens else got[0]
            got[1] = want[1] if p in known.hidden else got[1]
            if got != want:
                yield Finding("FO206", step.index, name, -1, p, {"expected": want, "got": got, "entry": i})
                return

    def _drafts(self, event: LoggedRound, step: Round, index: int) -> Drafts:
        """Per view, what was sampled: by the calls, by what came back, else what the next verification accepted."""
        out: Drafts = []
        for row, view in zip(step.rows, step.views, strict=True):
            more, count = event.rows[row].more, len(event.calls)
            if "sampled" in self.history.call_fields:
                out.append([*self._sampled(event, row)])
            elif "returned" in more:
                out.append([int(token) for token in more["returned"][1 : count + 1]])
            else:
                accepted = self._accepted_next(view.request.name, index)
                out.append([accepted[m] if m < len(accepted) else None for m in range(count)])
        return out

    def _accepted_next(self, name: str, index: int) -> list[int]:
        """The drafts of a round that its request's next verification accepted: v up to a-1."""
        for event in self.history.events[index + 1 :]:
            if isinstance(event, Left) and event.request == name:
                return []
            for row in event.rows if isinstance(event, LoggedRound) else ():
                if row.request == name:
                    verified = row.more.get("verified")
                    return [] if verified is None else [int(t) for t in verified[: row.count - 1]]
        return []

    def checked(self) -> Checked:
        self.judged += self.filling.judged
        self.unknown += self.filling.unknown
        rules = []
        for code, why in self.skipped.items():
            findings = tuple(f for f in self.found if f.code == code)
            judged = 0 if why else self.judged[code]
            if not why and not judged and not self.unknown[code]:
                why = "no row of the log comes under it"
            rules.append(RuleResult(code, judged, self.unknown[code], why, findings))
        return Checked(self.history, self.played, self.lines, tuple(rules))
