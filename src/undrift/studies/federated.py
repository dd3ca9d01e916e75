"""Tables of several clients, gathered in one place, as the problem that the same clients would have as sites."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..problems.base import Problem
from .site_files import SiteData
from .sites import Sites

Parts = Sequence[np.ndarray]  # rows of each client


def federated(source: Sites, x: np.ndarray, y: np.ndarray, parts: Parts, names: Sequence[str]) -> Problem:
    """The problem of clients that hold these rows of x (n, d) and y (n,): standardised, with an intercept, as `source` says.

    >>> found = federated(Sites("least_squares", 1), np.eye(2)[:, :1], np.ones(2), [np.array([0]), np.array([1])], "ab")
    >>> found, found.columns["clients"]
    (<least squares: 2 clients, d = 2, float64>, {'a': 1, 'b': 1})
    """
    problem = source.whole([SiteData(x[rows], y[rows]) for rows in parts])
    sizes = {name: len(rows) for name, rows in zip(names, parts, strict=True)}
    problem.columns = {**(problem.columns or {}), "clients": sizes}
    return problem
