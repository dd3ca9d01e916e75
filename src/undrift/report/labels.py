"""Names written beside the curves instead of a legend."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatterSciNotation

LONGEST = 48  # letters of a name that fit beside a panel
SPACING = 0.062  # least distance of two labels, as a share of the axis
MATH = re.compile(r"\$\\mathdefault\{(?:([\d.]+)\\times)?10\^\{(-?\d+)\}\}\$")  # how Matplotlib writes 3×10⁻⁵
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Powers(LogFormatterSciNotation):
    """Ticks of a logarithmic axis in letters: set as formulas, as Matplotlib does it, they take half the time of a figure.

    >>> Powers.plain("$\\\\mathdefault{10^{-3}}$"), Powers.plain("$\\\\mathdefault{2\\\\times10^{12}}$"), Powers.plain("")
    ('10⁻³', '2×10¹²', '')
    """

    def __call__(self, x: float, pos: int | None = None) -> str:
        return self.plain(super().__call__(x, pos))

    @staticmethod
    def plain(text: str) -> str:
        return MATH.sub(lambda found: f"{found[1] + '×' if found[1] else ''}10{found[2].translate(RAISED)}", text)


class Mark(NamedTuple):
    """Where a curve ends."""

    label: str
    colour: str
    x: float
    y: float


def place_labels(panel: Axes, marks: Sequence[Mark]) -> None:
    """Names in the right margin, in the order of the curves' ends, joined to them by thin lines."""
    if not marks:
        return
    panel.get_xlim(), panel.get_ylim()  # fixes the limits, so that data can be turned into shares of the axis
    to_axis = panel.transData + panel.transAxes.inverted()
    ends = np.array([to_axis.transform((mark.x, mark.y)) for mark in marks])
    # Among curves that end at the same height the one that needed least is named last, next to the bottom.
    order = sorted(range(len(marks)), key=lambda i: (-round(float(ends[i, 1]), 2), -float(ends[i, 0])))
    heights = spread([float(np.clip(ends[i, 1], 0, 1)) for i in order])
    for i, height in zip(order, heights, strict=True):
        mark = marks[i]
        panel.annotate(
            mark.label if len(mark.label) <= LONGEST else f"{mark.label[: LONGEST - 1]}…",
            xy=(mark.x, mark.y),
            xycoords="data",
            xytext=(1.035, height),
            textcoords="axes fraction",
            color=mark.colour,
            fontsize=8.5,
            fontweight="bold",
            va="center",
            ha="left",
            annotation_clip=False,
            parse_math=False,  # a label is the user's: a dollar in it is a dollar
            arrowprops={
                "arrowstyle": "-",
                "color": mark.colour,
                "linewidth": 0.5,
                "alpha": 0.55,
                "shrinkA": 1,
                "shrinkB": 2,
                "relpos": (0, 0.5),
            },
        )


def spread(wanted: Sequence[float]) -> list[float]:
    """Descending heights near the wanted ones (descending too), at least SPACING apart, inside [0, 1] where they fit.

    >>> [round(h, 3) for h in spread([0.5, 0.5])]
    [0.531, 0.469]
    """
    groups: list[list[float]] = []  # [sum of wanted centres, number of labels]
    for height in wanted:
        groups.append([height, 1])
        while len(groups) > 1 and _bottom(groups[-2]) - _top(groups[-1]) < SPACING - 1e-12:
            total, count = groups.pop()
            groups[-1][0] += total
            groups[-1][1] += count
    return [_top(group) - SPACING * k for group in groups for k in range(int(group[1]))]


def _top(group: list[float]) -> float:
    total, count = group
    half = SPACING * (count - 1) / 2
    return min(max(total / count, half), max(1 - half, half)) + half


def _bottom(group: list[float]) -> float:
    return _top(group) - SPACING * (group[1] - 1)
