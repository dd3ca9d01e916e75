"""Timing in turns, and what a case reports."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from . import disturbance

Side = Literal["", "undrift", "peer", "limit"]


@dataclasses.dataclass(frozen=True)
class Row:
    """One measured quantity: a median, with quartiles where it was measured several times.

    Rows that name a side are drawn as bars, those of one group beside each other.
    """

    what: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    side: Side = ""
    group: str = ""

    @classmethod
    def of(cls, what: str, samples: Any, unit: str, side: Side = "", group: str = "") -> Row:
        low, middle, high = quartiles(samples)
        return cls(what, middle, unit, low, high, side, group)


@dataclasses.dataclass(frozen=True)
class Goal:
    """A promise and what became of it. `same`: it is about both sides computing the same, not about speed."""

    what: str
    value: float
    at_least: float | None = None
    at_most: float | None = None
    low: float | None = None
    high: float | None = None
    same: bool = False
    unit: str = ""

    @classmethod
    def of(
        cls, what: str, samples: Any, at_least: float | None = None, at_most: float | None = None, unit: str = "×"
    ) -> Goal:
        low, middle, high = quartiles(samples)
        return cls(what, middle, at_least, at_most, low, high, unit=unit)

    @property
    def met(self) -> bool:
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    @property
    def bound(self) -> str:
        if self.at_least == self.at_most:
            return f"= {self.at_least:g}"
        return f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:g}"


@dataclasses.dataclass(frozen=True)
class Report:
    """What a case found. Its name is that of the case."""

    name: str
    title: str
    rows: list[Row]
    goals: list[Goal] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        goals = [{**dataclasses.asdict(goal), "met": goal.met} for goal in self.goals]
        return {**dataclasses.asdict(self), "goals": goals}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Report:
        goals = [Goal(**{key: value for key, value in goal.items() if key != "met"}) for goal in found["goals"]]
        return cls(found["name"], found["title"], [Row(**row) for row in found["rows"]], goals, found["notes"])


def in_turns(candidates: Mapping[str, Callable[[], Any]], repeat: int, warm: bool = True) -> dict[str, np.ndarray]:
    """Seconds of each candidate, `repeat` times; they take turns, and the order is reversed every other time.

    Between turns the machine is timed as well (`disturbance.calibrate`), outside the seconds that count.
    """
    if warm:
        for call in candidates.values():
            call()
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for k in range(repeat):
        disturbance.calibrate()
        for name in list(candidates)[:: 1 if k % 2 == 0 else -1]:
            seconds[name].append(timed(candidates[name]))
    return {name: np.asarray(values) for name, values in seconds.items()}


def timed(call: Callable[[], Any]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def quartiles(samples: Any) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile.

    >>> quartiles([1, 2, 3, 4, 100])
    (2.0, 3.0, 4.0)
    """
    low, middle, high = np.percentile(np.asarray(samples, float), [25, 50, 75])
    return float(low), float(middle), float(high)


def ratio(slow: np.ndarray, fast: np.ndarray) -> float:
    """How many times longer the first took: the median over turns, each turn compared with itself."""
    return float(np.median(slow / fast))


def least(*alternatives: np.ndarray) -> np.ndarray:
    """The best of several opponents in each turn."""
    return np.minimum.reduce(alternatives)


def per_round(longer: np.ndarray, shorter: np.ndarray, rounds: int) -> np.ndarray:
    """Seconds of a round, from two lengths of call that differ by so many: what happens once per call falls out."""
    return np.maximum(longer - shorter, 1e-9) / rounds
