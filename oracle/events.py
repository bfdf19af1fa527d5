"""What can happen to requests: one small record an event. ``str(event)`` is its text in the scenario language."""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = re.compile(r"[a-z]{1,8}")
RESERVED = frozenset({"abort", "chunks", "end", "held", "hit", "media", "preempt", "resume"})


@dataclass(frozen=True)
class Admit:
    """Request ``name`` arrives with ``prompt`` tokens, run in EXTEND rounds of ``chunks`` tokens (() = one chunk).

    like: (donor, n): the first n tokens are the donor's (prompt, then output; S21); what the prefix cache gives of them
    is the policy's affair, and ``chunks_after_hit`` fits the list to it. held: only admitted; each ``Extend`` that
    names it runs one chunk. Not held: all chunks run at once, one round after the other. media: (first, last) positions
    whose ids are content hashes outside the vocabulary (S16); where ``like`` covers a position, the donor's id counts.
    """

    name: str
    prompt: int
    chunks: tuple[int, ...] = ()
    like: tuple[str, int] | None = None
    held: bool = False
    media: tuple[tuple[int, int], ...] = ()

    @property
    def listed(self) -> int:
        """How many chunks the event lists: the most EXTEND rounds its prompt can take."""
        return len(self.chunks) or 1

    def __str__(self) -> str:
        media = " media " + ",".join(f"{first}-{last}" for first, last in self.media) if self.media else ""
        return f"{self.name}: p{self.prompt}{_how(self)}{media}"


@dataclass(frozen=True)
class Resume:
    """A preempted request comes back: its prompt and its output are read again as one prompt, in ``chunks``.

    like: (its own name, n): its first n tokens may still be cached from before it was preempted. held as in Admit.
    """

    name: str
    chunks: tuple[int, ...] = ()
    like: tuple[str, int] | None = None
    held: bool = False

    def admission(self, prompt: int) -> Admit:
        """The admission of its ``prompt`` known tokens."""
        return Admit(self.name, prompt, self.chunks, self.like, self.held)

    def __str__(self) -> str:
        return f"{self.name}: resume{_how(self)}"


@dataclass(frozen=True)
class Extend:
    """One EXTEND round: the next chunk of each named request, in this batch order."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "+" + " ".join(self.names)


@dataclass(frozen=True)
class Decode:
    """One DECODE round: (name, accept length) per batch row, padded with slot 0 to ``bucket`` rows (S20).

    An accept length of 0 is an idle row: its request (live or ended since) stands in the batch, but the engine masks
    the row to slot 0. ends: (name, n): of the accepted tokens only n are committed (EOS among them, or max_tokens), and
    the request ends with the round. undrafted: requests whose drafts of this round are thrown away, so that their next
    verification has no candidates and accepts one token (S26).
    """

    rows: tuple[tuple[str, int], ...]
    bucket: int | None = None
    ends: tuple[tuple[str, int], ...] = ()
    undrafted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Marks stand in the order of their rows, as in the text."""
        at = {name: i for i, (name, _) in enumerate(self.rows)}
        object.__setattr__(self, "ends", tuple(sorted(self.ends, key=lambda end: at.get(end[0], len(at)))))
        object.__setattr__(self, "undrafted", tuple(sorted(self.undrafted, key=lambda name: at.get(name, len(at)))))

    @property
    def live(self) -> tuple[tuple[str, int], ...]:
        """The rows that are not idle."""
        return tuple(row for row in self.rows if row[1] > 0)

    def __str__(self) -> str:
        ends = {name: f"e{committed}" for name, committed in self.ends}
        marks = dict.fromkeys(self.undrafted, "!")
        rows = " ".join(f"{name}{accept}{ends.get(name, '')}{marks.get(name, '')}" for name, accept in self.rows)
        return rows if self.bucket is None else f"{rows} /{self.bucket}"


@dataclass(frozen=True)
class Finish:
    """The request ends: its slot and its pages are free."""

    name: str

    def __str__(self) -> str:
        return f"end {self.name}"


@dataclass(frozen=True)
class Abort:
    """The request is given up at whatever point it stands, inside its prompt too: slot and pages are free."""

    name: str

    def __str__(self) -> str:
        return f"abort {self.name}"


@dataclass(frozen=True)
class Preempt:
    """The request loses its slot, its pages and its pending drafts, at any point; ``Resume`` brings it back."""

    name: str

    def __str__(self) -> str:
        return f"preempt {self.name}"


Event = Admit | Resume | Extend | Decode | Finish | Abort | Preempt
Leaving = Finish | Abort | Preempt


def leaving(event: Event) -> tuple[str, ...]:
    """The requests whose slot and pages are free after ``event``."""
    if isinstance(event, Decode):
        return tuple(name for name, _ in event.ends)
    return (event.name,) if isinstance(event, Leaving) else ()


def _how(event: Admit | Resume) -> str:
    hit = f" hit {event.like[0]} {event.like[1]}" if event.like else ""
    chunks = " chunks " + ",".join(map(str, event.chunks)) if event.chunks else ""
    return f"{hit}{chunks}{' held' if event.held else ''}"
