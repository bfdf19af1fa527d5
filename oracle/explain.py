"""Tells a finding as a story: what was consumed, where it came from, what is there instead, what it goes on to damage.

The explanation is data (``Explanation``); ``text`` renders it, short enough for one screen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from frontier_oracle.oracle.explain_because import because
from frontier_oracle.oracle.ledger import CAUSES, TAINTED
from frontier_oracle.oracle.played import Played, Write
from frontier_oracle.oracle.reach import Cell, reach
from frontier_oracle.oracle.rules import RULES, Finding
from frontier_oracle.oracle.timeline import Round, View

WIDTH = 110
LABEL = 10


@dataclass(frozen=True)
class Value:
    """A value, and its source in words ("token of a at position 6")."""

    value: Any
    words: str


@dataclass(frozen=True)
class Where:
    """Where a rule was violated; words: the round ("decode of a, accept 2, frontier 12 to 14")."""

    round: int
    request: str
    depth: int
    position: int
    words: str


@dataclass(frozen=True)
class Explanation:
    """code, title, rule: of the rule; first_differing_write: the write that brought the wrong value in, None where no
    row is at fault; because: the argument, one sentence each; taints: entries that are locally right but read it."""

    code: str
    title: str
    rule: str
    where: Where
    expected: Value
    got: Value
    first_differing_write: Write | None
    because: tuple[str, ...]
    taints: tuple[Cell, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


def explain(finding: Finding, played: Played) -> Explanation:
    """The story of one finding of ``played.outcome`` (or of one declared that did not happen)."""
    rule = RULES[finding.code]
    step = played.step(finding.round)
    write = played.write_of(finding)
    expected, got = _values(finding, played)
    taints = _taints(finding, played)
    lines = because(finding, played, write)
    return Explanation(
        code=finding.code,
        title=rule.title,
        rule=rule.rule,
        where=Where(finding.round, finding.request, finding.depth, finding.position, _round_words(step, finding)),
        expected=expected,
        got=got,
        first_differing_write=write,
        because=(*lines, *_downstream(finding, played, taints)),
        taints=taints,
    )


def text(explanation: Explanation, source: str, replay: str = "", note: str = "", label: str = "scenario") -> str:
    """One screen: code, place, source (a scenario, unless ``label`` says what else), expected and got, because, the
    replay command. Source and command are not wrapped, so that they can be pasted."""
    e = explanation
    lines = [f"{e.code} {e.title} ({e.rule}){f' - {note}' if note else ''}"]
    lines += _labelled("where", [_place(e.where)])
    lines.append(f"  {label:<{LABEL}}{source}")
    lines += _labelled("expected", [_shown(e.expected)])
    lines += _labelled("got", [_shown(e.got)])
    if e.first_differing_write is not None:
        lines += _labelled("written", [_write_words(e.first_differing_write)])
    lines += _labelled("because", e.because)
    if replay:
        lines.append(f"  {'replay':<{LABEL}}{replay}")
    return "\n".join(lines)


def spans(cells: Iterable[Cell], most: int = 12) -> str:
    """Entries as "(1,5..7) (2,9)": depth, then runs of positions; of more than ``most`` runs the first."""
    out = []
    for (depth, _), run in groupby(enumerate(sorted(cells)), key=lambda pair: (pair[1][0], pair[1][1] - pair[0])):
        positions = [position for _, (_, position) in run]
        last = f"..{positions[-1]}" if len(positions) > 1 else ""
        out.append(f"({depth},{positions[0]}{last})")
    return " ".join(out[:most]) + (f" and {len(out) - most} more" if len(out) > most else "")


# -- the parts --------------------------------------------------------------------------------------------------------


def _round_words(step: Round | None, finding: Finding) -> str:
    if step is None:
        return ""
    view = next((v for v in step.views if v.request.name == finding.request), None)
    if view is None:
        return f"{step.mode} of {', '.join(v.request.name for v in step.views)}"
    if step.mode == "extend":
        chunk = f"prompt positions {view.before}..{view.computed - 1}"
        return f"extend of {finding.request}, {chunk} of {view.request.prompt}"
    return f"decode of {finding.request}, accept {view.accept}, frontier {view.before} to {view.computed}"


def _place(where: Where) -> str:
    entry = [f"request {where.request}"] if where.request else []
    if where.depth >= 0:
        entry.append(f"depth {where.depth}")
    if where.position >= 0:
        entry.append(f"position {where.position}")
    at = f"round {where.round}" if where.round >= 0 else "no single round"
    return ", ".join([f"{at} ({where.words})" if where.words else at, *entry])


def _shown(value: Value) -> str:
    return value.words if value.value is None else f"{value.words} ({value.value})"


def _write_words(w: Write) -> str:
    cells = ", ".join(map(str, w.locations))
    return (
        f"round {w.round}, depth {w.depth}, row {w.row} of {w.rows} of {w.request}: position {w.passed}, "
        f"seq_len {w.extent}, cell {cells}"
    )


def _labelled(label: str, sentences: Iterable[str]) -> list[str]:
    """Sentences under a label, wrapped."""
    lines: list[str] = []
    for sentence in sentences:
        line = ""
        for word in sentence.split():
            if line and len(line) + 1 + len(word) > WIDTH - LABEL - 4:
                lines.append(line)
                line = "  " + word
            else:
                line = f"{line} {word}" if line else word
        lines.append(line)
    return [f"  {label if i == 0 else '':<{LABEL}}{line}" for i, line in enumerate(lines)]


# code -> what had to be there, what was: where the values have no source to be named by.
SAID = {
    "FO103": ("the position it stands for", "the position it was given"),
    "FO104": ("the cells of that position, by group", "the cells written, by group"),
    "FO105": ("the sampled row", "the row sampled"),
    "FO107": ("the seq_len of that position", "its seq_len"),
    "FO108": ("the drafts that were sampled", "the drafts that were returned"),
    "FO202": ("an entry", "nothing was written there"),
    "FO203": ("the request's own page table row", "another"),
    "FO204": ("only what the round's own rows write", "a write elsewhere"),
    "FO206": ("the stash of the request as it is", "another"),
    "FO207": ("the ring row of that position", "another value"),
    "FO208": ("the ring rows before the page's end", "others"),
    "FO209": ("what stands in the shared cell", "another value"),
    "FO302": ("a round without host reads", "a tensor's values were read on the host"),
    "FO303": ("the addresses of the capture", "buffers that stand elsewhere"),
    "FO401": ("the types and shapes of the contract", "others"),
}


def _values(finding: Finding, played: Played) -> tuple[Value, Value]:
    """What had to be there, and what was."""
    name, detail, code, p = finding.request, finding.detail, finding.code, finding.position
    want, got = detail.get("expected"), detail.get("got")
    if code == "FO106":
        return Value(want, _token_there(finding, played, p, want)), Value(got, played.token_words(got, name))
    if detail.get("what") == "token":
        there = _token_there(finding, played, p + finding.depth + 1, want)
        return Value(want, there), Value(got, played.token_words(got, name))
    if detail.get("what") == "hidden":
        return Value(want, _hidden_wanted(finding, played)), Value(got, played.hidden_words(got, name))
    if code == "FO201" and "chain" in detail:
        return _chain_values(finding, played)
    if code == "FO206" and isinstance(want, list) and isinstance(got, list):
        return _stash_values(finding, played, want, got)
    if code == "FO206" and want is not None:
        return Value(want, "valid entries in the stash"), Value(got, "valid entries claimed")
    if "expected_slot" in detail:
        return Value(detail["expected_slot"], "its own slot"), Value(detail["got_slot"], "the slot given")
    if code == "FO205":
        rows = detail.get("unmasked_rows")
        return Value(None, "no write, and conv slot 0"), (
            Value(rows, "rows that store") if rows else Value(detail.get("conv_slot"), "conv slot")
        )
    wanted, found = detail.get("words") or SAID.get(code, ("what the rule says", "something else"))
    return Value(want, wanted), Value(got, found)


def _token_there(finding: Finding, played: Played, q: int, value: int | None) -> str:
    """A token that is there by its place, even where it was a draft first."""
    view = played.view(finding.round, finding.request)
    if view is not None and 0 <= q <= view.known:
        return f"token of {finding.request} at position {q}"
    return played.token_words(value, finding.request)


def _stash_values(finding: Finding, played: Played, want: list[Any], got: list[Any]) -> tuple[Value, Value]:
    """The token of a stash entry if that is off, else its hidden."""
    name = finding.request
    if want[0] != got[0]:
        there = _token_there(finding, played, finding.position + 1, want[0])
        return Value(want[0], there), Value(got[0], played.token_words(got[0], name))
    return Value(want[1], played.hidden_words(want[1], name)), Value(got[1], played.hidden_words(got[1], name))


def _hidden_wanted(finding: Finding, played: Played) -> str:
    want, depth, p = finding.detail.get("expected"), finding.depth, finding.position
    if want is None:
        return f"output O({depth - 1},{p}), which no row made"
    return played.hidden_words(want, finding.request)


def _chain_values(finding: Finding, played: Played) -> tuple[Value, Value]:
    """The first token of a stale entry's chain that is not what is there now."""
    view = played.view(finding.round, finding.request)
    for q, token in finding.detail["chain"]:
        if view is not None and 0 <= q <= view.known and int(view.tokens[q]) != token:
            want = int(view.tokens[q])
            there = _token_there(finding, played, q, want)
            return Value(want, there), Value(token, played.token_words(token, finding.detail["by"]))
    return Value(None, "the tokens that are there"), Value(None, "tokens of an older round")


def _taints(finding: Finding, played: Played) -> tuple[Cell, ...]:
    """The tainted entries that the entry at fault reaches, from the finding's round on, while it is at fault."""
    cell, found = (finding.depth, finding.position), set[Cell]()
    right_row = frozenset([cell]) if finding.code in ("FO103", "FO107") else frozenset()
    for verdict in played.outcome.verdicts if finding.depth >= 0 else ():
        view = played.view(verdict.round, finding.request)
        mine = {(e.depth, e.position): e.state for e in verdict.entries if e.request == finding.request}
        if verdict.round >= finding.round and view is not None and mine.get(cell) in CAUSES:
            reached = reach([cell], played.outcome.scenario.spec, view.computed, right_row)
            found |= {c for c in reached if mine.get(c) == TAINTED}
    return tuple(sorted(found))


def _downstream(finding: Finding, played: Played, taints: tuple[Cell, ...]) -> list[str]:
    """What the fault does: the entries it taints, the drafts of the round, and whether it heals."""
    out = []
    if taints:
        count = "one entry that is" if len(taints) == 1 else f"{len(taints)} entries that are"
        out.append(f"it taints {count} locally right but read it, as (depth,positions): {spans(taints)}")
    verdict, view = played.verdict(finding.round), played.view(finding.round, finding.request)
    if verdict is not None and view is not None and view.sampled and finding.code not in ("FO106", "FO108"):
        same = verdict.drafts_equal.get(finding.request, True)
        out.append(
            "the drafts of this round are still the ideal's: nothing shows outside the cache yet"
            if same
            else "the drafts of this round are not the ideal's"
        )
    fate = _fate(finding, played, view)
    return [*out, fate] if fate else out


def _fate(finding: Finding, played: Played, view: View | None) -> str:
    if view is None or finding.depth < 0:
        return ""
    entry = (finding.request, finding.depth, finding.position)
    after = [v for v in played.outcome.verdicts if v.round >= finding.round]
    states = [(v.round, e) for v in after for e in v.entries if (e.request, e.depth, e.position) == entry]
    for round_, e in states[1:]:
        if e.equal and e.state not in (*CAUSES, TAINTED):
            return f"the entry heals in round {round_}, when a window writes it again"
    if states and states[-1][1].state in (*CAUSES, TAINTED):
        last, entry_now = states[-1]
        when = "after this round" if last == finding.round else f"after round {last}, the last that shows it"
        return f"the entry is {entry_now.state} {when}"
    return ""
