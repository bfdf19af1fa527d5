"""Makes prompt_lookup_stdlib.jsonl: accept lengths of prompt-lookup (n-gram) drafting on Python's standard library.

The "target" is a text that is already there: the source of a standard library module, cut into words, runs of blanks,
line starts and single marks. Its own next tokens are what verification commits, so the accept lengths are real ones
of this drafter on this text; no model and no clock is involved, and no source text is stored.

Each round the drafter takes the longest suffix of the text so far, 3 tokens down to 1, that occurs earlier in it,
and proposes the up to 7 tokens that followed its latest earlier occurrence; none found, no draft. The accept length is
the number of leading right drafts plus one (the bonus), cut at the end of the turn as Spec-Bench does.

One line a module of MODULES, in that order (its name is the category): the first 200 tokens are the prompt, then 3
turns of at most 400 tokens each. The same Python patch release gives the same bytes; ``model_id`` names it.

    python reports/bundled/make_traces.py           writes the file beside this script
    python reports/bundled/make_traces.py --check   exits 1 if the file differs from what would be written
"""

from __future__ import annotations

import json
import platform
import re
import sys
import sysconfig
from pathlib import Path

MODULES = (
    "argparse", "ast", "base64", "bisect", "calendar", "cmd", "codecs", "collections", "configparser", "contextlib",
    "copy", "csv", "dataclasses", "datetime", "difflib", "dis", "doctest", "enum", "fileinput", "fractions",
    "ftplib", "functools", "getopt", "glob", "gzip", "heapq", "imaplib", "inspect", "ipaddress", "json.decoder",
    "locale", "mailbox", "numbers", "optparse", "os", "pathlib", "pdb", "pickletools", "plistlib", "pprint",
    "queue", "random", "sched", "selectors", "shlex", "shutil", "smtplib", "socketserver", "statistics", "string",
    "subprocess", "tarfile", "tempfile", "textwrap", "threading", "timeit", "tokenize", "traceback", "types", "typing",
    "unittest.mock", "uuid", "weakref", "zipfile",
)  # fmt: skip
DRAFT_LEN, LONGEST_NGRAM, PROMPT, TURN, TURNS = 7, 3, 200, 400, 3
TOKEN = re.compile(r"\n[ \t]*|[ \t]+|\w+|.")
OUT = Path(__file__).parent / "prompt_lookup_stdlib.jsonl"


def tokens_of(module: str) -> list[str]:
    """A module's source as tokens. The module is not imported."""
    base = Path(sysconfig.get_path("stdlib"), *module.split("."))
    source = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return TOKEN.findall(source.read_text(encoding="utf-8"))


class Lookup:
    """The latest occurrence of every n-gram of the text so far, and the one before it."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.ends: dict[tuple[str, ...], tuple[int, int]] = {}

    def append(self, token: str) -> None:
        self.text.append(token)
        end = len(self.text)
        for n in range(1, min(LONGEST_NGRAM, end) + 1):
            gram = tuple(self.text[end - n :])
            latest = self.ends.get(gram, (0, 0))[0]
            self.ends[gram] = (end, latest)

    def draft(self) -> list[str]:
        """Up to DRAFT_LEN tokens. The suffix itself is the latest occurrence, so the one before it is followed."""
        for n in range(min(LONGEST_NGRAM, len(self.text)), 0, -1):
            earlier = self.ends[tuple(self.text[-n:])][1]
            if earlier:
                return self.text[earlier : earlier + DRAFT_LEN]
        return []


def accept_lengths(prompt: list[str], turns: list[list[str]]) -> list[list[int]]:
    """One list of accept lengths per turn; they add up to the turn's tokens."""
    lookup = Lookup()
    for token in prompt:
        lookup.append(token)
    return [_turn(lookup, turn) for turn in turns]


def _turn(lookup: Lookup, turn: list[str]) -> list[int]:
    lengths, done = [], 0
    while done < len(turn):
        right = 0
        draft = lookup.draft()
        while right < len(draft) and done + right < len(turn) and draft[right] == turn[done + right]:
            right += 1
        accept_length = min(right + 1, len(turn) - done)
        for token in turn[done : done + accept_length]:
            lookup.append(token)
        lengths.append(accept_length)
        done += accept_length
    return lengths


def answer(number: int, module: str) -> dict[str, object]:
    """One Spec-Bench line, but for the texts and the wall times, which would mean nothing here."""
    tokens = tokens_of(module)
    turns = [tokens[start : start + TURN] for start in range(PROMPT, PROMPT + TURN * TURNS, TURN)]
    lengths = accept_lengths(tokens[:PROMPT], [turn for turn in turns if turn])
    choice = {
        "index": 0,
        "turns": [""] * len(lengths),
        "decoding_steps": [len(turn) for turn in lengths],
        "new_tokens": [sum(turn) for turn in lengths],
        "accept_lengths": [a for turn in lengths for a in turn],
    }
    model = f"prompt-lookup-n{LONGEST_NGRAM}-draft{DRAFT_LEN} on CPython {platform.python_version()} sources"
    return {"question_id": number, "category": module, "model_id": model, "choices": [choice]}


def content() -> str:
    """The whole file."""
    answers = (answer(number, module) for number, module in enumerate(MODULES, start=1))
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in answers)


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        same = OUT.read_text(encoding="utf-8") == content()
        print(f"{OUT.name}: {'up to date' if same else 'differs; run make_traces.py without --check'}")
        return 0 if same else 1
    OUT.write_text(content(), encoding="utf-8")
    print(f"{OUT.name}: {OUT.stat().st_size} bytes, {len(MODULES)} modules")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
