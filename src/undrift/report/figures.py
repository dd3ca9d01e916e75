"""Convergence against what it costs: rounds, bytes, gradients."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from ..files import write_bytes
from .curves import Curve, Drawing
from .labels import Mark, Powers, place_labels
from .style import RC, Look

ENDINGS = (".png", ".svg")
DPI = 200
FLOOR = 1e-15  # a relative gap below this is rounding


class Axis(NamedTuple):
    key: str
    label: str
    file: str


AXES = (
    Axis("rounds", "communication rounds", "per-round"),
    Axis("bytes", "megabytes sent, on all links", "per-byte"),
    Axis("gradients", "gradient evaluations", "per-gradient"),
)


def write_figures(drawing: Drawing, folder: Path) -> list[Path]:
    """figure.png and .svg with all axes side by side, and one pair of files for each axis; accuracy above the loss."""
    written = []
    for name, content in drawn_figures(drawing):
        write_bytes(folder / name, content)
        written.append(folder / name)
    return written


def drawn_figures(drawing: Drawing) -> Iterator[tuple[str, bytes]]:
    """The names of those files, and what is in them."""
    yield from _files(_panels(drawing, AXES), "figure")
    if drawing.singles:
        for axis in AXES:
            yield from _files(_panels(drawing, (axis,)), f"{drawing.measure}-{axis.file}")


def save_figure(draw: Callable[[], Figure], stem: Path) -> list[Path]:
    """What `draw` draws in the house style, as stem.png and stem.svg."""
    written = []
    for name, content in _files(draw, stem.name):
        write_bytes(stem.with_name(name), content)
        written.append(stem.with_name(name))
    return written


def _files(draw: Callable[[], Figure], stem: str) -> Iterator[tuple[str, bytes]]:
    for ending, content in zip(ENDINGS, _in_house_style(draw), strict=True):
        yield f"{stem}{ending}", content


def write_figure(figure: Figure, path: Path) -> None:
    """The figure in a file of the kind that the path's ending names, .png or .svg, whole or not at all."""
    write_bytes(path, _drawn(figure, path.suffix))


def _in_house_style(draw: Callable[[], Figure]) -> Iterator[bytes]:
    """What `draw` draws, in files of all kinds."""
    with mpl.rc_context(RC), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of letters that the font does not have, or labels without room
        figure = draw()
        figure.set_dpi(DPI)
        figure.set_facecolor("white")
        for ending in ENDINGS:
            yield _drawn(figure, ending)
            figure.set_layout_engine("none")  # it is laid out now, which takes as long as drawing it


def _drawn(figure: Figure, ending: str) -> bytes:
    drawn = io.BytesIO()  # `savefig` would draw it twice, to see what there is before it draws it
    if ending == ".svg":
        FigureCanvasSVG(figure).print_svg(drawn, metadata={"Date": None})
    else:
        FigureCanvasAgg(figure).print_png(drawn)
    return drawn.getvalue()


def _panels(drawing: Drawing, axes: Sequence[Axis]) -> Callable[[], Figure]:
    curves, measure = drawing.curves, drawing.measure

    def draw() -> Figure:
        single = len(axes) == 1
        rows = ["accuracy", measure] if all(curve.accuracy is not None for curve in curves) else [measure]
        width, height = (5.4, 3.6) if single else (11.6, 3.9)
        figure = Figure(figsize=(width, height * (0.4 + 0.6 * len(rows))), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(rows), len(axes), sharex="col", sharey="row", squeeze=False)
        if drawing.title:
            figure.suptitle(drawing.title, fontsize=9, color="#333333", parse_math=False)
        for row, panels in zip(rows, grid, strict=True):
            for axis, panel in zip(axes, panels, strict=True):
                marks = [
                    _line(panel, curve, style, axis.key, row)
                    for curve, style in zip(curves, drawing.looks, strict=True)
                ]
                if row == "gap":
                    marks += _bounds(panel, drawing, axis.key)
                _dress(panel, axis, row, first=panel is panels[0], last=row == rows[-1])
                if panel is panels[-1]:
                    place_labels(panel, [mark for mark in marks if mark is not None])
        return figure

    return draw


def _line(panel: Axes, curve: Curve, look: Look, key: str, measure: str) -> Mark | None:
    """The median over seeds, with the range between them, up to where rounding begins."""
    costs = np.median(curve.costs[key], axis=0)
    values = curve.accuracy if measure == "accuracy" and curve.accuracy is not None else curve.values
    recorded = np.all(np.isfinite(values), axis=0)
    if not np.any(recorded) or costs[-1] <= 0:
        return None  # nothing to show on this axis (a centralised method sends no bytes)
    middle = np.median(values[:, recorded], axis=0)
    low, high = np.min(values[:, recorded], axis=0), np.max(values[:, recorded], axis=0)
    costs = costs[recorded]
    stop = middle.size if measure == "accuracy" else _arrival(middle)
    middle, costs = np.maximum(middle[:stop], FLOOR), costs[:stop]
    panel.plot(costs, middle, color=look.colour, linestyle=look.dash, linewidth=look.width, zorder=3)
    if len(values) > 1:
        shade = (np.maximum(low[:stop], FLOOR), high[:stop])
        panel.fill_between(costs, *shade, color=look.colour, alpha=0.15, linewidth=0)
    arrived = middle[-1] <= FLOOR
    panel.plot(
        costs[-1:],
        middle[-1:],
        marker="o" if arrived else "",
        markersize=3.5,
        color=look.colour,
        zorder=4,
        clip_on=False,
    )
    return Mark(curve.mark, look.colour, float(costs[-1]), float(middle[-1]))


def _bounds(panel: Axes, drawing: Drawing, key: str) -> list[Mark | None]:
    """What is promised of the curves, in their colours: dashed; dotted and thin where it is promised for another step."""
    found: list[Mark | None] = []
    for line in drawing.bounds:
        curve, look = next((c, k) for c, k in zip(drawing.curves, drawing.looks, strict=True) if c.label == line.of)
        costs = np.median(curve.costs[key], axis=0)
        known = np.isfinite(line.values)
        if not np.any(known) or costs[-1] <= 0:
            continue
        values, costs = line.values[known], costs[known]
        stop = _arrival(values)
        values, costs = np.maximum(values[:stop], FLOOR), costs[:stop]
        dash, width = ((0, (1.2, 2.2)), 0.8) if line.thin else ((0, (3, 2.2)), 1.0)  # thinner than any curve
        panel.plot(costs, values, color=look.colour, linestyle=dash, linewidth=width, zorder=2)
        found.append(Mark(line.label.removeprefix(f"{line.of}, "), look.colour, float(costs[-1]), float(values[-1])))
    return found


def _arrival(values: np.ndarray) -> int:
    """How many points to draw: up to the first one at rounding level."""
    below = np.flatnonzero(values <= FLOOR)
    return int(below[0]) + 1 if below.size else values.size


def _dress(panel: Axes, axis: Axis, measure: str, first: bool, last: bool = True) -> None:
    panel.set_yscale("linear" if measure == "accuracy" else "log")
    if measure != "accuracy":
        panel.yaxis.set_major_formatter(Powers())
        panel.yaxis.set_minor_formatter(Powers(labelOnlyBase=False))
    if measure == "gap":
        panel.set_ylim(bottom=FLOOR / 3)
        panel.axhspan(FLOOR / 3, FLOOR, color="#EFEFEF", linewidth=0, zorder=0)
    if axis.key == "gradients":
        panel.set_xscale("log")  # baselines need orders of magnitude fewer
        panel.xaxis.set_major_formatter(Powers())
        panel.xaxis.set_minor_formatter(NullFormatter())  # within one decade they would overlap
    else:
        panel.set_xlim(left=0)
    if last:
        panel.set_xlabel(axis.label)
    panel.grid(visible=True, which="major", zorder=0)
    panel.set_axisbelow(True)
    if first:
        words = {
            "gap": "relative gap (f(xₜ) − f*) / (f(x₀) − f*)",  # a formula would take a fifth of the time of a figure
            "loss": "loss f(xₜ)",
            "accuracy": "test accuracy",
        }
        panel.set_ylabel(words[measure])
