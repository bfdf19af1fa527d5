"""The comparison of designs on a real model in pictures: what each loses, at which draft, and where in the context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib.figure import Figure  # noqa: E402

from frontier_oracle.reports.atlas_plots import STYLE  # noqa: E402

# Told apart without colour vision, and by their marks in grey.
COLOURS = ("#d55e00", "#0072b2", "#9356a0", "#009e73", "#f0c442", "#56b4e9")
MARKS = "osv^Dx"
Row = dict[str, Any]


def losers(designs: Sequence[Row]) -> list[Row]:
    """Designs that did not draft as the ideal in every round."""
    return [row for row in designs if row["rounds_as_ideal"] != row["verify_rounds"]]


def accept_figure(designs: Sequence[Row]) -> Figure:
    """Change of the accept length against the ideal, a bar a design with its 95 % interval, in percent."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7, 0.8 + 0.3 * len(designs)), facecolor="white", layout="constrained")
        axes = figure.subplots()
        values = [100 * (row["change"]["value"] or 0.0) for row in designs]
        axes.barh(range(len(designs)), values, color="#b9c2cc", height=0.6)
        for y, row in enumerate(designs):
            low, high = row["change"]["low"], row["change"]["high"]
            if low is not None and high is not None:
                axes.plot([100 * low, 100 * high], [y, y], color="#111112", linewidth=1.2)
        axes.set_yticks(range(len(designs)), [row["name"] for row in designs])
        axes.invert_yaxis()
        axes.axvline(0, color="#111112", linewidth=0.8)
        axes.set_xlabel("accept length against the ideal, percent (95 % interval, paired over requests)")
        return figure


def depth_figure(designs: Sequence[Row]) -> Figure:
    """How often draft d+1 is right where all before it were, less the same for the ideal at the same states."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7, 3.4), facecolor="white", layout="constrained")
        axes = figure.subplots()
        for colour, mark, row in _told(designs):
            change = [_percent(depth["change"]["value"]) for depth in row["depths"]]
            axes.plot(range(len(change)), change, color=colour, marker=mark, markersize=4, label=row["name"])
        axes.axhline(0, color="#111112", linewidth=0.8)
        axes.set_xlabel("draft depth")
        axes.set_ylabel("points of conditional acceptance")
        axes.legend(frameon=False, fontsize=8)
        return figure


def position_figure(designs: Sequence[Row]) -> Figure:
    """Drafts lost a round, by the frontier's position."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7, 3.4), facecolor="white", layout="constrained")
        axes = figure.subplots()
        for colour, mark, row in _told(designs):
            bins = row["positions"]
            middle = [(each["from"] + each["to"]) / 2 for each in bins]
            lost = [_number(each["change"]["value"]) for each in bins]
            axes.plot(middle, lost, color=colour, marker=mark, markersize=4, label=row["name"])
        axes.axhline(0, color="#111112", linewidth=0.8)
        axes.set_xlabel("frontier position")
        axes.set_ylabel("accept length, less the ideal's")
        axes.legend(frameon=False, fontsize=8)
        return figure


def _told(designs: Sequence[Row]) -> Iterator[tuple[str, str, Row]]:
    yield from zip(COLOURS, MARKS, losers(designs), strict=False)


def _percent(value: float | None) -> float:
    return 100 * _number(value)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
