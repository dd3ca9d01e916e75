"""Lines over something else than rounds (a step size, local steps): one table, drawn and given to the page alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .data import Data, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = "lines"
BOUND, MEASURED = "bound", "measured"
DOTS = (0, (1.2, 1.4))


class Lines:
    """Collects the table "lines": series, kind, x, value.

    >>> lines = Lines()
    >>> lines.add("FedLin", [1, 2], [0.5, 0.25])
    >>> points(Data({"lines": lines.table()}), "FedLin")
    (array([1., 2.]), array([0.5 , 0.25]))
    """

    def __init__(self) -> None:
        self._rows: list[tuple[str, str, float, float]] = []

    def add(self, series: str, x: Sequence[float] | np.ndarray, values: Any, kind: str = MEASURED) -> None:
        """A line through these points."""
        pairs = zip(np.asarray(x, float), np.asarray(values, float), strict=True)
        self._rows += [(series, kind, float(at), float(value)) for at, value in pairs]

    def table(self) -> Table:
        names = ("series", "kind", "x", "value")
        return {name: np.array(column) for name, column in zip(names, zip(*self._rows, strict=True), strict=True)}


def names(data: Data) -> list[str]:
    """The lines, in order."""
    return list(dict.fromkeys(data[LINES]["series"].tolist()))


def points(data: Data, series: str) -> tuple[np.ndarray, np.ndarray]:
    """(x, value) of a line."""
    rows = data.where(LINES, series=series)
    return rows["x"].astype(float), rows["value"].astype(float)


def draw_lines(
    axis: Axes, data: Data, colours: Mapping[str, str], marker: str = "", dashes: Mapping[str, Any] | None = None
) -> None:
    """All lines; what a theorem promises is dotted."""
    for series in names(data):
        x, value = points(data, series)
        promised = str(data.where(LINES, series=series)["kind"][0]) == BOUND
        dash = DOTS if promised else (dashes or {}).get(series, "-")
        shown = "" if promised else marker
        axis.plot(
            x, value, color=colours[series], linestyle=dash, marker=shown, markersize=3.5, linewidth=1.6, label=series
        )


def page_lines(
    data: Data, title: str, x_name: str, y_label: str, x_scale: str = "log", y_scale: str = "log"
) -> list[dict[str, Any]]:
    """The same for the page."""
    series = []
    for name in names(data):
        x, value = points(data, name)
        kind = str(data.where(LINES, series=name)["kind"][0])
        y = [float(v) if np.isfinite(v) else None for v in value]
        series.append({"label": name, "kind": kind, "x": {x_name: x.tolist()}, "y": y, "low": None, "high": None})
    scales = {"y_scale": y_scale, "x_scale": x_scale}
    return [{"title": title, "note": "", "y_label": y_label, **scales, "series": series}]
