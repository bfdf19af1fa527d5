"""Why a finding came about, in sentences: which row, what it consumed and whose that is, what is there instead."""

from __future__ import annotations

from frontier_oracle.oracle.played import Played, Write
from frontier_oracle.oracle.registry import Source
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.oracle.timeline import Round, View


def because(finding: Finding, played: Played, write: Write | None) -> list[str]:
    """The argument for one finding, cause first. Always at least one sentence."""
    view = played.view(finding.round, finding.request)
    step = played.step(finding.round)
    if finding.code == "FO205":
        rows = finding.detail.get("unmasked_rows")
        stores = f"rows {', '.join(map(str, rows))} of the call store" if rows else "a conv slot is named"
        return [f"a padded row (slot 0, null page) stores nothing and names no slot but 0, yet {stores} (S20)"]
    if view is None or step is None:
        return [str(finding.detail.get("because", "see the values above"))]
    code = finding.code
    if "what" in finding.detail:
        return _consumed(finding, played, view, step)
    if code == "FO201" and "chain" in finding.detail:
        return _stale(finding, played, view)
    if code == "FO206":
        return _stash(finding, played, view)
    if code == "FO209":
        return _shared(finding, played, view, write)
    if code in ("FO103", "FO104", "FO107"):
        return _geometry(finding, view, write)
    if code == "FO202":
        return _unwritten(finding, played)
    if "because" in finding.detail:
        return [str(finding.detail["because"])]
    return [_SAID.get(code, "see the values above")]


_SAID = {
    "FO105": "each round samples the row of the last computed position, the window's last (S9)",
    "FO106": "column 0 of the result is the committed token at the frontier, v[a-1] (S10)",
    "FO108": "columns 1..steps of the result are what the model sampled, depth by depth (S10)",
    "FO204": "the row writes the conv ring of a slot that its request does not hold (S19)",
}


def _consumed(finding: Finding, played: Played, view: View, step: Round) -> list[str]:
    """FO101, FO102, FO203: the rule for the row, then where the value it got comes from."""
    depth, p, name, got = finding.depth, finding.position, finding.request, finding.detail["got"]
    if finding.detail["what"] == "token":
        q = p + depth + 1
        out = [f"depth {depth} at position {p} consumes the token at position {q} (S1); {_there(played, view, q)}"]
        source = played.registry.token(got, name)
    else:
        needs = f"O({depth - 1},{p})" if depth and played.outcome.scenario.spec.hidden == "chain" else f"h({p})"
        needs = needs if depth == 0 or played.outcome.scenario.spec.hidden != "shifted" else f"h({p + depth}) or O"
        out = [f"depth {depth} at position {p} consumes the hidden {needs} (S1, S6)"]
        source = played.registry.hidden(got, name)
        q = p
    return [*out, *_origin(source, finding, view, step, q, got)]


def _there(played: Played, view: View, q: int) -> str:
    """Since when the token at q stands."""
    if q < 0:
        return "there is no such position"
    if q < view.request.prompt:
        return "it is in the prompt"
    if q <= view.known:
        return f"it is committed since round {played.known_since(view.request.name, q)}"
    return f"beyond the frontier it is draft {q - view.computed} of this round"


def _origin(source: Source | None, finding: Finding, view: View, step: Round, q: int, got: int) -> list[str]:
    if source is None:
        if got == 0:
            first = view.request.hit
            last = view.computed - 1
            return [f"nothing of {finding.request} was there to read: only positions {first}..{last} are its own"]
        return ["what it got was never handed out by the engine nor made by the model in this run"]
    if source.request != finding.request:
        return [f"what it got belongs to request {source.request}, not to {finding.request} (S19)"]
    if source.kind == "discarded":
        return ["that is what the target sampled in mid-prompt, and is discarded: the prompt itself goes on (S12)"]
    if source.kind in ("garbage", "garbage hidden"):
        return [f"what it got lies past the accepted prefix of round {source.round}: rejected, never to be read (S3)"]
    if source.kind == "draft" and source.round < step.index:
        return [f"what it got is a draft of round {source.round}, and this is round {step.index}"]
    if source.kind == "draft" and step.mode == "extend" and q < view.request.prompt:
        return [_tail(view.computed)]
    if source.kind in ("committed", "target", "draft") and source.position != q:
        return [_off(source.position, q)]
    if source.kind == "output" and source.round < step.index:
        return [f"what it got was made in round {source.round}, and this is round {step.index}"]
    return []


def _off(got: int, want: int) -> str:
    by = f": off by {got - want:+d}" if abs(got - want) <= 3 else ""
    return f"what it got is that of position {got}, not {want}{by}"


def _unwritten(finding: Finding, played: Played) -> list[str]:
    """FO202: what the depth did run."""
    name, depth = finding.request, finding.depth
    mine = [w for w in played.writes if (w.request, w.depth) == (name, depth) and w.round == finding.round]
    if not mine:
        return [f"depth {depth} wrote no row of {name} in this round"]
    ran = f"positions {mine[0].position}..{mine[-1].position}"
    return [
        f"depth {depth} ran {ran} of {name} in this round, and no round before it wrote position {finding.position}"
    ]


def _tail(end: int) -> str:
    return f"the chunk ends at position {end - 1}, and its tail read this round's own drafts, not the next chunk (S12)"


def _stale(finding: Finding, played: Played, view: View) -> list[str]:
    """FO201: written when its tokens were guesses (or another request's), and never again."""
    name, by, written = finding.request, finding.detail["by"], finding.detail["written"]
    chain = finding.detail["chain"]
    wrong = [(q, token) for q, token in chain if 0 <= q <= view.known and int(view.tokens[q]) != token]
    out = []
    for q, token in wrong[:2]:
        since = played.known_since(name, q)
        kind = "the prompt has" if q < view.request.prompt else f"round {since} committed"
        there = played.token_words(int(view.tokens[q]), name)
        out.append(f"for position {q} it consumed the {played.token_words(token, by)}; there {kind} the {there}")
    if by != name:
        out.append(
            f"request {by} wrote it in round {written}, {name} took it over with a hit of {view.request.hit}: it holds "
            f"what followed in {by} (S21)"
        )
        return out
    chunk = played.step(written)
    if chunk is not None and chunk.mode == "extend" and wrong and wrong[0][0] < view.request.prompt:
        before = played.view(written, name)
        return [*out, _tail(before.computed if before is not None else view.computed)]
    later = [w for w in played.writes if w.request == name and w.depth == finding.depth and w.round > written]
    windows = sorted({w.round: w.position for w in reversed(later)}.items())
    ran = ", ".join(f"round {r} from position {p} on" for r, p in windows if r <= finding.round)
    if ran:
        left = f"position {finding.position} was left behind (S4)"
        out.append(f"since round {written} depth {finding.depth} ran {ran}: {left}")
    return out


def _stash(finding: Finding, played: Played, view: View) -> list[str]:
    if "entry" not in finding.detail:
        return [str(finding.detail.get("because", ""))]
    p, entry, k = finding.position, finding.detail["entry"], played.outcome.scenario.spec.k
    own = view.computed - view.request.hit
    out = [f"entry {entry} of {k - 1} of the stash is for position {p}: token x[{p + 1}] and hidden h({p}) (S8, S14)"]
    if own < k - 1:
        since = f"behind the hit of {view.request.hit}" if view.request.hit else "in all"
        out.append(f"{finding.request} has computed {_count(own)} {since}: no more entries can hold")
    token, hidden = finding.detail["got"]
    found = played.registry.token(token, finding.request), played.registry.hidden(hidden, finding.request)
    for source, want in zip(found, (p + 1, p), strict=True):
        if source is not None and source.request != finding.request:
            return [*out, f"what stands there was left by request {source.request} (S19)"]
        if source is not None and source.position != want:
            return [*out, _off(source.position, want)]
    return out


def _shared(finding: Finding, played: Played, view: View, write: Write | None) -> list[str]:
    """FO209: whose page, and what the row was given that makes it write another value."""
    out = [str(finding.detail.get("because", "a shared page changed"))]
    if write is None:
        return out
    q, name = write.position + write.depth + 1, finding.request
    if 0 <= q <= view.known and int(view.tokens[q]) != write.token:
        there = played.token_words(int(view.tokens[q]), name)
        out.append(f"for position {q} the row consumed the {played.token_words(write.token, name)}, not the {there}")
    if write.depth == 0 and int(view.hidden[write.position]) != write.hidden:
        out.append(f"for h({write.position}) it consumed the {played.hidden_words(write.hidden, name)}")
    if write.position < view.request.hit:
        own = _count(view.computed - view.request.hit)
        out.append(f"{name} took over {view.request.hit} and computed {own}: its window reaches below the hit (S21)")
    return out


def _geometry(finding: Finding, view: View, write: Write | None) -> list[str]:
    """FO103, FO104, FO107: position, extent and cell of a row must all speak of one position."""
    if write is None:
        return ["no row stands for it"]
    cell = "nobody" if write.located is None else str(write.located)
    out = [
        f"the row was given position {write.passed}, its extent says {write.extent - 1}, its cell is that of {cell}: "
        f"the middle one decides, it stands for {write.position} (S9)"
    ]
    if write.rows > view.computed:
        out.append(f"{write.rows} rows but only {_count(view.computed)}: rows below position 0 must be masked (S9)")
    return out


def _count(n: int) -> str:
    return f"{n} position" if n == 1 else f"{n} positions"
