"""The bubble picture of a partition: clients along one axis, classes along the other, area = number of samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure

from undrift.data.checks import Floats, Ints, at_least
from undrift.data.describe import Heterogeneity, describe
from undrift.data.errors import DataError

INK = "#22313f"
PALE = "#e9edf1"
MUTED = "#7b8894"
PALETTE = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2"),
    *("#b07aa1", "#edc948", "#9c755f", "#ff9da7", "#8a9ba8"),
)

# Numbers are written into the bubbles only while they can be read.
_MOST_CLIENTS_WITH_NUMBERS = 16


def bubble_figure(
    parts: Sequence[npt.ArrayLike],
    labels: npt.ArrayLike,
    *,
    title: str | None = None,
    class_names: Sequence[str] | None = None,
    client_names: Sequence[str] | None = None,
    num_classes: int | None = None,
    max_clients: int = 100,
) -> Figure:
    """Draw who holds what: one bubble per client and class, its area proportional to the number of samples.

    The strip on top shows the sizes of the clients, the one on the right those of the classes. Of more than
    `max_clients` clients, that many are drawn, evenly spaced by number, and the caption says so. Save the result with
    `figure.savefig("partition.png")`.

    >>> figure = bubble_figure([[0, 1], [2, 3]], [0, 0, 1, 1], title="two clients")
    >>> [axes.get_ylabel() for axes in figure.axes][:2]
    ['class', 'samples']

    Reference: figure 5 of Li and Lyu, Convergence analysis of sequential split learning on heterogeneous data.
    """
    figures = describe(parts, labels, num_classes=num_classes)
    shown = _choose_clients(len(parts), at_least("max_clients", max_clients, 1))
    counts = figures.counts[shown]
    clients, classes = counts.shape
    class_ticks = _names("class_names", class_names, classes, "classes")
    client_ticks = _names("client_names", client_names, len(parts), "clients")

    width, height = float(np.clip(2.8 + 0.36 * clients, 6.4, 15.0)), float(np.clip(2.4 + 0.36 * classes, 4.0, 11.0))
    figure = Figure(figsize=(width, height), dpi=150, facecolor="white", layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(width - 1.6, 0.9), height_ratios=(0.8, height - 1.6))
    bubbles = figure.add_subplot(grid[1, 0])
    top = figure.add_subplot(grid[0, 0], sharex=bubbles)
    right = figure.add_subplot(grid[1, 1], sharey=bubbles)

    colours = _class_colours(classes)
    _draw_bubbles(bubbles, counts, colours, _largest_bubble(width, height, clients, classes))
    _label_axes(bubbles, [client_ticks[m] for m in shown], class_ticks)
    _draw_margins(top, right, counts.sum(axis=1), figures.counts.sum(axis=0), colours)
    heading = figure.suptitle(title or "Who holds what", x=0.012, ha="left", color=INK, fontsize=13, fontweight="bold")
    heading.set_parse_math(False)  # a path in it may have dollars
    figure.supxlabel(_caption(figures, counts, width), x=0.012, ha="left", color=MUTED, fontsize=8.5)
    return figure


def _names(what: str, given: Sequence[str] | None, number: int, of: str) -> list[str]:
    names = list(map(str, range(number) if given is None else given))
    if len(names) != number:
        raise DataError(f"{what} needs one name for each of {number} {of}, got {len(names)}: add or drop some.")
    return names


def _choose_clients(clients: int, most: int) -> Ints:
    """Every client while they fit, else every second, third, ... one."""
    return np.arange(0, clients, -(-clients // most))


def _class_colours(classes: int) -> Floats:
    """Neighbouring classes in clearly different, equally strong colours."""
    if classes <= len(PALETTE):
        return to_rgba_array(PALETTE[:classes])
    return np.asarray(colormaps["turbo"](np.linspace(0.06, 0.94, classes)))


def _text_colour(fill: Floats) -> str:
    """White on dark bubbles, ink on light ones (relative luminance)."""
    return "white" if float(fill[:3] @ np.array([0.2126, 0.7152, 0.0722])) < 0.55 else INK


def _largest_bubble(width: float, height: float, clients: int, classes: int) -> float:
    """Diameter in points that the largest bubble may have; the margins take about 1.9 and 2.2 inches."""
    column, row = 72.0 * (width - 1.9) / clients, 72.0 * (height - 2.2) / classes
    # In a crowd neighbours may overlap a little, rather than shrink to dots.
    return min(0.92 * row, max(0.92 * column, 14.0))


def _draw_bubbles(axes: Axes, counts: Ints, colours: Floats, diameter: float) -> None:
    clients, classes = counts.shape
    m, c = np.nonzero(counts)
    largest = int(counts.max())
    # `s` of scatter is the square of the diameter in points, hence linear in the area.
    area = diameter**2 * counts[m, c] / largest
    axes.hlines(np.arange(classes), -0.5, clients - 0.5, color=PALE, linewidth=0.8, zorder=0)
    axes.scatter(m, c, s=area, c=colours[c], alpha=0.85, linewidths=0.0, zorder=2)
    if clients <= _MOST_CLIENTS_WITH_NUMBERS:
        for client, label in zip(m, c, strict=True):
            share = counts[client, label] / largest
            inside = diameter * np.sqrt(share) > 17.0
            axes.annotate(
                f"{counts[client, label]}",
                (client, label),
                xytext=(0, 0) if inside else (0, 0.5 * diameter * np.sqrt(share) + 1.5),
                textcoords="offset points",
                ha="center",
                va="center" if inside else "bottom",
                fontsize=6,
                color=_text_colour(colours[label]) if inside else INK,
                zorder=3,
            )
    axes.set_xlim(-0.6, clients - 0.4)
    axes.set_ylim(-0.6, classes - 0.4)


def _label_axes(axes: Axes, clients: Sequence[str], classes: Sequence[str]) -> None:
    step = -(-len(clients) // 25)
    axes.set_xticks(np.arange(0, len(clients), step), clients[::step], parse_math=False)
    axes.set_yticks(np.arange(len(classes)), classes, parse_math=False)
    axes.set_xlabel("client", color=INK)
    axes.set_ylabel("class", color=INK)
    axes.tick_params(length=0, colors=INK, labelsize=8)
    axes.spines[:].set_visible(False)


def _draw_margins(top: Axes, right: Axes, client_sizes: Ints, class_sizes: Ints, colours: Floats) -> None:
    top.bar(np.arange(client_sizes.size), client_sizes, width=0.72, color="#a9b7c4")
    right.barh(np.arange(class_sizes.size), class_sizes, height=0.62, color=colours, alpha=0.85)
    top.set_ylabel("samples", color=INK, fontsize=8)
    right.set_xlabel("samples", color=INK, fontsize=8)
    top.set_yticks([0, int(client_sizes.max())])
    right.set_xticks([0, int(class_sizes.max())])
    for axes in (top, right):
        axes.tick_params(length=0, colors=INK, labelsize=7)
        axes.spines[:].set_visible(False)
    top.tick_params(labelbottom=False)
    right.tick_params(labelleft=False)


def _caption(figures: Heterogeneity, shown: Ints, width: float) -> str:
    clients, drawn, summary = figures.sizes.size, shown.shape[0], figures.summary()
    facts = [
        f"{clients} clients" if drawn == clients else f"{drawn} of {clients} clients drawn",
        f"{summary['sizes']['least']:.0f} to {summary['sizes']['greatest']:.0f} samples",
        f"{summary['classes']['mean']:.1f} classes a client",
        f"label entropy {summary['entropy']['mean']:.2f} bits",
        f"total variation {summary['distance']['mean']:.2f} from all samples",
        f"largest bubble {int(shown.max())} samples",
    ]
    half = 3 if width < 11 else len(facts)
    return "\n".join("  ·  ".join(row) for row in (facts[:half], facts[half:]) if row)
