"""What each rule needs of a log: a rule whose fields were not logged is skipped, and the reason says which."""

from __future__ import annotations

from frontier_oracle.oracle.history.schema import History

VALUES_ONLY = "it compares values in the cache, which no log has: hand the drafter to the gate (Tier 1)"


def needs(history: History) -> dict[str, str]:
    """By code, why the rule cannot be applied, "" where it can. Rules that no log can show stand there too."""
    call, row = history.call_fields, history.row_fields
    tabled = "page_table" in row
    witnesses = {"positions", "seq_lens"} & call | ({"locations"} & call if tabled else set())
    placed = "" if witnesses else "not logged: positions, seq_lens, or locations with the rows' page_table"
    tokens = placed or _absent(call, "input_ids")
    hidden = placed or _absent(call, "hidden") or _absent(row, "target_hidden")
    cells = _absent(call, "locations") or ("" if tabled else "not logged: the rows' page_table")
    tables = _absent(call, "page_table") or ("" if tabled else "not logged: the rows' page_table")
    returned = _absent(row, "returned")
    padding = call & {"locations", "masked", "slots"}
    return {
        "FO101": tokens,
        "FO102": hidden,
        "FO103": _absent(call, "positions") or _second(witnesses, "positions"),
        "FO104": cells or _second(witnesses, "locations"),
        "FO105": placed or _absent(call, "sample_rows"),
        "FO106": returned,
        "FO107": _absent(call, "seq_lens") or _second(witnesses, "seq_lens"),
        "FO108": returned or _absent(call, "sampled"),
        "FO201": tokens,
        "FO202": placed,
        "FO203": placed or (tokens and hidden and tables),
        "FO204": placed or (cells and _absent(call, "slots")),
        "FO205": placed or ("" if padding else "not logged: locations, masked or slots"),
        "FO206": _absent(row, "stash"),
        "FO207": VALUES_ONLY,
        "FO208": VALUES_ONLY,
        "FO209": VALUES_ONLY,
        "FO401": placed,
    }


def _absent(fields: frozenset[str], name: str) -> str:
    return "" if name in fields else f"not logged: {name}"


def _second(witnesses: set[str], own: str) -> str:
    others = " or ".join(name for name in ("positions", "seq_lens", "locations") if name != own)
    return "" if witnesses - {own} else f"nothing to hold it against: log {others} too"
