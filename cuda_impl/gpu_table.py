"""A GPU run's JSON as Markdown tables: ``python -m frontier_oracle.cuda_impl.gpu_table FILE``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
WITHOUT_A_GPU = """Where there is no GPU the kernels run in Triton's interpreter under a check of our own
(`cuda_impl/tests/bounds.py`): every unmasked address of every load and store must lie in a tensor of its launch; the
tests plant an access one element past each end, and it is caught. triton-viz 3.0's sanitizer was tried first, under
triton 3.6.0: it reports an out-of-bounds read in a plain kernel, but stops with errors of its own in the first kernels
of the books and of the convolution ("Only scalar TensorHandle is supported in const!", "Concretize for op idiv is not
implemented"), whose addresses are themselves loaded: slots, page tables."""

RACES = """racecheck looks at shared memory alone. For global memory the kernels run in the interpreter under a second
check (`cuda_impl/tests/writers.py`): no byte is written by two programs of a launch, or by one program and read by
another, or by two rows of one store. Its tests plant each of the three, and give the books' kernel one slot twice."""

MEANING = {
    "exhaustive": "every accept sequence of the counts above, behind a prompt in chunks with a short last one",
    "random": "drawn configurations: k 2 to 8, depths, hidden semantics, cache groups, chunks, padding",
    "wide": "hiddens of 1536 and 6144 channels, each block of them checked",
    "twins": "replay against eager, below",
    "fault": "planted faults of capture, below",
    "sampled in place": "a model that stores its drafts in the id rows: the books' one kernel alone",
    "inductive": "every accept, stash length and frontier of a period, from loaded states",
    "scenarios": "drawn scenarios, eager and captured, with every call of the model judged",
}

CONTRACT_PATH = """All runs but "sampled in place" go the contract's path: the model's `forward` gets flat ids and
returns its drafts, and both copies are in the graph."""

TWINS = """Replay equals eager bit for bit: two drafters get the same rounds, one of them from graphs, and after each
round the drafts, the window (ids, positions, hiddens, locations, frontier), the stash, every cache cell, ring row and
checkpoint are compared with `torch.equal`. Every bucket with every amount of padding, none to all but one row; the
order is drawn, so batches grow and shrink from one round to the next, the fullest first, and some bring padded rows of
their own."""

RANGES = """NVTX ranges are the host's: a captured round shows `update_draft_forward_metadata` and `forward depth d`
only while it is warmed up and captured (and wherever it runs eagerly), a replay shows `decode` alone."""

BENCH_MEANING = """ours: the window and the stash, one kernel, for a model whose sampler stores each draft in the id
rows. A model that returns its draft instead, as the contract's `forward` does, costs two copies a depth, flat ids and
draft: "+ copies". The op sequence contains those copies. The floor copies 3k-1 rows a request; ours moves 2k+a for an
accept length of a, here 1 to k evenly drawn, so it may take less than the floor. Not in any column: copying a batch
that was not written in place into the buffers, padding the tail, and the copy of the result that `decode` returns."""


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def bench_table(rows: list[Row]) -> str:
    """The bookkeeping benchmark, one line a point."""
    head = ["H", "k", "batch", "ours µs", "+ copies µs", "ops µs", "floor µs", "ours - floor", "ours / floor"]
    head += ["ops / ours", "kernels", "ops kernels", "ours e2e µs", "ops e2e µs"]
    lines = []
    for r in rows:
        ours, floor = r["ours_us"], r["floor_us"]
        lines.append(
            [str(r["H"]), str(r["k"]), str(r["batch"])]
            + [f"{v:.2f}" for v in (ours, r["ours_copied_us"], r["ops_us"], floor, ours - floor, ours / floor)]
            + [f"{r['ops_us'] / ours:.1f}", str(r["kernels"]), str(r["kernels_ops"])]
            + [f"{r['ours_e2e_us']:.1f}", f"{r['ops_e2e_us']:.1f}"]
        )
    return table(head, lines)


def round_table(rows: list[Row]) -> str:
    """The round with real heads."""
    head = [
        "H",
        "k",
        "batch",
        "round µs",
        "books µs",
        "share",
        "ops µs",
        "share with ops",
        "one depth µs (1 / k / k+D rows)",
    ]
    head += ["its floor µs", "frontier / lookback / minimal µs", "rows"]
    lines = []
    for r in rows:
        designs = " / ".join(f"{v:.0f}" for v in r["designs_us"].values())
        lines.append(
            [str(r["H"]), str(r["k"]), str(r["batch"]), f"{r['round_us']:.0f}", f"{r['books_us']:.2f}"]
            + [f"{100 * r['books_share']:.2f} %", f"{r['ops_us']:.1f}", f"{100 * r['ops_share']:.1f} %"]
            + [" / ".join(f"{v:.0f}" for v in r["depth_us"].values()), f"{r['floor_depth_us']:.0f}", designs]
            + [" / ".join(str(v) for v in r["rows"].values())]
        )
    return table(head, lines)


def gate_section(gate: Row) -> list[str]:
    """The gate's verdict on captured graphs, what each check did, and which rule killed each fault of capture."""
    checks = [
        [c["id"], f"{c['cases']:,}", f"{c['request_rounds']:,}", c["skipped"] or ", ".join(c["findings"]) or "ok"]
        for c in gate["checks"]
    ]
    killed = [[p["id"], p["base"], p["expected"], p["got"] or "survived"] for p in gate["planted_in_captures"]]
    return [
        f"`{gate['command']}` (seed {gate['seed']}, {gate['seconds']:.0f} s): {gate['sentence']}",
        "Every call of the draft model inside a captured round is judged as in an eager one: the probe writes what it "
        "is given into tensors of the captured region, and they are read after each replay.",
        table(["check", "cases", "request-rounds", "result"], checks),
        table(["planted in a capture", "on", "rule", "killed by"], killed),
    ]


def tape_section(capture: Row) -> list[str]:
    """Operation by operation what tape and graph do; the differences with a reason each, and the graph's own words."""
    rows = capture["operations"]
    parts = [
        f"Of {len(rows)} operations, each captured in a process of its own; a tape is what stands in for a graph where "
        "there is no GPU (`cuda_impl/tape.py`)."
    ]
    both = {"served": "served by both", "refused": "refused by both", "not replayed": "not replayed by either"}
    lists = []
    for outcome, words in both.items():
        names = [row["operation"] for row in rows if row["tape"] == row["graph"] == outcome]
        if names:
            lists.append(f"- {words} ({len(names)}): {'; '.join(names)}")
    parts.append("\n".join(lists))
    columns = ("operation", "tape", "graph", "why", "reason")
    differ = [[row[c].replace("|", "/") for c in columns] for row in rows if row["tape"] != row["graph"]]
    head = ["operation", "tape", "graph", "why they differ", "the graph's own words"]
    return [*parts, table(head, differ) if differ else "They differ on none."]


def equivalence_section(found: Row) -> list[str]:
    """How much was compared, in what kinds of runs, over which batches, and which planted faults were killed."""
    exhaustive = "; ".join(f"k={e['k']}, R={e['R']}: {e['requests']:,} requests" for e in found["exhaustive"])
    kinds = [
        [kind, f"{part['runs']:,}", f"{part['request_rounds']:,}", MEANING[kind]]
        for kind, part in found["parts"].items()
    ]
    twins = [
        [str(t["k"]), str(t["steps"]), str(t["H"]), ", ".join(map(str, t["buckets"])), str(t["rounds"])]
        for t in found["twins"]
    ]
    return [
        f"{found['request_rounds']:,} request-rounds of captured graphs checked cell by cell, "
        f"{len(found['findings'])} findings ({found['request_rounds_per_second']:,.0f} a second, bound by "
        f"{found['bound']}). Every accept sequence of {exhaustive}.",
        CONTRACT_PATH,
        table(["run", "runs", "request-rounds", "what it is"], kinds),
        TWINS,
        table(["k", "depths", "H", "buckets", "rounds compared"], twins),
        table(["planted fault", "killed by"], [[k, str(v)] for k, v in found["faults_killed"].items()]),
    ]


def sanitizer_section(outcomes: Row) -> list[str]:
    """What each tool said, and what stands in for it where it does not look."""
    said = "; ".join(f"{tool}: {outcome}" for tool, outcome in outcomes.items())
    return [
        f"{said}. Each over one program that launches every kernel (`cuda_impl/tests/all_kernels.py`).",
        RACES,
        WITHOUT_A_GPU,
    ]


def sections(result: Row) -> list[tuple[str, str, Callable[[], list[str]]]]:
    """(title, the part of the run that it shows, its text)."""
    return [
        ("Equivalence", "equivalence", lambda: equivalence_section(result["equivalence"])),
        ("The gate on captured graphs", "gate", lambda: gate_section(result["gate"])),
        ("Tape and graph", "capture", lambda: tape_section(result["capture"])),
        ("Bookkeeping of a round", "round",
         lambda: [bench_table(result["bench"]), result["bench_method"], BENCH_MEANING]),
        ("The round with real heads", "round", lambda: [round_table(result["round"]), result["round_method"], RANGES]),
        ("compute-sanitizer", "sanitizer", lambda: sanitizer_section(result["sanitizer"])),
    ]  # fmt: skip


def render(result: Row) -> str:
    """The whole run: machine, equivalence, both tables, sanitizer, each with its method; a failed part says so."""
    machine = f"{result['gpu']}, driver {result['driver']}, torch {result['torch']}, triton {result['triton']}"
    seed = result.get("equivalence", {}).get("seed", "unknown")
    parts = [
        f"# GPU results, {result['date']}",
        f"{machine}; commit {result['commit']}; seed {seed}; `{result['command']}`",
    ]
    for title, part, text in sections(result):
        failed = result.get("failed", {}).get(part)
        parts += [f"## {title}", *([f"This part failed: {failed}"] if failed is not None else text())]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(render(json.loads(Path(sys.argv[1]).read_text())), end="")
