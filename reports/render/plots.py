"""Plots as SVG (inlined in the page, in the page's colours) and as SVG and PNG files."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib.figure import Figure  # noqa: E402

from frontier_oracle.reports.analysis.run import Analysis  # noqa: E402
from frontier_oracle.reports.table import Table  # noqa: E402

INK, GRID, FIRST, SECOND = "#111112", "#cccccd", "#1f6fec", "#d1242e"
_VARIABLES = {INK: "var(--ink)", GRID: "var(--grid)", FIRST: "var(--first)", SECOND: "var(--second)"}
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "frontier-oracle",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "text.parse_math": False,
    "figure.max_open_warning": 0,
}


@dataclass(frozen=True)
class Plot:
    key: str
    title: str
    description: str
    figure: Figure

    @cached_property
    def svg(self) -> str:
        """The drawing alone, as it stands in a file."""
        buffer = io.StringIO()
        with matplotlib.rc_context(_STYLE):
            self.figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        text = buffer.getvalue()
        return text[text.index("<svg") :]

    def inline(self, prefix: str) -> str:
        """For the page: its own ids, the page's colours, and a width that follows the page."""
        text = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", self.svg, count=1)
        text = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", text, count=1)
        text = re.sub(r'\bid="', f'id="{prefix}-', text)
        text = re.sub(r"(href=\"#|url\(#)", rf"\g<1>{prefix}-", text)
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        for colour, variable in _VARIABLES.items():
            text = text.replace(colour, variable)
        return text.replace("<svg ", '<svg aria-hidden="true" ', 1)

    def png(self) -> bytes:
        buffer = io.BytesIO()
        with matplotlib.rc_context(_STYLE):
            self.figure.savefig(buffer, format="png", dpi=110, facecolor="white")
        return buffer.getvalue()


def _axes(xlabel: str, ylabel: str, height: float = 3.0) -> tuple[Figure, Any]:
    figure = Figure(figsize=(6.4, height), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    return figure, axes


def _column(table: Table, name: str, absent: float = float("nan")) -> list[Any]:
    index = next(i for i, column in enumerate(table.columns) if column.name == name)
    return [absent if row[index] is None else row[index] for row in table.rows]


def _errors(value: list[Any], low: list[Any], high: list[Any]) -> list[list[float]]:
    """Lengths of error bars below and above, zero where there is no interval."""
    below = [max(v - a, 0.0) if a == a else 0.0 for v, a in zip(value, low, strict=True)]
    above = [max(b - v, 0.0) if b == b else 0.0 for v, b in zip(value, high, strict=True)]
    return [below, above]


_LINE: dict[str, Any] = {"fmt": "o-", "ms": 4, "lw": 1.2}
_BARS: dict[str, Any] = {"fmt": "none", "ecolor": INK, "elinewidth": 1}


def _with_errors(axes: Any, table: Table, x: Any, names: tuple[str, str, str], style: dict[str, Any]) -> None:
    """Draw the column ``names[0]`` over x, with its interval from the columns ``names[1:]``."""
    value, low, high = (_column(table, name) for name in names)
    axes.errorbar(x, value, _errors(value, low, high), **style)


def _distribution(analysis: Analysis) -> Plot | None:
    table, fit = analysis.table("distribution"), analysis.table("geometric")
    if table.unavailable:
        return None
    figure, axes = _axes("accept length (bonus included)", "share of rounds")
    x, y = _column(table, "accept length"), _column(table, "share")
    axes.bar(x, y, color=FIRST, width=0.8, label="observed")
    _with_errors(axes, table, x, ("share", "low", "high"), _BARS)
    if not fit.unavailable:
        axes.plot(
            _column(fit, "accept length"),
            _column(fit, "fitted share"),
            "o--",
            color=SECOND,
            ms=4,
            lw=1,
            label="geometric fit",
        )
    axes.legend()
    return Plot(
        "distribution",
        "Distribution of accept lengths",
        "Bars: share of rounds of each accept length with 95 % intervals; dashed: the geometric fit.",
        figure,
    )


def _positions(analysis: Analysis) -> Plot | None:
    table = analysis.table("positions")
    if table.unavailable:
        return None
    figure, axes = _axes("draft position", "rate")
    x = _column(table, "draft")
    joint, conditional = ("of all rounds", "low", "high"), ("conditional", "low of conditional", "high of conditional")
    _with_errors(axes, table, x, joint, {**_LINE, "color": FIRST, "label": "of all rounds (joint)"})
    _with_errors(axes, table, x, conditional, {**_LINE, "color": SECOND, "label": "conditional on the one before"})
    axes.set_ylim(0, 1.02)
    axes.legend()
    return Plot(
        "positions",
        "Acceptance by draft position",
        "Two lines over draft positions: the rate over all rounds, and conditional on the draft before.",
        figure,
    )


def _out_pos(analysis: Analysis) -> Plot | None:
    table = analysis.table("out_pos")
    if table.unavailable or len(table.rows) < 2:
        return None
    figure, axes = _axes("output tokens before the round", "mean accept length")
    x = range(len(table.rows))
    _with_errors(axes, table, x, ("mean accept length", "low", "high"), {**_LINE, "color": FIRST})
    axes.set_xticks(list(x), _column(table, table.columns[0].name), rotation=30, ha="right")
    return Plot(
        "out_pos",
        "Mean by output position",
        "Mean accept length in bins of output position, with 95 % intervals.",
        figure,
    )


def _speedup(analysis: Analysis) -> Plot | None:
    table = analysis.table("speedup")
    if table.unavailable:
        return None
    figure, axes = _axes("drafts per round", "modelled speed-up")
    x, y = _column(table, "drafts"), _column(table, "speed-up")
    low, high = _column(table, "low"), _column(table, "high")
    axes.fill_between(x, low, high, color=FIRST, alpha=0.25, lw=0)
    axes.plot(x, y, "o-", color=FIRST, ms=4, lw=1.2)
    best = max(range(len(y)), key=lambda i: y[i])
    axes.plot([x[best]], [y[best]], "o", color=SECOND, ms=8, fillstyle="none", label=f"best: {x[best]} drafts")
    axes.legend()
    return Plot("speedup", table.title, f"Modelled speed-up over the number of drafts. {table.note}", figure)


def _dependence(analysis: Analysis) -> Plot | None:
    table = analysis.table("dependence")
    if table.unavailable or len(table.rows) < 2:
        return None
    figure, axes = _axes("rounds apart", "correlation")
    lags = _column(table, "lag")
    axes.axhline(0, color=INK, lw=0.8)
    axes.plot(lags, _column(table, "correlation"), "o-", color=FIRST, ms=4, lw=1.2, label="about the overall mean")
    axes.plot(lags, _column(table, "within requests"), "o--", color=SECOND, ms=4, lw=1.2, label="within requests")
    axes.legend()
    return Plot("dependence", table.title, "Correlation of accept lengths over the lag in rounds.", figure)


_MAKERS: tuple[Callable[[Analysis], Plot | None], ...] = (_distribution, _positions, _out_pos, _speedup, _dependence)


def plots(analysis: Analysis) -> list[Plot]:
    """The plots that the analysis has data for."""
    with matplotlib.rc_context(_STYLE):
        made = [make(analysis) for make in _MAKERS]
    return [plot for plot in made if plot is not None]


_MOST_BARS = 60
_MEANS = {
    "al_raw": ("raw", "o", FIRST),
    "al_committed": ("committed", "s", SECOND),
    "al_reported": ("as listed: raw or committed is not told", "^", INK),
    "predicted_over_nondraft": ("llama.cpp: predicted over non-drafts", "D", INK),
}
"""The mean drawn for an input is the first of these that it tells: its label, marker and colour."""


def overview(analyses: list[Analysis]) -> Plot | None:
    """Every trace's mean with its interval, the most rounds first; the marker says which definition it is of."""
    rows = []
    for analysis in analyses:
        told = ((key, analysis.headline[key]) for key in _MEANS)
        rows += [(analysis.name, key, e) for key, e in told if e.value is not None][:1]
    if len(rows) < 2:
        return None
    rows = rows[:_MOST_BARS][::-1]
    with matplotlib.rc_context(_STYLE):
        figure, axes = _axes("mean accept length, under the definition of its marker", "", 1.2 + 0.34 * len(rows))
        for wanted, (label, marker, colour) in _MEANS.items():
            drawn = [(y, e) for y, (_, key, e) in enumerate(rows) if key == wanted]
            value = [e.value for _, e in drawn]
            low, high = ([getattr(e, end) or e.value for _, e in drawn] for end in ("low", "high"))
            style = {"fmt": marker, "color": colour, "ms": 5, "fillstyle": "none", "label": label}
            if drawn:
                axes.errorbar(value, [y for y, _ in drawn], xerr=_errors(value, low, high), **style)
        axes.set_yticks(range(len(rows)), [_label(name) for name, _, _ in rows], fontsize=7)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.grid(axis="y", visible=False)
        figure.legend(loc="outside upper left", fontsize=8, ncols=2)
    text = "One mark per input with its 95 % interval; its shape says which definition: compare only equal shapes."
    return Plot("overview", "Means of all inputs", text, figure)


_LABEL = 46


def _label(name: str) -> str:
    """The name on at most two lines of _LABEL characters; a longer one loses its middle, since both ends tell apart."""
    if len(name) > 2 * _LABEL:
        name = f"{name[:_LABEL]}…{name[-(_LABEL - 1) :]}"
    return "\n".join(name[at : at + _LABEL] for at in range(0, len(name), _LABEL))
