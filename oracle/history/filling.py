"""A logged call as the judge's CallLog. What was not logged is filled with what must stand there, and not counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle.calls import CallLog
from frontier_oracle.oracle.engine_requests import Round, View
from frontier_oracle.oracle.geometry import RowPlace, places, position_of
from frontier_oracle.oracle.history.books import HistoryBooks
from frontier_oracle.oracle.history.schema import History, LoggedCall, LoggedRound
from frontier_oracle.oracle.ledger import token_at
from frontier_oracle.oracle.local import OUTPUT_BELOW, hidden_source

I64 = NDArray[np.int64]
# Stands for a draft that was not logged: no token is so low.
NO_DRAFT = -(1 << 30) - 100


class Filling:
    """Turns the calls of one round after another. judged, unknown: by code, how many rows were judged, and how many
    were not since the value that they must be given is not in the log."""

    def __init__(self, history: History, books: HistoryBooks) -> None:
        self.spec, self.books, self.groups = books.spec, books, history.spec.groups
        self.fields = history.call_fields
        self.located = "locations" in self.fields and books.tabled
        self.judged: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self._outputs: dict[tuple[str, int, int], int] = {}
        self._made = 0

    def calls(self, event: LoggedRound, step: Round, drafts: list[list[int | None]]) -> list[CallLog]:
        """All calls of a round. drafts: per view, what was sampled, None where nobody knows."""
        out = []
        for number, logged in enumerate(event.calls):
            step_number = number if self.spec.hidden == "single" else logged.depth
            call = self._placed(logged, step, [own[step_number : step_number + 1] for own in drafts])
            for row, view, own in zip(step.rows, step.views, drafts, strict=True):
                self._valued(logged, call, row, view, own)
            out.append(call)
        return out

    # -- where rows stand ----------------------------------------------------------------------------------------------

    def _placed(self, logged: LoggedCall, step: Round, draft: list[list[int | None]]) -> CallLog:
        """The call, its rows placed. draft: per view what this call sampled, [] where that is not known."""
        n, bs = int(logged.starts[-1]), len(logged.starts) - 1
        views = dict(zip(step.rows, step.views, strict=True))
        masked = self._masked(logged, views)
        seq_lens, slots, samples = np.ones(bs, np.int64), np.zeros(bs, np.int64), logged.starts[1:] - 1
        tables = [np.zeros((bs, cols), np.int64) for cols in self.books.cols]
        for row, view in views.items():
            if "slots" in logged.more and view.request.slot == 0:
                view.request.slot = int(logged.more["slots"][row])  # its admission did not say
            seq_lens[row] = self._extent(logged, row, view, masked)
            slots[row] = view.request.slot
        more = logged.more
        if "seq_lens" in more:
            seq_lens = more["seq_lens"]
        call = CallLog(
            depth=logged.depth,
            input_ids=np.array(more.get("input_ids", np.zeros(n, np.int64))),
            positions=np.array(more.get("positions", np.zeros(n, np.int64))),
            hidden_digest=np.array(more.get("hidden", np.zeros(n, np.int64))),
            out_cache_loc=tuple(np.zeros(n, np.int64) for _ in self.groups),
            query_start_loc=logged.starts,
            seq_lens=seq_lens,
            page_table=tuple(tables),
            conv_slots=more.get("slots", slots),
            sample_rows=more.get("sample_rows", samples),
            masked=masked,
            output_digest=np.array(more.get("outputs", self._new(n))),
            tokens=_sampled(more, step, draft, logged.depth, bs),
        )
        if self.located:
            call = replace(call, out_cache_loc=more["locations"])
        for row, view in views.items():
            self._fill_place(logged, call, row, view)
        return replace(call, page_table=self._page_tables(logged, step, tables))

    def _masked(self, logged: LoggedCall, views: dict[int, View]) -> NDArray[np.bool_]:
        """Rows that store nothing: as logged, or on page 0 in every group, or of a padded row; else before position 0
        by what was logged of the last row."""
        n = int(logged.starts[-1])
        if "masked" in logged.more:
            return np.array(logged.more["masked"], dtype=bool)
        if "locations" in logged.more:
            pages = [loc // g.page_size for loc, g in zip(logged.more["locations"], self.groups, strict=True)]
            return np.all([page == 0 for page in pages], axis=0) if n else np.zeros(0, bool)
        masked = np.ones(n, dtype=bool)
        for row in views:
            first, end = int(logged.starts[row]), int(logged.starts[row + 1])
            last = self._last_extent(logged, row)
            masked[first:end] = (last - np.arange(end - first - 1, -1, -1)) < 1
        return masked

    def _last_extent(self, logged: LoggedCall, row: int) -> int:
        end = int(logged.starts[row + 1])
        if "seq_lens" in logged.more:
            return int(logged.more["seq_lens"][row])
        return int(logged.more["positions"][end - 1]) + 1 if "positions" in logged.more and end else 1

    def _extent(self, logged: LoggedCall, row: int, view: View, masked: NDArray[np.bool_]) -> int:
        """The extent that most rows speak for, by their positions and cells: what seq_lens would be."""
        first, end = int(logged.starts[row]), int(logged.starts[row + 1])
        group, votes = self.spec.group_of(logged.depth), Counter[int]()
        for i in (i for i in range(first, end) if not masked[i]):
            later = end - i  # this row and those behind it
            if "positions" in logged.more:
                votes[int(logged.more["positions"][i]) + later] += 1
            if self.located:
                near = view.computed - later
                at = position_of(view, group, int(logged.more["locations"][group][i]), near)
                votes[at + later if at is not None else 0] += at is not None
        return max(votes, key=lambda extent: (votes[extent], extent)) if votes else view.computed

    def _fill_place(self, logged: LoggedCall, call: CallLog, row: int, view: View) -> None:
        extents, group = call.extents(row), self.spec.group_of(call.depth)
        for j, i in enumerate(call.rows_of(row)):
            if call.masked[i]:
                continue
            if "positions" not in logged.more:
                call.positions[i] = extents[j] - 1
                if "seq_lens" not in logged.more:
                    at = position_of(view, group, int(call.out_cache_loc[group][i]), int(extents[j]) - 1)
                    call.positions[i] = at if at is not None else extents[j] - 1
            if not self.located:
                for g, table in enumerate(view.request.tables):
                    call.out_cache_loc[g][i] = table.location(max(0, int(call.positions[i])))

    def _page_tables(self, logged: LoggedCall, step: Round, tables: list[I64]) -> tuple[I64, ...]:
        """As wide as the requests' own; these where the call's were not logged."""
        for g, filled in enumerate(tables):
            if self.books.tabled and "page_table" in logged.more:
                given = logged.more["page_table"][g][:, : filled.shape[1]]
                filled[:, : given.shape[1]] = given
                continue
            for row, view in zip(step.rows, step.views, strict=True):
                filled[row] = view.request.tables[g].pages
        return tuple(tables)

    # -- what they consume ---------------------------------------------------------------------------------------------

    def _valued(self, logged: LoggedCall, call: CallLog, row: int, view: View, drafts: list[int | None]) -> None:
        """Ids and hiddens that the log does not have, or that cannot be judged, become those that must stand there."""
        spec, depth, group = self.spec, call.depth, self.spec.group_of(call.depth)
        known = self.books.live[view.request.name]
        own = [NO_DRAFT - m if token is None else token for m, token in enumerate(drafts)][:depth]
        self.judged["FO105"] += 1
        for place in places(call, row, view, group):
            p, q = place.anchor, place.anchor + spec.ahead(depth)
            self.judged.update(["FO103", "FO104", "FO107"])
            if 0 <= p < view.computed:
                m = q - view.computed - 1
                missing = q in known.tokens or (0 <= m < len(drafts) and drafts[m] is None and q > view.known)
                self._take("FO101", "input_ids" in logged.more, missing)
                want = token_at(view, q, own)
                if want is not None and (missing or "input_ids" not in logged.more):
                    call.input_ids[place.row] = want
                self._hidden(logged, call, view, place)
            self._outputs[view.request.name, depth, p] = int(call.output_digest[place.row])

    def _hidden(self, logged: LoggedCall, call: CallLog, view: View, place: RowPlace) -> None:
        name, p = view.request.name, place.anchor
        source = hidden_source(self.spec, call.depth, p, view.computed)
        if source == OUTPUT_BELOW:
            want, missing = self._outputs.get((name, call.depth - 1, p)), "outputs" not in logged.more
        elif source < 0:
            want, missing = 0, True
        else:
            want = int(view.hidden[source])
            missing = source in self.books.live[name].hidden
        self._take("FO102", "hidden" in logged.more, missing)
        if want is not None and (missing or "hidden" not in logged.more):
            call.hidden_digest[place.row] = want

    def _take(self, code: str, logged: bool, missing: bool) -> None:
        (self.unknown if missing else self.judged)[code] += logged

    def _new(self, n: int) -> I64:
        """Outputs that were not logged, each of its own."""
        self._made += n
        return -(1 << 40) - np.arange(self._made - n, self._made, dtype=np.int64)


def _sampled(more: Mapping[str, Any], step: Round, draft: list[list[int | None]], depth: int, bs: int) -> I64:
    """[bs] what was sampled in this call, by the log or by what came back."""
    if "sampled" in more:
        return np.array(more["sampled"])
    out = np.zeros(bs, np.int64)
    for row, own in zip(step.rows, draft, strict=True):
        out[row] = NO_DRAFT - depth if not own or own[0] is None else own[0]
    return out
