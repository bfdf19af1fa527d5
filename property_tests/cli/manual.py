"""What every verb's --help ends with: examples to paste, and the exit codes that it can have."""

from __future__ import annotations

import typer

CODES = {
    0: "equal",
    1: "divergence",
    2: "usage, adapter or corrupt file",
    3: "required hardware missing",
    5: "nothing ran",
    130: "interrupted",
}
# verb -> (examples, exit codes with words of their own where they are not the usual ones)
PAGES: dict[str, tuple[tuple[str, ...], dict[int, str]]] = {
    "gate": (
        (
            "frontier-oracle gate",
            "frontier-oracle gate --system your_engine.adapter:make --profile ci --report junit=gate.xml --save bugs",
            "frontier-oracle gate --system your_engine.adapter:make --profile dev --no-mutants --format json",
        ),
        {1: "divergence, or a planted fault survived", 3: CODES[3], 5: CODES[5]},
    ),
    "fuzz": (
        (
            "frontier-oracle fuzz --system your_engine.adapter:make --max-time 10m",
            "frontier-oracle fuzz -j 2 --corpus bugs",
        ),
        {1: "findings", 5: CODES[5]},
    ),
    "replay": (
        (
            "frontier-oracle replay 'k4 page4 | a: p12 chunks 5,5,2 | a1, a3' --system your_engine.adapter:make",
            "frontier-oracle replay bugs/FO101-your_engine.adapter-make-5c0f6a9e2d1b7c44.json",
            "frontier-oracle replay 'k4 | a: p9 | a2, a1' --history rounds.jsonl",
        ),
        {1: CODES[1], 5: "the scenario has no round"},
    ),
    "explain": (
        ("frontier-oracle explain 'k4 page4 | a: p1 | a1, a1' --system tokenspeed_frontier --all",),
        {1: CODES[1], 5: "the scenario has no round"},
    ),
    "check": (
        (
            "frontier-oracle check rounds.jsonl",
            "frontier-oracle check rounds.jsonl --report junit=check.xml --format json",
        ),
        {1: CODES[1], 5: "no rule could be applied"},
    ),
    "doctor": (("frontier-oracle doctor --system your_engine.adapter:make",), {0: "healthy", 1: "something is wrong"}),
    "atlas": (
        ("frontier-oracle atlas --accepts 1,4,2,1", "frontier-oracle atlas --exhaustive 4 --k 5 --format json"),
        {0: "done"},
    ),
    "simulate": (
        ("frontier-oracle simulate src/main.py --designs frontier,lookback",),
        {1: "an output is not the target's"},
    ),
    "report": (
        ("frontier-oracle report runs/ -o out", "frontier-oracle report run.jsonl -o out --title nightly --strict"),
        {0: "done", 2: "usage, or defects with --strict"},
    ),
    "compare": (
        ("frontier-oracle compare before.jsonl after.jsonl --fail-if-drop 2%",),
        {0: "no drop", 1: "it dropped"},
    ),
    "train": (("frontier-oracle train --out model --size smoke",), {0: "done"}),
    "bench oracle": (("frontier-oracle bench oracle --system frontier --format json",), {0: "done"}),
    "bench fuzz": (("frontier-oracle bench fuzz -j 2 --format json",), {0: "done"}),
    "bench round": (("frontier-oracle bench round --part books",), {0: "done", 3: CODES[3]}),
}


def page(verb: str) -> str:
    """Paragraphs: a line each."""
    examples, own = PAGES[verb]
    codes = {0: CODES[0], 2: CODES[2], 130: CODES[130]} | own
    told = "; ".join(f"{code} {codes[code]}" for code in sorted(codes))
    return "\n\n".join(["Examples:", *examples, f"Exit codes: {told}."])


def attach(app: typer.Typer, within: str = "") -> None:
    """Give every verb that has a page its page; a group's verbs too."""
    for command in app.registered_commands:
        if (verb := f"{within}{command.name}") in PAGES:
            command.epilog = page(verb)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            attach(group.typer_instance, f"{group.name} ")
