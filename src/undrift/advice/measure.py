"""Running what was predicted: a few step sizes side by side, as one compiled sweep."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ..api import sweep
from ..problems.base import Problem
from .options import Option

AROUND = (0.7, 1.0, 1.4)
WIDER = (0.35, 0.7, 1.0, 1.4, 2.0, 2.8)
BLIND = tuple(2.0**k for k in range(-3, 6))
NETWORK = (0.01, 0.03, 0.1, 0.3)
MARGIN = 1.25  # rounds beyond the predicted ones


@dataclasses.dataclass(frozen=True)
class Goal:
    """What is to be reached: a column of the history and a value."""

    column: str  # gap, loss or accuracy
    value: float

    @property
    def upwards(self) -> bool:
        return self.column == "accuracy"

    def first(self, values: np.ndarray) -> int | None:
        """The round at which it is reached: for the gap, and for good; for noisy losses and accuracies the first time."""
        good = values >= self.value if self.upwards else values <= self.value
        good = good & np.isfinite(values)
        if self.column == "gap":
            if not good[-1]:
                return None  # still above, or diverged: the last round is always recorded
            bad = np.flatnonzero(~good & ~np.isnan(values))
            after = 0 if not bad.size else int(bad[-1]) + 1
            after += int(np.argmax(good[after:]))  # rounds that were not recorded tell nothing
            # A method that keeps jumping across the target is below it at the end by luck: it has to stay for a while.
            return after if after < len(values) - min(20, len(values) // 10) else None
        hits = np.flatnonzero(good)
        return int(hits[0]) if hits.size else None


@dataclasses.dataclass(frozen=True)
class Measured:
    """The best step size of those that were run."""

    step: float
    rounds: int | None  # None: not reached within the rounds that were played
    played: int
    curve: np.ndarray  # the goal's column, from round 0 on
    best: float  # the best value that was seen
    grid: tuple[float, ...]
    exact_step_rounds: int | None = None  # with the predicted step size itself


def measure(
    option: Option,
    problem: Problem,
    steps: Any,
    goal: Goal,
    *,
    step: float | None,
    scale: float | None,
    exact: bool,
    predicted: int | None,
    budget: int,
    seed: int,
    x0: Any = None,
    factors: tuple[float, ...] | None = None,
    **arguments: Any,
) -> Measured:
    """Sweep over step sizes around the predicted one (or around a scale, or usual values for networks)."""
    if step is not None:
        grid = [step * factor for factor in factors or (AROUND if exact else WIDER)]
    elif scale is not None:
        grid = [scale * factor for factor in factors or BLIND]
    else:
        grid = list(NETWORK)
    rounds = budget if predicted is None else min(budget, math.ceil(MARGIN * predicted) + 5)

    def made(number: float) -> Any:
        return option.make(number, steps)

    told = {**made(grid[0]).given(steps), **arguments}
    swept = sweep(made, problem, grid={"number": grid}, seeds=[seed], rounds=rounds, x0=x0, **told)
    values = swept.history[goal.column][:, 0, :]
    reached = [goal.first(np.where(np.isnan(row), np.nan, row)) for row in values]
    ends = np.where(np.isfinite(values[:, -1]), values[:, -1], -np.inf if goal.upwards else np.inf)
    arrived = [i for i, t in enumerate(reached) if t is not None]
    if arrived:
        best = min(arrived, key=lambda i: reached[i])  # type: ignore[arg-type,return-value]
    else:
        best = int(np.argmax(ends) if goal.upwards else np.argmin(ends))
    same = grid.index(step) if step in grid else None
    with np.errstate(all="ignore"):
        top = np.nanmax(values[best]) if goal.upwards else np.nanmin(values[best])
    return Measured(
        float(grid[best]),
        reached[best],
        rounds,
        values[best],
        float(top),
        tuple(grid),
        None if same is None else reached[same],
    )
