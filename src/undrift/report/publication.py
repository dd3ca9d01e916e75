"""A figure as a journal, a screen or a slide wants it: sizes in millimetres and points, formulas as labels, PDF, SVG and PNG.

Curves can be told apart in grey print: each has its own dashes and markers besides the colour of its method. Matplotlib's
settings are changed for the drawing only.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

from ..engine.history import totals
from ..errors import InputError
from .curves import BoundLine
from .recorded import Recorded, measured
from .style import Look, looks
from .tex import as_tex, checked_formula

KINDS = ("pdf", "svg", "png")
MM = 1 / 25.4
WIDTHS = {"column": 88.0, "page": 180.0}  # millimetres
GOLDEN = 0.68  # height of a figure as a share of its width
FLOOR = 1e-15  # a gap below this share of the first is rounding
DASHES = ("-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
MARKED = 0.14  # distance of markers, as a share of the panel's diagonal
DPI = 300
AXES = {
    "round": r"round $t$",
    "bytes": "megabytes sent",
    "gradients": "gradient evaluations",
    "seconds": "virtual seconds",
}
MEASURES = {
    "gap": r"$f(x_t) - f^\star$",
    "relative-gap": r"$(f(x_t) - f^\star)\,/\,(f(x_0) - f^\star)$",
    "loss": r"$f(x_t)$",
    "accuracy": "test accuracy",
    "gradient": r"$\Vert\nabla f(x_t)\Vert$",
    "distance": r"$\Vert x_t - x^\star\Vert^2$",
    "drift": r"mean of $\Vert y_i - \bar{y}\Vert$",
    "epsilon": r"$\varepsilon$",
}
LINEAR = ("accuracy", "epsilon")


class Style(NamedTuple):
    """Sizes in points; the width in millimetres."""

    width: float
    text: float
    small: float
    line: float
    marker: float
    serif: bool


STYLES = {
    "paper": Style(WIDTHS["column"], 8.0, 7.0, 1.0, 3.0, True),
    "screen": Style(150.0, 10.0, 9.0, 1.6, 4.5, False),
    "slides": Style(250.0, 18.0, 16.0, 2.8, 8.0, False),
}


class Wishes(NamedTuple):
    """What the user wants to see."""

    y: str = "relative-gap"
    x: str = "round"
    style: Style = STYLES["paper"]
    height: float | None = None  # millimetres
    bounds: bool = False
    legend: str = "inside"  # or right, below, none
    title: str = ""
    scale: str | None = None  # log or linear; None: as it is usual for what is shown
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    names: tuple[tuple[str, str], ...] = ()  # labels, and what is written instead: it may hold formulas
    tex: bool = False


def drawn(runs: Sequence[Recorded], wishes: Wishes, kinds: Sequence[str]) -> dict[str, bytes]:
    """The figure as files of these kinds: kind -> content."""
    with mpl.rc_context(settings(wishes)), warnings.catch_warnings(), _quiet("fontTools"):
        warnings.simplefilter("ignore", UserWarning)  # of letters that the font does not have, or labels without room
        figure = _figure(runs, wishes)
        try:
            return {kind: _content(figure, kind) for kind in kinds}
        except (RuntimeError, FileNotFoundError) as error:
            if not wishes.tex:
                raise
            raise InputError(f"TeX could not set the figure ({str(error)[:300]}): leave out --usetex") from None


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """A library that says of every font when it was made."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def settings(wishes: Wishes) -> dict[Any, Any]:
    """Matplotlib's, for this figure alone."""
    style = wishes.style
    fonts = ["STIXGeneral", "DejaVu Sans"] if style.serif else ["DejaVu Sans"]
    return {
        "font.family": ["serif"] if wishes.tex else fonts,
        "text.usetex": wishes.tex,
        "mathtext.fontset": "cm" if style.serif else "dejavusans",
        "font.size": style.text,
        "axes.labelsize": style.text,
        "axes.titlesize": style.text,
        "legend.fontsize": style.small,
        "xtick.labelsize": style.small,
        "ytick.labelsize": style.small,
        "axes.linewidth": style.line / 2,
        "xtick.major.width": style.line / 2,
        "ytick.major.width": style.line / 2,
        "xtick.minor.width": style.line / 3,
        "ytick.minor.width": style.line / 3,
        "axes.formatter.use_mathtext": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "pdf.fonttype": 42,  # TrueType: journals refuse Type 3
        "svg.fonttype": "path",  # the fonts need not be where it is looked at
        "svg.hashsalt": "undrift",
    }


def _content(figure: Figure, kind: str) -> bytes:
    file = io.BytesIO()
    if kind == "pdf":
        FigureCanvasPdf(figure).print_pdf(file, metadata={"CreationDate": None})
    elif kind == "svg":
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})
    else:
        figure.set_dpi(DPI)
        FigureCanvasAgg(figure).print_png(file)
    return file.getvalue()


def _figure(runs: Sequence[Recorded], wishes: Wishes) -> Figure:
    height = wishes.height or GOLDEN * min(wishes.style.width, WIDTHS["page"])
    figure = Figure(figsize=(wishes.style.width * MM, height * MM), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    wishes = wishes._replace(scale=wishes.scale or _usual_scale(runs, wishes.y))
    _dress(panel, wishes)
    entries = []
    for number, (run, look) in enumerate(zip(runs, looks([run.method or run.label for run in runs]), strict=True)):
        entries.append((_curve(panel, run, look, number, len(runs), wishes), _name(run.label, wishes)))
        if wishes.bounds:
            for line in run.bounds:
                entries.append((_bound(panel, run, line, look, wishes), _name(line.label, wishes)))
    shown = [(handle, name) for handle, name in entries if handle is not None]
    if not shown:
        above = " above zero, for --scale log," if wishes.scale == "log" else ""
        raise InputError(f"nothing to draw: no run has a finite {wishes.y}{above} on the axis {wishes.x}")
    _limits(panel, wishes)
    _legend(figure, panel, shown, wishes)
    return figure


def _costs(run: Recorded, x: str) -> np.ndarray:
    """The median over seeds of what rounds had cost."""
    length = next(iter(run.columns.values())).shape[-1]
    if x == "round":
        return np.arange(length, dtype=float)
    found = totals(run.columns)
    if x not in found:
        raise InputError(f"{run.label!r} has not recorded what {x} is counted from: choose another --x")
    return np.median(found[x], axis=0) / (1e6 if x == "bytes" else 1)


def _curve(panel: Axes, run: Recorded, look: Look, number: int, of: int, wishes: Wishes) -> Line2D | None:
    """The median over seeds and the range between them; None where there is nothing to see on this axis."""
    values, costs = measured(run, wishes.y), _costs(run, wishes.x)
    known = np.all(np.isfinite(values), axis=0) & np.isfinite(costs)
    if not np.any(known) or costs[-1] <= 0:
        return None
    values, costs = values[:, known], costs[known]
    if wishes.y in ("gap", "relative-gap"):
        values = np.maximum(values, FLOOR * (float(np.median(values[:, 0])) or 1.0))
    elif wishes.scale == "log":
        values = np.where(values > 0, values, np.nan)
    middle = np.median(values, axis=0)
    if not np.any(np.isfinite(middle)):  # all below zero, on a logarithmic axis
        return None
    stop = _arrival(middle) if wishes.y in ("gap", "relative-gap") else middle.size
    style = wishes.style
    (line,) = panel.plot(
        costs[:stop],
        middle[:stop],
        color=look.colour,
        linestyle=DASHES[number % len(DASHES)],
        linewidth=style.line,
        marker=MARKERS[number % len(MARKERS)],
        markersize=style.marker,
        markevery=(MARKED * number / of, MARKED),
        markerfacecolor="white",
        markeredgewidth=style.line * 0.8,
        zorder=3,
    )
    if len(values) > 1:
        low, high = np.min(values, axis=0)[:stop], np.max(values, axis=0)[:stop]
        panel.fill_between(costs[:stop], low, high, color=look.colour, alpha=0.18, linewidth=0)
    return line


def _arrival(values: np.ndarray) -> int:
    """How many points to draw: up to the first one at rounding level."""
    below = np.flatnonzero(values <= FLOOR * values[0])
    return int(below[0]) + 1 if below.size else values.size


def _bound(panel: Axes, run: Recorded, bound: BoundLine, look: Look, wishes: Wishes) -> Line2D | None:
    """What is promised of the gap: thin and without markers."""
    if wishes.y not in ("gap", "relative-gap"):
        raise InputError(f"bounds are of the gap, and --y is {wishes.y}: leave out --bounds, or --y gap")
    costs = _costs(run, wishes.x)
    size = min(costs.size, bound.values.size)
    values, costs = bound.values[:size], costs[:size]
    if wishes.y == "gap":
        values = values * float(np.median(run.columns["gap"][:, 0]))
    known = np.isfinite(values) & (values > 0)
    if not np.any(known) or costs[-1] <= 0:
        return None
    dash = (0, (1, 1)) if bound.thin else (0, (3, 1))
    width = wishes.style.line * (0.6 if bound.thin else 0.8)
    (line,) = panel.plot(costs[known], values[known], color=look.colour, linestyle=dash, linewidth=width, zorder=2)
    return line


def _usual_scale(runs: Sequence[Recorded], y: str) -> str:
    """Logarithmic, but for what is linear by nature and for what falls below zero, such as the loss of a quadratic."""
    if y in LINEAR:
        return "linear"
    below = y not in ("gap", "relative-gap") and any(np.any(measured(run, y) < 0) for run in runs)
    return "linear" if below else "log"


def _dress(panel: Axes, wishes: Wishes) -> None:
    panel.set_yscale(wishes.scale or "log")
    panel.set_xlabel(AXES[wishes.x])
    label = MEASURES.get(wishes.y)
    panel.set_ylabel(label or _plain(wishes.y, wishes), parse_math=label is not None)
    panel.grid(visible=True, which="major", color="#DDDDDD", linewidth=wishes.style.line * 0.4)
    panel.set_axisbelow(True)
    if wishes.title:
        panel.set_title(checked_formula("--title", wishes.title, wishes.tex))


def _limits(panel: Axes, wishes: Wishes) -> None:
    if wishes.x_limits is not None:
        panel.set_xlim(wishes.x_limits)
    else:
        panel.set_xlim(left=0)
    if wishes.y_limits is not None:
        panel.set_ylim(wishes.y_limits)


class _Name(NamedTuple):
    text: str
    formula: bool


def _name(label: str, wishes: Wishes) -> _Name:
    """What is written in the legend. A label of a file is text, whatever is in it; one of the user's may hold formulas."""
    given = dict(wishes.names)
    if label in given:
        return _Name(checked_formula("--label", given[label], wishes.tex), True)
    return _Name(_plain(label, wishes), False)


def _plain(text: str, wishes: Wishes) -> str:
    return as_tex(text) if wishes.tex else text


def _legend(figure: Figure, panel: Axes, entries: Sequence[tuple[Line2D, _Name]], wishes: Wishes) -> None:
    if wishes.legend == "none":
        return
    handles, names = [handle for handle, _ in entries], [name for _, name in entries]
    style: dict[str, Any] = {
        "frameon": wishes.legend == "inside",
        "handlelength": 3.2,
        "framealpha": 0.85,
        "edgecolor": "none",
    }
    texts = [name.text for name in names]
    if wishes.legend == "inside":
        legend = panel.legend(handles, texts, loc="best", **style)
    elif wishes.legend == "right":
        legend = figure.legend(handles, texts, loc="outside right center", **style)
    else:
        legend = _legend_below(figure, handles, texts, style)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(name.formula)


def _legend_below(figure: Figure, handles: list[Line2D], texts: list[str], style: dict[str, Any]) -> Legend:
    """In as many columns as fit."""
    for columns in range(min(4, len(handles)), 0, -1):
        legend = figure.legend(handles, texts, loc="outside lower center", ncols=columns, **style)
        for text in legend.get_texts():
            text.set_parse_math(False)  # at most wider than it will be
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()
    return legend


__all__ = ["AXES", "KINDS", "MEASURES", "STYLES", "WIDTHS", "Style", "Wishes", "drawn", "settings"]
