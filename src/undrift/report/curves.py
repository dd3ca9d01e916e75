"""What a figure of convergence shows, without what draws it: Matplotlib takes as long to import as it takes to draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .style import Look, looks

POOLED = "all data in one place"


class Curve(NamedTuple):
    """A method's path: several seeds, one row each."""

    label: str
    name: str  # of the method, or its colour
    values: np.ndarray  # (seeds, rounds + 1): relative gap or loss
    costs: dict[str, np.ndarray]  # axis -> (seeds, rounds + 1)
    accuracy: np.ndarray | None = None  # (seeds, rounds + 1), where there are test data
    pooled: bool = False  # all data in one place

    @property
    def mark(self) -> str:
        """What stands beside it."""
        return f"{self.label} ({POOLED})" if self.pooled else self.label


class BoundLine(NamedTuple):
    """What is promised of a curve: relative gaps in every round, NaN where nothing is."""

    label: str
    of: str  # the label of the curve
    values: np.ndarray  # (rounds + 1,)
    thin: bool = False  # there for comparison: another step than the curve's


class Drawing(NamedTuple):
    """All that the figures of a run or of a comparison are drawn from."""

    curves: Sequence[Curve]
    looks: Sequence[Look]
    title: str
    measure: str  # "gap" or "loss"
    singles: bool  # one figure for each axis too
    bounds: Sequence[BoundLine] = ()  # of some of the curves

    @classmethod
    def of(
        cls,
        curves: Sequence[Curve],
        title: str,
        measure: str,
        singles: bool = True,
        bounds: Sequence[BoundLine] = (),
    ) -> Drawing:
        """Every curve with the look of its method."""
        return cls(curves, looks([curve.name for curve in curves]), title, measure, singles, bounds)


def curve_from(label: str, name: str, values: np.ndarray, columns: Any, pooled: bool = False) -> Curve:
    """A curve from the columns of histories, (seeds, rounds + 1) each."""
    rounds = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    links = [np.asarray(columns[f"bytes_{link}"]) for link in ("up", "down", "peer") if f"bytes_{link}" in columns]
    total = np.sum(links, axis=0)
    costs = {"rounds": rounds, "bytes": total / 1e6, "gradients": np.asarray(columns["gradients"])}
    accuracy = np.asarray(columns["accuracy"]) if "accuracy" in columns else None
    return Curve(label, name, values, costs, accuracy, pooled)
