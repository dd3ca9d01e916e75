"""Figures in the papers' form: panels side by side, rounds across, logarithms up, seeds as a shade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from undrift.report.style import Look, looks

from .data import COSTS, CURVES, Data

BOUND = (0, (1.2, 1.4))  # dots: what a theorem promises
ROUNDS = "communication rounds"


def panels(rows: int, columns: int, width: float = 3.9, height: float = 3.0, **sharing: Any) -> tuple[Figure, Any]:
    """A figure with a grid of axes."""
    figure = Figure(figsize=(width * columns + 0.5, height * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **sharing)


def curves_figure(
    data: Data,
    *,
    y_label: str,
    methods: Mapping[str, str] | None = None,
    x_label: str = ROUNDS,
    columns: int | None = None,
    log: bool = True,
    share_y: bool = True,
    shade: str = "range",
    bottom: float | None = None,
    top: float | None = None,
    height: float = 3.0,
    widths: Mapping[str, float] | None = None,
) -> Figure:
    """All panels of the table "curves". `methods` maps the name of a curve to the method whose colour it has.

    Values below `bottom` count as rounding. `widths`: of single lines, where they lie on top of each other.
    """
    names = data.panels
    across = columns or len(names)
    figure, axes = panels(
        -(-len(names) // across),
        across,
        width=4.7 if across == 1 else 3.9,
        height=height,
        sharey="row" if share_y else False,
        sharex=False,
    )
    styles = styles_of(data, methods or {})
    styles |= {label: styles[label]._replace(width=width) for label, width in (widths or {}).items()}
    for number, (panel, axis) in enumerate(zip(names, axes.flat, strict=False)):
        for label in data.labels(panel):
            draw_curve(axis, data, panel, label, styles[label], shade, bottom)
        dress(axis, panel, x_label, y_label if number % across == 0 or not share_y else "", log)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_xlim(0, np.nanmax(data.where(CURVES, panel=panel)["round"]))
        reached = bottom is not None and np.nanmin(data.where(CURVES, panel=panel)["value"]) <= bottom
        axis.set_ylim(bottom=bottom if reached else None, top=top)
    for axis in list(axes.flat)[len(names) :]:
        axis.set_visible(False)
    legend(figure, axes)
    return figure


def styles_of(data: Data, methods: Mapping[str, str]) -> dict[str, Look]:
    """One look for each name of a curve, the same in all panels."""
    labels = list(dict.fromkeys(label for panel in data.panels for label in data.labels(panel)))
    return dict(zip(labels, looks([methods.get(label, label) for label in labels]), strict=True))


def draw_curve(
    axis: Axes, data: Data, panel: str, label: str, look: Look, shade: str = "range", bottom: float | None = None
) -> None:
    """The median over seeds with the range between them, or the mean with the standard deviation."""
    x = np.median(data.curve(panel, label, "round"), axis=0)
    middle, low, high = spread_of(data.curve(panel, label), shade)
    if bottom is not None:
        middle, low = np.maximum(middle, bottom), np.maximum(low, bottom)
    bound = data.kind(panel, label) == "bound"
    dash = BOUND if bound else look.dash
    axis.plot(x, middle, color=look.colour, linestyle=dash, linewidth=look.width, label=label, zorder=2 if bound else 3)
    if len(data.curve(panel, label)) > 1:
        axis.fill_between(x, low, high, color=look.colour, alpha=0.18, linewidth=0)


def spread_of(values: np.ndarray, shade: str = "range") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(middle, low, high) over seeds: median and range, or mean and standard deviation."""
    if shade == "std":
        mean, deviation = np.mean(values, axis=0), np.std(values, axis=0)
        return mean, mean - deviation, mean + deviation
    return np.median(values, axis=0), np.min(values, axis=0), np.max(values, axis=0)


def dress(axis: Axes, title: str, x_label: str, y_label: str, log: bool = True) -> None:
    """Titles, scales, a light grid."""
    axis.set_title(title, color="#333333")
    axis.set_xlabel(x_label)
    axis.set_ylabel(y_label)
    if log:
        axis.set_yscale("log")
    axis.grid(visible=True, which="major", zorder=0)
    axis.set_axisbelow(True)


def legend(figure: Figure, axes: Any, columns: int = 6) -> None:
    """One legend below all panels."""
    entries: dict[str, Any] = {}
    for axis in np.ravel(axes):
        handles, labels = axis.get_legend_handles_labels()
        entries |= {label: handle for handle, label in zip(handles, labels, strict=True) if label not in entries}
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower center",
        ncols=min(columns, len(entries)),
        frameon=False,
        fontsize=8.5,
        handlelength=2.6,
    )


def page_figures(data: Data, shade: str = "range", y_label: str = "", log: bool = True) -> list[dict[str, Any]]:
    """The panels of the table "curves" in the form that the page draws."""
    if CURVES not in data.tables:
        return []
    return [
        {
            "title": panel,
            "note": "",
            "y_label": y_label,
            "y_scale": "log" if log else "linear",
            "series": [_page_series(data, panel, label, shade) for label in data.labels(panel)],
        }
        for panel in data.panels
    ]


def _page_series(data: Data, panel: str, label: str, shade: str) -> dict[str, Any]:
    values = data.curve(panel, label)
    middle, low, high = spread_of(values, shade)
    several = len(values) > 1
    costs = {name: data.curve(panel, label, name) for name in COSTS if name in data[CURVES]}
    return {
        "label": label,
        "kind": data.kind(panel, label),
        "x": {name: _plain(np.median(cost, axis=0)) for name, cost in costs.items() if np.all(np.isfinite(cost))},
        "y": _plain(middle),
        "low": _plain(low) if several else None,
        "high": _plain(high) if several else None,
    }


def _plain(values: Sequence[float] | np.ndarray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
