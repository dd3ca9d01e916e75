"""Who is ahead: accuracies compared by their difference, which must exceed their spread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .item import Decision, at_least, at_most

Row = Mapping[str, Any]  # of one method in one cell: method, accuracy, deviation
HOW = "the standard deviations of both over the last rounds and all seeds, added in squares"


def spread_of(one: Row, other: Row) -> float:
    """√(s² + s'²) of two standard deviations over the evaluated ones of the last rounds and over all seeds."""
    return float(np.hypot(one["deviation"], other["deviation"]))


def leads(ahead: Row, behind: Row, said: str) -> Decision:
    """One mean accuracy is above the other by at least their spread.

    >>> fedavg = {"method": "FedAvg", "accuracy": 60.0, "deviation": 3.0}
    >>> ssl = {"method": "SSL", "accuracy": 65.0, "deviation": 4.0}
    >>> leads(ssl, fedavg, "").margin, leads(fedavg, ssl, "").holds
    (1.0, False)
    """
    difference, spread = ahead["accuracy"] - behind["accuracy"], spread_of(ahead, behind)
    first, points = (ahead, difference) if difference >= 0 else (behind, -difference)
    why = f"{first['method']} is {points:.2f} points ahead, and the spread is {spread:.2f}"
    return at_least(difference, spread, f"{said}; difference {difference:+.2f}, spread {spread:.2f}", why)


def level(one: Row, other: Row, said: str) -> Decision:
    """Neither is above the other by more than their spread."""
    difference, spread = abs(one["accuracy"] - other["accuracy"]), spread_of(one, other)
    why = f"they are {difference:.2f} points apart, {difference / spread if spread else np.inf:.2f} of the spread"
    return at_most(difference, spread, f"{said}; difference {difference:.2f}, spread {spread:.2f}", why)
