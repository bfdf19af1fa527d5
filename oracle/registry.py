"""Where a value came from: token or digest -> who made it, when. Names the source in findings and explanations."""

from __future__ import annotations

from dataclasses import dataclass, field

from frontier_oracle.oracle.contract import DecodeBatch
from frontier_oracle.oracle.timeline import Round


@dataclass(frozen=True)
class Source:
    """kind: "committed" (prompt or accepted), "draft", "garbage" (past the accepted prefix), "discarded" (a mid-prompt
    sample), "target" (h), "garbage hidden", "output" (O). request is a scenario name; depth -1 where it has none."""

    kind: str
    request: str
    position: int
    round: int
    depth: int = -1

    def words(self) -> str:
        at = f"of {self.request} at position {self.position}"
        if self.kind == "target":
            return f"target hidden h({self.position}) of {self.request}"
        if self.kind == "garbage hidden":
            return f"verify hidden {at}, past its accepted prefix (round {self.round})"
        if self.kind == "output":
            return f"output O({self.depth},{self.position}) of {self.request} from round {self.round}"
        if self.kind == "draft":
            return f"draft of depth {self.depth} {at} from round {self.round}"
        if self.kind == "garbage":
            return f"verify token {at}, past its accepted prefix (round {self.round})"
        if self.kind == "discarded":
            return f"discarded sample {at} (round {self.round})"
        return f"token {at}"


@dataclass
class Registry:
    """Filled as rounds are judged. One value can have a source in several requests (a shared prefix): a look-up names
    the asking request's own first."""

    tokens: dict[int, dict[str, Source]] = field(default_factory=dict)
    hiddens: dict[int, dict[str, Source]] = field(default_factory=dict)
    _noted: dict[str, int] = field(default_factory=dict)

    def note_round(self, step: Round) -> None:
        """Register what the engine hands out in this round, before the calls are judged."""
        for row, view in enumerate(step.views):
            name = view.request.name
            start = self._noted.get(name, 0)
            for p in range(start, len(view.tokens)):
                _note(self.tokens, int(view.tokens[p]), Source("committed", name, p, step.index))
            for p in range(start, view.computed):
                _note(self.hiddens, int(view.hidden[p]), Source("target", name, p, step.index))
            self._noted[name] = view.computed
            if isinstance(step.batch, DecodeBatch):
                k = step.batch.verify_ids.shape[1]
                for j in range(view.accept, k):
                    p = view.before + j
                    token, hidden = int(step.batch.verify_ids[row, j]), int(step.batch.hidden[row * k + j])
                    _note(self.tokens, token, Source("garbage", name, p + 1, step.index))
                    _note(self.hiddens, hidden, Source("garbage hidden", name, p, step.index))
            elif not view.sampled:
                token = int(step.batch.sampled_ids[row])
                _note(self.tokens, token, Source("discarded", name, view.computed, step.index))

    def note_output(self, request: str, depth: int, position: int, value: int, round_: int) -> None:
        _note(self.hiddens, value, Source("output", request, position, round_, depth))

    def note_draft(self, token: int, request: str, depth: int, position: int, round_: int) -> None:
        _note(self.tokens, token, Source("draft", request, position, round_, depth))

    def token(self, value: int, asking: str) -> Source | None:
        return _look_up(self.tokens, value, asking)

    def hidden(self, value: int, asking: str) -> Source | None:
        return _look_up(self.hiddens, value, asking)


def _note(table: dict[int, dict[str, Source]], value: int, source: Source) -> None:
    table.setdefault(value, {}).setdefault(source.request, source)


def _look_up(table: dict[int, dict[str, Source]], value: int, asking: str) -> Source | None:
    owners = table.get(value)
    if not owners:
        return None
    return owners.get(asking) or next(iter(owners.values()))
