"""Figures of `beyond/…`: what most problems do, and for which steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .beyond_problems import MEASURES
from .beyond_runs import contracts, kinds_of, rows, share, steps_of
from .data import Data
from .draw import dress, legend, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER, EVERYONE = "#D55E00", "#8A8A8A"
BLUE, GREEN, PURPLE, WINE, OCHRE = "#0072B2", "#009E73", "#CC79A7", "#882255", "#B8860B"
BOTTOM = 1e-31
TITLES = {
    "quadratic": "least squares",
    "logistic": "logistic regression",
    "network": "network with one hidden layer",
}


def spread_curve(
    axis: Axes,
    data: Data,
    panel: str,
    label: str,
    colour: str,
    dash: Any = "-",
    x: str = "round",
    bottom: float = BOTTOM,
) -> None:
    """The median over all problems, and between which values the middle 80 % lie."""
    values = np.maximum(data.curve(panel, label), bottom)
    across = np.median(data.curve(panel, label, x), axis=0)
    low, middle, high = (np.percentile(values, part, axis=0) for part in (10, 50, 90))
    axis.plot(across, middle, color=colour, linestyle=dash, linewidth=1.7, label=label, zorder=3)
    axis.fill_between(across, low, high, color=colour, alpha=0.15, linewidth=0)


def falls_and_steps(data: Data, colours: Mapping[str, str], dashes: Mapping[str, Any] | None = None) -> Figure:
    """Above: how far it comes, by rounds. Below: at which steps it has not stopped, as a share of the problems."""
    kinds = kinds_of(data)
    figure, axes = panels(2, len(kinds), width=3.6, height=2.5)
    for column, kind in enumerate(kinds):
        for label in data.labels(kind):
            dash = (dashes or {}).get(label, "-")
            spread_curve(axes[0][column], data, kind, label, colours[label], dash)
            shares_by_step(axes[1][column], data, kind, label, colours[label], dash)
        drawn = data.setting.get("drawn at", "")
        dress(axes[0][column], f"{TITLES[kind]}, η̄ = {drawn}/L", "communication rounds", MEASURES[kind])
        dress(axes[1][column], "", "step η̄L", "problems still falling" if column == 0 else "", log=False)
        axes[1][column].set_ylim(-0.04, 1.04)
    legend(figure, axes, columns=4)
    return figure


def shares_by_step(axis: Axes, data: Data, kind: str, label: str, colour: str, dash: Any = "-") -> None:
    """The share of the problems that contract, for every step of the grid."""
    steps = steps_of(data)
    found = [share(contracts(rows(data, kind=kind, variant=label, step=step))) for step in steps]
    axis.plot(steps, found, color=colour, linestyle=dash, marker="o", markersize=3.5, linewidth=1.4, label=label)
    axis.set_xscale("log")
    axis.set_xticks(steps, [f"{step:g}" for step in steps])
    axis.minorticks_off()


def dots(axis: Axes, groups: Sequence[tuple[str, np.ndarray, str]], limits: tuple[float, float]) -> None:
    """A column of dots for every group, one dot for each problem, with the median as a bar; beyond the limits: on the edge."""
    rng = np.random.default_rng(0)
    for place, (_, values, colour) in enumerate(groups):
        inside = np.clip(values, *limits)
        axis.plot(place + rng.uniform(-0.2, 0.2, len(inside)), inside, ".", color=colour, markersize=3, alpha=0.55)
        if len(inside):
            axis.plot([place - 0.32, place + 0.32], [np.median(inside)] * 2, color=colour, linewidth=2.2)
    axis.set_xticks(range(len(groups)), [name for name, _, _ in groups])
    axis.set_yscale("log")
    axis.set_ylim(limits[0] / 1.1, limits[1] * 1.1)
    axis.grid(visible=True, axis="y", zorder=0)
