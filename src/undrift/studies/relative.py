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


def filled(curves: np.ndarray) -> np.ndarray:
    """NaN (rounds that were not recorded) take the value before them; infinities stay.

    >>> filled(np.array([[4.0, np.nan, 1.0, np.nan]]))
    array([[4., 4., 1., 1.]])
    """
    index = np.where(np.isnan(curves), 0, np.arange(curves.shape[-1]))
    return np.take_along_axis(curves, np.maximum.accumulate(index, axis=-1), axis=-1)
