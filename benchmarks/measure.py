"""Timing in turns, and what a benchmark reports."""

from __future__ import annotations

import dataclasses
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Row:
    """One measured quantity."""

    what: str
    value: float
    unit: str


@dataclasses.dataclass(frozen=True)
class Goal:
    """A promise and what became of it."""

    what: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

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
    name: str
    title: str
    rows: list[Row]
    goals: list[Goal] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        goals = [{**dataclasses.asdict(goal), "met": goal.met} for goal in self.goals]
        return {**dataclasses.asdict(self), "goals": goals}


def in_turns(candidates: Mapping[str, Callable[[], Any]], repeat: int, warm: bool = True) -> dict[str, np.ndarray]:
    """Seconds of each candidate, `repeat` times; they take turns, and the order is reversed every other time."""
    if warm:
        for call in candidates.values():
            call()
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for k in range(repeat):
        for name in list(candidates)[:: 1 if k % 2 == 0 else -1]:
            seconds[name].append(timed(candidates[name]))
    return {name: np.asarray(values) for name, values in seconds.items()}


def timed(call: Callable[[], Any]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def ratio(slow: np.ndarray, fast: np.ndarray) -> float:
    """How many times longer the first took: the median over turns, each turn compared with itself."""
    return float(np.median(slow / fast))


def least(*alternatives: np.ndarray) -> np.ndarray:
    """The best of several opponents in each turn."""
    return np.minimum.reduce(alternatives)


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    import jax
    import scipy

    import undrift

    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jax_device": jax.devices()[0].platform,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "undrift": undrift.__version__,
        "load_before": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
