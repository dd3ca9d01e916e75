"""Numbers read off a curve, with which claims are decided."""

from __future__ import annotations

import numpy as np


def rounds_to(curve: np.ndarray, share: float, rounds: np.ndarray | None = None) -> float:
    """The first round with a value ≤ share · start and none above afterwards … infinity if it is never so.

    >>> rounds_to(np.array([8.0, 4.0, 0.5, 3.0, 0.2, 0.1]), 0.1)
    4.0
    """
    above = np.flatnonzero(~(curve <= share * curve[0]))
    first = int(above[-1]) + 1 if above.size else 0
    if first >= len(curve):
        return float("inf")
    return float(first if rounds is None else rounds[first])


def floor(curve: np.ndarray, last: int) -> float:
    """Where a curve ends: the geometric mean of its last values."""
    tail = curve[-last:]
    return float(np.exp(np.mean(np.log(np.maximum(tail, np.finfo(float).tiny)))))


def straightness(curve: np.ndarray, low: float, high: float = 1.0) -> float:
    """R² of a line through log(value) while value/start lies between low and high: 1 is exact linear convergence.

    >>> straightness(0.5 ** np.arange(20.0), 1e-4)
    1.0
    """
    share = curve / curve[0]
    end = int(np.argmax(share < low)) if np.any(share < low) else len(share)
    begin = int(np.argmax(share <= high))
    t, y = np.arange(begin, end), np.log(share[begin:end])
    if len(t) < 3:
        return float("nan")
    residual = y - np.polyval(np.polyfit(t, y, 1), t)
    return float(1 - np.sum(residual**2) / np.sum((y - y.mean()) ** 2))
