"""What the engine holds of a request, and the steps it hands out: adopted, released, one model round."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.contract import DecodeBatch, ExtendBatch, MediaIds
from frontier_oracle.oracle.pages import Table
from frontier_oracle.oracle.scenario import Admit, Books, Resume, Scenario, max_batch, max_positions

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

# Kinds of scripted tokens.
PROMPT, COMMIT, GARBAGE, DISCARDED, HASHED = 1, 2, 3, 4, 5
# Where prompts hold media, scripted tokens keep below the content hashes: those have this bit (S16). Two modalities.
HASH = digest.TOKEN_SPACE // 2
VOCABULARY = digest.TOKEN_SPACE + HASH
MEDIA = MediaIds(
    vocab_size=VOCABULARY,
    substitutes=((VOCABULARY, VOCABULARY + HASH // 2, 17), (VOCABULARY + HASH // 2, VOCABULARY + HASH, 23)),
)


@dataclass
class Request:
    """One request as the engine holds it. tokens = x[0..K], media ids replaced (S16), and by position the ids that they
    were; hidden = h(0..C-1), computed = C, hit = L. A resumed request is a new object under the old name and number."""

    name: str
    number: int
    slot: int
    prompt: int
    tokens: list[int]
    chunks: list[int]
    hidden: I64
    states: I64
    tables: list[Table]
    hit: int = 0
    computed: int = 0
    drafts: I32 = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    media: dict[int, int] = field(default_factory=dict)

    @property
    def known(self) -> int:
        """K: the last known token's position."""
        return len(self.tokens) - 1

    def advance(self, hidden: I64) -> None:
        """Positions C.. are computed, with these hiddens [n]; the states behind them are the verify round's."""
        self.hidden = np.concatenate([self.hidden[: self.computed], hidden])
        self.computed += len(hidden)
        self.states = self.states[: self.computed]

    def given(self, first: int, end: int) -> list[int]:
        """Tokens first..end-1 as the scheduler has them: content hashes at media positions."""
        return [self.media.get(p, self.tokens[p]) for p in range(first, min(end, len(self.tokens)))]


@dataclass(frozen=True)
class View:
    """What one request's row must be judged against in a round. tokens [K+1], hidden [C]; tables are live objects
    whose locations hold for this round; sampled: x[C] was sampled (decode, or a prompt's last chunk)."""

    request: Request
    tokens: I32
    hidden: I64
    computed: int
    before: int
    accept: int
    sampled: bool

    @property
    def known(self) -> int:
        return len(self.tokens) - 1


@dataclass(frozen=True)
class Adopted:
    """A request took a slot with ``length`` cached positions; ``pages`` are group 0's."""

    request: Request
    pages: tuple[int, ...]
    length: int


@dataclass(frozen=True)
class Released:
    """The request's slot is free again."""

    request: Request


@dataclass(frozen=True)
class Round:
    """One model round. ``batch`` holds numpy arrays, hiddens as int64 digests [N]: live rows, one a view, then padding.
    rows: where a system's batch has the live rows, when idle ones (taken from the padding) stand between them."""

    index: int
    mode: str
    batch: ExtendBatch | DecodeBatch
    views: tuple[View, ...]
    fresh_pages: tuple[tuple[int, int], ...]
    rows: tuple[int, ...] = ()

    @property
    def idles_between(self) -> bool:
        """An idle row stands before a live one."""
        return self.rows != tuple(range(len(self.rows)))


Step = Adopted | Released | Round


@dataclass(frozen=True)
class Room:
    """What an engine is built for: request slots (slot 0 not counted), hidden width, and the most it will meet of
    requests (each resume counts as one more), positions of one request, rows of one request's chunk, and batch rows
    (padding included); media: whether prompts hold media ids (S16)."""

    slots: int
    hidden_size: int
    requests: int
    positions: int
    chunk: int
    batch: int
    media: bool = False


def room_of(scenario: Scenario) -> Room:
    """Just what a scenario needs."""
    admits = _prefills(scenario)
    return Room(
        slots=scenario.slots,
        hidden_size=scenario.hidden_size,
        requests=len(admits),
        positions=max_positions(scenario),
        chunk=max([_longest_chunk(admit) for admit in admits], default=1),
        batch=max_batch(scenario),
        media=any(admit.media for admit in admits),
    )


def prompt_of(event: Admit, number: int, donor: Request | None, below: int) -> tuple[list[int], dict[int, int]]:
    """An admission's tokens, media ids replaced, and by position the ids that they were (S16); the donor's as far as
    the two are alike. below: the bits that scripted tokens may have."""
    scripted = digest.scripted_token(PROMPT, number, np.arange(event.prompt, dtype=np.int64)) & below
    tokens: list[int] = scripted.tolist()
    media: dict[int, int] = {}
    for position in (p for first, last in event.media for p in range(first, last + 1)):
        media[position], tokens[position] = media_id(number, position)
    if donor is not None and event.like is not None:
        shared = event.like[1]
        tokens[:shared] = donor.tokens[:shared]
        media = {p: id_ for p, id_ in media.items() if p >= shared}
        media |= {p: id_ for p, id_ in donor.media.items() if p < shared}
    return tokens, media


def view_of(r: Request, before: int, accept: int, sampled: bool) -> View:
    """A request as it stands after the round's commits."""
    tokens = np.array(r.tokens, dtype=np.int32)
    return View(r, tokens, r.hidden[: r.computed].copy(), r.computed, before, accept, sampled)


def page_table(batch: list[Request], rows: int, cols: tuple[int, ...]) -> tuple[I32, ...]:
    """Per group [rows, cols_g]: the requests' page tables, then padding on the null page."""
    out = []
    for group, width in enumerate(cols):
        table = np.zeros((rows, width), dtype=np.int32)
        for row, r in enumerate(batch):
            table[row] = r.tables[group].pages
        out.append(table)
    return tuple(out)


def media_id(number: int, position: int) -> tuple[int, int]:
    """(content hash, substitute) of a media position: its modality goes by the position."""
    first, _, substitute = MEDIA.substitutes[position % 2]
    return first + int(digest.scripted_token(HASHED, number, position)[0]) % (HASH // 2), substitute


def run_target(tokens: list[int]) -> tuple[I64, I64]:
    """(states [P], hiddens [P]) of the target over a prompt."""
    states = np.zeros(len(tokens), dtype=np.int64)
    state = np.zeros(1, dtype=np.int64)
    for p, token in enumerate(tokens):
        state = digest.target_state(state, np.array([token], dtype=np.int64))
        states[p] = state[0]
    return states, digest.target_hidden(states, np.arange(len(tokens), dtype=np.int64))


def _prefills(scenario: Scenario) -> list[Admit]:
    """Every prompt that is read: admissions, and what resumes read again."""
    books, out = Books(scenario.spec, scenario.slots, scenario.context), []
    for event in scenario.events:
        books.apply(event)
        if isinstance(event, Admit | Resume):
            out.append(books.requests[event.name].admit)
    return out


def _longest_chunk(admit: Admit) -> int:
    """The longest EXTEND round an admission can lead to, whatever the prefix cache gives."""
    chunks = admit.chunks or (admit.prompt,)
    return max(*chunks, chunks[0] + admit.prompt - sum(chunks))
