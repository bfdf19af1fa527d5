"""Loss curves of a training record."""

from __future__ import annotations

from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from frontier_oracle.reports.atlas_plots import STYLE  # noqa: E402

SMOOTH = 9


def loss_chart(record: dict[str, Any]) -> Figure:
    """Training losses in nats by step, a running mean; points are the held-out loss of target and last depth."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7, 3.2), facecolor="white")
        axis = figure.subplots()
        steps = np.array([step for step, _ in record["curve"]])
        losses = np.array([values for _, values in record["curve"]])
        depths = losses.shape[1] - 1
        for d in range(depths):
            shade = str(0.75 - 0.45 * d / max(1, depths - 1))
            axis.plot(steps, smoothed(losses[:, d + 1]), color=shade, linewidth=1, label=f"depth {d}")
        axis.plot(steps, smoothed(losses[:, 0]), color="#d55e00", linewidth=1.6, label="target")
        held_out = [(e["step"], e["loss"][0], e["loss"][-1]) for e in record["evaluations"]]
        at, target, last = zip(*held_out, strict=True)
        axis.plot(at, target, "o", color="#d55e00", markersize=3, label="target, held out")
        axis.plot(at, last, "s", color="0.3", markersize=3, label=f"depth {depths - 1}, held out")
        axis.set(xlabel="step", ylabel="loss (nats)", yscale="log")
        axis.set_yticks([0.5, 1, 2, 5, 10], labels=["0.5", "1", "2", "5", "10"])
        axis.minorticks_off()
        axis.legend(fontsize=7, frameon=False, ncols=2)
        figure.tight_layout()
        return figure


def smoothed(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Mean over the last points, as many as there are at the start."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    count = np.minimum(np.arange(1, len(values) + 1), SMOOTH)
    ends = np.arange(1, len(values) + 1)
    result: np.ndarray[Any, Any] = (sums[ends] - sums[ends - count]) / count
    return result
