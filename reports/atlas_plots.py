"""The atlas in pictures: every entry's state, depth by position, and what each design leaves behind as accepts fall."""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.patches import Patch  # noqa: E402

from frontier_oracle.oracle.atlas import Atlas, atlas  # noqa: E402
from frontier_oracle.oracle.design_batch import NAMES  # noqa: E402
from frontier_oracle.oracle.spec import Spec  # noqa: E402

# Told apart without colour vision, and in grey: exact is the palest, unwritten black.
COLOURS = {
    "exact": "#e3e6ea",
    "stale": "#d55e00",
    "unwritten": "#111112",
    "wrong": "#9356a0",
    "tainted": "#f0c442",
    "foreign": "#0072b2",
}
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "frontier-oracle",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.max_open_warning": 0,
}
CAUSES = ("stale", "unwritten", "wrong")
RATES = tuple(i / 10 for i in range(11))


def heat_map(atlases: Sequence[Atlas]) -> Figure:
    """Depth (down) by position (right) for every design, one column an atlas (its first sequence)."""
    with matplotlib.rc_context(STYLE):
        names = [run.name for run in atlases[0].designs]
        widths = [table.designs[0].grids[0].shape[1] for table in atlases]
        figure = Figure(figsize=(3 + 0.115 * sum(widths), 1.4 + 0.52 * len(names)), facecolor="white")
        axes = figure.subplots(len(names), len(atlases), squeeze=False, width_ratios=widths)
        for column, table in enumerate(atlases):
            for row, run in enumerate(table.designs):
                _panel(axes[row][column], run.grids[0], table)
                if column == 0:
                    axes[row][0].set_ylabel(run.name, rotation=0, ha="right", va="center")
            axes[0][column].set_title("accepts " + ",".join(map(str, table.accepts[0])), fontsize=9)
            axes[-1][column].tick_params(labelbottom=True)
            axes[-1][column].set_xlabel("position p < F")
        seen = {NAMES[i] for table in atlases for run in table.designs for i in np.unique(run.grids[0]).tolist()}
        handles = [Patch(color=COLOURS[name], label=name) for name in NAMES if name in seen]
        narrow = figure.get_figwidth() < 11  # the legend then takes a line of its own
        height = figure.get_figheight()
        figure.legend(
            handles=handles,
            loc="upper left" if narrow else "upper right",
            bbox_to_anchor=(0, 1 - 0.25 / height) if narrow else None,
            ncols=len(handles),
            frameon=False,
            columnspacing=1.0,
            handlelength=1.2,
        )
        first = atlases[0]
        figure.text(0.01, 0.99, f"k={first.k}, steps={first.steps}, prompt {first.prompt}: depths downwards", va="top")
        figure.tight_layout(rect=(0, 0, 1, 1 - (0.55 if narrow else 0.285) / height), h_pad=0.25)
    return figure


@dataclass(frozen=True)
class Rated:
    """What designs leave behind at each rate: per design name, entries per 100 committed tokens. ``stale`` alone, and
    ``bad``: stale, unwritten and wrong ones together."""

    rates: tuple[float, ...]
    stale: dict[str, list[float]]
    bad: dict[str, list[float]]


def rated(k: int = 4, rounds: int = 48, requests: int = 16, seed: int = 1, rates: Sequence[float] = RATES) -> Rated:
    """Run every design at each accept rate: each draft is accepted with that chance while those before it were."""
    sequences = [s for rate in rates for s in accepts_at(rate, Spec(k), rounds, requests, seed)]
    committed = np.array([sum(sequence) for sequence in sequences]).reshape(len(rates), requests).sum(axis=1)
    result = Rated(tuple(rates), {}, {})
    for run in atlas(sequences, k=k).designs:
        counts = np.array([np.bincount(grid.ravel(), minlength=len(NAMES)) for grid in run.grids])
        at_rate = 100 * counts.reshape(len(rates), requests, -1).sum(axis=1) / committed[:, None]
        result.stale[run.name] = at_rate[:, NAMES.index("stale")].tolist()
        result.bad[run.name] = at_rate[:, [NAMES.index(name) for name in CAUSES]].sum(axis=1).tolist()
    return result


def accepts_at(rate: float, spec: Spec, rounds: int, requests: int, seed: int) -> list[tuple[int, ...]]:
    """Accept lengths [requests][rounds], each 1 + how many drafts in a row a coin of chance ``rate`` accepts."""
    draw = random.Random(f"atlas/{seed}").random

    def length() -> int:
        a = 1
        while a < spec.max_accept and draw() < rate:
            a += 1
        return a

    return [tuple(length() for _ in range(rounds)) for _ in range(requests)]


def rate_chart(found: Rated, k: int = 4) -> Figure:
    """Entries left stale, and left stale, unwritten or wrong, against the accept rate, one line a design. Designs with
    the same line share it."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 4.4), facecolor="white")
        axes = figure.subplots(1, 2)
        titles = ("stale entries", "stale, unwritten or wrong entries")
        for axis, title, lines in zip(axes, titles, (found.stale, found.bad), strict=True):
            for values, names in _shared(lines):
                number = list(lines).index(names[0])
                style = {"color": f"C{number % 10}", "linestyle": ("-", "--", "-.", ":")[number % 4]}
                axis.plot(found.rates, values, marker="os^Dv"[number % 5], ms=4, label="\n".join(names), **style)
            axis.set_title(f"{title} per 100 committed tokens, k={k}", fontsize=9)
            axis.set_xlabel("chance that a draft is accepted")
            axis.set_ylim(bottom=0)
            axis.grid(color="#dddddd", linewidth=0.6)
            axis.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
        figure.tight_layout()
    return figure


def as_svg(figure: Figure) -> str:
    """The figure as SVG text, the same for the same figure."""
    buffer = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _panel(axis: Any, grid: Any, table: Atlas) -> None:
    # Exact cells are the background: drawing each would make the file several times as large.
    axis.set_facecolor(COLOURS["exact"])
    for state, depth in itertools.product(np.unique(grid), range(len(grid))):
        cells = [(p, 1) for p in np.flatnonzero(grid[depth] == state).tolist()]
        if NAMES[state] != "exact" and cells:
            axis.broken_barh(cells, (depth, 1), facecolor=COLOURS[NAMES[state]], edgecolor="white", linewidth=0.4)
    for depth in range(1, len(grid)):
        axis.axhline(depth, color="white", linewidth=1.2)
    axis.set_xlim(0, grid.shape[1])
    axis.set_ylim(len(grid), 0)
    axis.set_yticks([])
    frontiers = (table.prompt + np.cumsum((0, *table.accepts[0]))).tolist()
    apart = [
        str(f) if i == 0 or f - frontiers[i - 1] > 2 or i == len(table.accepts[0]) else ""
        for i, f in enumerate(frontiers)
    ]
    axis.set_xticks(frontiers, labels=apart, fontsize=7)
    axis.tick_params(labelbottom=False, length=2)
    axis.axvline(table.prompt, color="#111112", linewidth=0.8)


def _shared(lines: dict[str, list[float]]) -> list[tuple[list[float], list[str]]]:
    """Lines that fall on each other once, with all their names."""
    groups: list[tuple[list[float], list[str]]] = []
    for name, values in lines.items():
        same = next((names for other, names in groups if np.allclose(other, values)), None)
        if same is None:
            groups.append((values, [name]))
        else:
            same.append(name)
    return groups
