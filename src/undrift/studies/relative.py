"""Gaps as shares of the first gap, which makes problems comparable."""

from __future__ import annotations

import numpy as np


def relative_gap(gap: np.ndarray) -> np.ndarray:
    """(f(x_t) − f*)/(f(x_0) − f*), rounding below zero removed; rounds are the last axis.

    >>> relative_gap(np.array([4.0, 1.0, -1e-17]))
    array([1.  , 0.25, 0.  ])
    """
    first = gap[..., :1]
    return np.where(np.isnan(gap), np.nan, np.maximum(gap, 0)) / np.where(first > 0, first, 1)
