"""Writes a history of a drafter that the oracle drives: what an engine's own logging would have written."""

from __future__ import annotations

import json

import numpy as np

from frontier_oracle.oracle.calls import CallLog
from frontier_oracle.oracle.contract import DecodeBatch, ExtendBatch
from frontier_oracle.oracle.engine_requests import Adopted, Released, Request, Round
from frontier_oracle.oracle.evidence import Evidence
from frontier_oracle.oracle.files import plain
from frontier_oracle.oracle.history.header import FORMAT, VERSION
from frontier_oracle.oracle.history.values import Json
from frontier_oracle.oracle.play import Drafter
from frontier_oracle.oracle.spec import Spec


def header(spec: Spec, engine: str = "") -> Json:
    """The first line."""
    groups = [{"page_size": g.page_size} | ({} if g.window is None else {"window": g.window}) for g in spec.groups]
    shown = {"k": spec.k, "steps": spec.steps, "hidden": spec.hidden, "conv_width": spec.conv_width, "groups": groups}
    return {"format": FORMAT, "version": VERSION, "spec": shown, "engine": engine}


class Recorder:
    """A drafter whose rounds are written down as they happen (oracle.play.Drafter)."""

    def __init__(self, drafter: Drafter, spec: Spec, engine: str = "") -> None:
        self.drafter, self.lines = drafter, [header(spec, engine)]
        self._live: dict[str, Request] = {}

    def adopted(self, step: Adopted) -> None:
        self.drafter.adopted(step)

    def released(self, step: Released) -> None:
        self.drafter.released(step)
        if self._live.pop(step.request.name, None) is not None:
            self.lines.append({"event": "release", "request": step.request.name})

    def round(self, step: Round) -> Evidence:
        evidence = self.drafter.round(step)
        for view in step.views:
            if self._live.get(view.request.name) is not view.request:
                self._live[view.request.name] = view.request
                self.lines.append(_admitted(view.request))
        rows: list[Json] = [{"request": None} for _ in step.batch.seq_lens]
        for i, row in enumerate(evidence.rows_of(step)):
            rows[row] = _row(step, evidence, i)
        calls = [_call(call) for call in evidence.calls]
        self.lines.append({"event": step.mode, "rows": rows, "calls": calls})
        return evidence

    def text(self) -> str:
        """The file."""
        return "".join(json.dumps(line, default=plain, allow_nan=False) + "\n" for line in self.lines)


def _admitted(r: Request) -> Json:
    return {"event": "admit", "request": r.name, "slot": r.slot, "prompt": r.tokens[: r.prompt], "hit": r.hit}


def _row(step: Round, evidence: Evidence, i: int) -> Json:
    view, batch = step.views[i], step.batch
    tables = [table.pages.copy() for table in view.request.tables]
    out: Json = {"request": view.request.name, "page_table": tables, "returned": evidence.returned[i]}
    if isinstance(batch, ExtendBatch):
        out |= {"start": view.before, "count": view.computed - view.before, "sampled": int(batch.sampled_ids[i])}
        out["target_hidden"] = view.hidden[view.before : view.computed]
    else:
        assert isinstance(batch, DecodeBatch)
        k = batch.verify_ids.shape[1]
        out |= {"frontier": view.before, "accept": view.accept, "verified": batch.verify_ids[i]}
        out["target_hidden"] = batch.hidden[i * k : (i + 1) * k]
    if evidence.stash is not None:
        s, slot = evidence.stash, view.request.slot
        valid = None if s.valid is None else int(s.valid[slot])
        out["stash"] = {"tokens": s.tokens[slot], "hidden": s.hidden[slot], "valid": valid}
    return out


def _call(call: CallLog) -> Json:
    by_row = {"input_ids": call.input_ids, "positions": call.positions, "hidden": call.hidden_digest}
    return {
        "depth": call.depth,
        "query_start_loc": call.query_start_loc,
        **by_row,
        "outputs": call.output_digest,
        "locations": list(call.out_cache_loc),
        "seq_lens": call.seq_lens,
        "slots": call.conv_slots,
        "sample_rows": call.sample_rows,
        "sampled": call.tokens,
        "page_table": list(call.page_table),
        "masked": np.asarray(call.masked),
    }
