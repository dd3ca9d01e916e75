"""Which point of a grid is best over all seeds, and whether it lies at the edge: one rule for sweeps and comparisons.

**A point is judged by its worst seed, and one that diverged on any seed is not chosen.** The median would choose a step that
collapses on one seed in five.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

LOWER, UPPER = "lower", "upper"


def worst_seeds(ends: np.ndarray, diverged: np.ndarray) -> np.ndarray:
    """The largest end over seeds (the last axis), ∞ where a seed diverged or its end is not finite.

    >>> worst_seeds(np.array([[1.0, 9.0], [2.0, 3.0], [0.0, 0.1]]), np.array([[-1, -1], [-1, -1], [-1, 7]]))
    array([ 9.,  3., inf])
    """
    sound = np.isfinite(ends) & (diverged < 0)
    return np.max(np.where(sound, ends, np.inf), axis=-1)


def is_number(value: Any) -> bool:
    """Whether a value of a grid can be larger or smaller than another; words and schedules cannot.

    >>> [is_number(value) for value in (0.1, 2, True, "theorem", {"schedule": "inverse"})]
    [True, True, False, False, False]
    """
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def values_of(points: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    """The numbers that a parameter takes, from the smallest on, each once."""
    return sorted({point[name] for point in points if is_number(point.get(name))})


def edges(points: Sequence[Mapping[str, Any]], best: int, names: Iterable[str]) -> dict[str, str]:
    """The parameters whose best value is the smallest ("lower") or the largest ("upper") that was tried.

    A single value has no edge, and nothing lies below zero.

    >>> edges([{"eta": 0.1}, {"eta": 0.2}, {"eta": 0.4}], 2, ["eta"]), edges([{"beta": 0.0}, {"beta": 1.0}], 0, ["beta"])
    ({'eta': 'upper'}, {})
    """
    found = {}
    for name in names:
        value, values = points[best].get(name), values_of(points, name)
        if not is_number(value) or len(values) < 2:
            continue
        if value == values[-1]:
            found[name] = UPPER
        elif value == values[0] and value > 0:
            found[name] = LOWER
    return found
