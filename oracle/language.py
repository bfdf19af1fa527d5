"""The scenario language: one line of text <-> a Scenario. docs/scenario-language.md describes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn, get_args

from frontier_oracle.oracle.errors import (
    PerRoundKUnsupported,
    ScenarioError,
    SpecError,
    TopKUnsupported,
    TreeUnsupported,
)
from frontier_oracle.oracle.scenario import (
    Abort,
    Admit,
    Decode,
    Event,
    Extend,
    Finish,
    Leaving,
    Preempt,
    Resume,
    Scenario,
    validate,
)
from frontier_oracle.oracle.spec import CacheGroup, HiddenSemantic, Spec

HEADER_WORDS = "k4, steps3, page16 or page16,4w8, W4, R9, chain, target, shifted, single, previous, H16, slots4, ctx64"
ADMIT_WORDS = "pN, chunks N,N,..., hit NAME N, held, media N-N,..."
RESUME_WORDS = "resume, chunks N,N,..., hit NAME N, held"
EVENT_FORMS = "'a: p12', '+a b', 'a3 b1', 'a3 b1 /4', 'end a', 'abort a', 'preempt a' or 'a: resume'"

_NUMBER = re.compile(r"(k|steps|W|R|H|slots|ctx)([0-9]{1,9})")
_GROUP = re.compile(r"([0-9]{1,9})(?:w([0-9]{1,9}))?")
_ROW = re.compile(r"([a-z]+)([0-9]{1,9})(?:e([0-9]{1,9}))?(!?)")
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_LEAVING: dict[str, type[Leaving]] = {"end": Finish, "abort": Abort, "preempt": Preempt}
_HIDDEN: dict[str, HiddenSemantic] = {name: name for name in get_args(HiddenSemantic)}


def parse(text: str) -> Scenario:
    """The scenario a text describes; spaces and newlines count as one space. Raises ScenarioError, SpecError or one of
    its named limits, with the offending word and what was expected; an event that cannot happen is refused too."""
    header, *segments = re.sub(r"\s*,\s*", ",", " ".join(text.split())).split("|")
    bare = _header(header.split())
    events: list[Event] = []
    for segment in segments:
        events += _segment(segment.strip(), len(events))
    scenario = replace(bare, events=tuple(events))
    validate(scenario)
    return scenario


def render(scenario: Scenario) -> str:
    """The canonical text: defaults left out, words in the order of the document, ``parse(render(s)) == s``."""
    text = " ".join(_header_words(scenario))
    previous: Event | None = None
    for event in scenario.events:
        joined = isinstance(event, Decode) and isinstance(previous, Decode)
        text += f"{', ' if joined else ' | '}{event}"
        previous = event
    return text


def _header_words(scenario: Scenario) -> list[str]:
    spec = scenario.spec
    groups = ",".join(f"{g.page_size}" + ("" if g.window is None else f"w{g.window}") for g in spec.groups)
    words = [f"k{spec.k}"]
    words += [f"steps{spec.steps}"] if spec.steps != spec.k - 1 else []
    words += [f"page{groups}"] if groups != "16" else []
    words += [f"W{spec.conv_width}"] if spec.conv_width != 4 else []
    words += [f"R{spec.ring_rows}"] if spec.ring_rows != spec.taps + spec.k else []
    words += [spec.hidden] if spec.hidden != "chain" else []
    words += [f"H{scenario.hidden_size}"] if scenario.hidden_size != 8 else []
    words += [f"slots{scenario.slots}"] if scenario.slots != 4 else []
    words += [f"ctx{scenario.context}"] if scenario.context is not None else []
    return words


def _header(words: list[str]) -> Scenario:
    numbers: dict[str, int] = {}
    groups: tuple[CacheGroup, ...] | None = None
    hidden: HiddenSemantic | None = None
    for word in words:
        _refuse_by_name(word)
        match = _NUMBER.fullmatch(word)
        if match and match[1] not in numbers and int(match[2]) > 0:
            numbers[match[1]] = int(match[2])
        elif word.startswith("page") and groups is None:
            groups = _groups(word)
        elif word in _HIDDEN and hidden is None:
            hidden = _HIDDEN[word]
        elif word != "topk1":
            raise ScenarioError(f'header word "{word}": expected each of {HEADER_WORDS} at most once, numbers from 1')
    if "k" not in numbers:
        raise SpecError(f'header "{" ".join(words)}" has no k: expected k4 or the like first, then {HEADER_WORDS}')
    spec = Spec(
        k=numbers["k"],
        steps=numbers.get("steps", 0),
        hidden=hidden or "chain",
        conv_width=numbers.get("W", 4),
        groups=groups or (CacheGroup(16),),
        ring_rows=numbers.get("R", 0),
    )
    return Scenario(spec, numbers.get("H", 8), numbers.get("slots", 4), context=numbers.get("ctx"))


def _refuse_by_name(word: str) -> None:
    if word == "tree":
        raise TreeUnsupported('header word "tree": only chains of drafts are simulated (leave it out)')
    if re.fullmatch(r"topk[0-9]+", word) and word != "topk1":
        raise TopKUnsupported(f'header word "{word}": only one draft a depth is simulated (leave it out)')
    if re.fullmatch(r"k[0-9]+(,[0-9]*)+", word):
        raise PerRoundKUnsupported(f'header word "{word}": k is fixed for a run, expected one number as in k4')


def _groups(word: str) -> tuple[CacheGroup, ...]:
    groups = []
    for part in word.removeprefix("page").split(","):
        match = _GROUP.fullmatch(part)
        if match is None:
            raise ScenarioError(f'header word "{word}": expected page sizes, with or without windows, as page16,4w8')
        groups.append(CacheGroup(int(match[1]), None if match[2] is None else int(match[2])))
    return tuple(groups)


def _segment(segment: str, index: int) -> list[Event]:
    """The events of what stands between two bars; ``index`` is that of its first one."""
    if ":" in segment:
        return [_admit(segment, index)]
    if segment.startswith("+"):
        return [Extend(tuple(_name(word, segment, index) for word in segment[1:].split()))]
    word, *names = segment.split() or [""]
    if word in _LEAVING:
        if len(names) != 1:
            _refuse(segment, index, segment, f"one request name after '{word}'")
        return [_LEAVING[word](_name(names[0], segment, index))]
    return [_decode(part.strip(), index + i) for i, part in enumerate(segment.split(","))]


def _admit(segment: str, index: int) -> Admit | Resume:
    head, _, tail = segment.partition(":")
    name = _name(head.strip(), segment, index)
    found = _Words()
    words = iter(tail.split())
    resumes = tail.split()[:1] == ["resume"]
    if resumes:
        next(words)
    for word in words:
        if not found.take(word, words, segment, index, resumes):
            _refuse(segment, index, word, f"each of {RESUME_WORDS if resumes else ADMIT_WORDS} at most once")
    if resumes:
        return Resume(name, found.chunks or (), found.like, found.held)
    if found.prompt is None:
        _refuse(segment, index, segment, "a prompt length as p12 after the colon")
    return Admit(name, found.prompt, found.chunks or (), found.like, found.held, found.media or ())


@dataclass
class _Words:
    """What the words of an admission say, as far as they are read."""

    prompt: int | None = None
    chunks: tuple[int, ...] | None = None
    like: tuple[str, int] | None = None
    held: bool = False
    media: tuple[tuple[int, int], ...] | None = None

    def take(self, word: str, words: Iterator[str], segment: str, index: int, resumes: bool) -> bool:
        """Read one word and what belongs to it; False where it has no business here."""
        if word[0] == "p" and self.prompt is None and not resumes:
            self.prompt = _number(word[1:], word, segment, index, "a prompt length as p12")
        elif word == "chunks" and self.chunks is None:
            sizes = next(words, "")
            want = "chunk sizes as 'chunks 5,5,2'"
            self.chunks = tuple(_number(n, sizes or word, segment, index, want) for n in sizes.split(","))
        elif word == "hit" and self.like is None:
            donor, length = next(words, ""), next(words, "")
            want = "a donor and a length as 'hit a 8'"
            self.like = _name(donor, segment, index, want), _number(length, length or word, segment, index, want)
        elif word == "media" and self.media is None and not resumes:
            ranges = next(words, "")
            matches = [_RANGE.fullmatch(part) for part in ranges.split(",")]
            if not all(matches):
                _refuse(segment, index, ranges or word, "the first and last position of media ids as 'media 3-5,8-8'")
            self.media = tuple((int(match[1]), int(match[2])) for match in matches if match)
        elif word == "held" and not self.held:
            self.held = True
        else:
            return False
        return True


def _decode(part: str, index: int) -> Decode:
    body, slash, bucket = part.partition("/")
    rows, ends, undrafted = [], [], []
    for word in body.split():
        match = _ROW.fullmatch(word)
        if match is None:
            _refuse(part, index, word, f"a request and its accept length as a3, or another event: {EVENT_FORMS}")
        rows.append((match[1], int(match[2])))
        ends += [(match[1], int(match[3]))] if match[3] else []
        undrafted += [match[1]] if match[4] else []
    if not rows:
        _refuse(part, index, part, f"an event: {EVENT_FORMS}")
    padded = None
    if slash:
        padded = _number(bucket.strip(), f"/{bucket}", part, index, "the padded batch size as /4, last in the round")
    return Decode(tuple(rows), padded, tuple(ends), tuple(undrafted))


def _name(word: str, text: str, index: int, expected: str = "a request name of letters a-z") -> str:
    if not re.fullmatch(r"[a-z]+", word):
        _refuse(text, index, word, expected)
    return word


def _number(digits: str, word: str, text: str, index: int, expected: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", digits):
        _refuse(text, index, word, expected)
    return int(digits)


def _refuse(text: str, index: int, word: str, expected: str) -> NoReturn:
    raise ScenarioError(f'event {index} "{text}": at "{word}", expected {expected}')
