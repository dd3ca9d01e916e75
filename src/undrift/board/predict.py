"""How much of a run is left: by its rounds, or by the slope of what its rule waits for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..progressfile import Number

ROUNDING = 1e-15  # of a relative gap
FEWEST = 8  # points that make a slope
RECENT = 0.5  # the part of a curve, its end, that the slope is taken of


class Forecast(NamedTuple):
    """Rounds that are left, and why so many where it is not because so many were asked for."""

    rounds: int
    why: str
    rate: float | None = None  # factor per round of what is looked at


def forecast(
    left: int, rounds: Sequence[int], columns: Mapping[str, Sequence[Number]], targets: Mapping[str, float]
) -> Forecast:
    """What is left of a run that may play `left` more rounds, or ends where columns come down to their targets.

    >>> rounds = list(range(40))
    >>> forecast(1000, rounds, {"gap": [0.5**t for t in rounds]}, {"gap": 0.5**50})
    Forecast(rounds=11, why='gap ≤ 8.88e-16, by its slope', rate=0.5)
    >>> forecast(7, rounds, {"gap": [1.0] * 40}, {"gap": 1e-6}).why
    ''
    """
    found = Forecast(left, "", rate_of(rounds, columns.get("gap", columns.get("loss", []))))
    for name, target in targets.items():
        rate = rate_of(rounds, columns.get(name, []))
        now = next((value for value in reversed(columns.get(name, [])) if value is not None), None)
        if rate is None or now is None or not (0 < rate < 1 and now > target > 0):
            continue
        wanted = math.ceil(math.log(target / now) / math.log(rate))
        if wanted < found.rounds:
            found = Forecast(wanted, f"{name} ≤ {target:.3g}, by its slope", rate)
    return found


def rate_of(rounds: Sequence[int], values: Sequence[Number]) -> float | None:
    """The factor per round at the end of a curve, by least squares on logarithms; None where there is no slope to speak of."""
    points = [
        (t, math.log(v)) for t, v in zip(rounds, values, strict=False) if v is not None and v > 0 and math.isfinite(v)
    ]
    points = points[int(len(points) * (1 - RECENT)) :]
    if len(points) < FEWEST:
        return None
    n, mean_t, mean_y = len(points), sum(t for t, _ in points) / len(points), sum(y for _, y in points) / len(points)
    spread = sum((t - mean_t) ** 2 for t, _ in points)
    slope = sum((t - mean_t) * (y - mean_y) for t, y in points) / spread if spread and n else 0.0
    return float(f"{math.exp(min(slope, 50.0)):.12g}")


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(0.4), duration(75), duration(7300), duration(200_000)
    ('1 s', '1 min 15 s', '2 h 1 min', '2 days 7 h')
    """
    whole = max(1, math.ceil(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} days {whole % 86400 // 3600} h"
