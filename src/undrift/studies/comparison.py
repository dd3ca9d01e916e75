"""Several methods on one problem and one plan, each over its grid of step sizes, and which value suits each best."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine.description import Run
from ..engine.grids import edges, worst_seeds
from ..engine.history import History, Result
from ..engine.sweep import SweepObserver, sweep_runs
from .entries import Entry
from .method import traced_by
from .relative import filled, relative_gap

TARGETS = (1e-3, 1e-6, 1e-9)
ROUNDING = 1e-15  # below this share of the first gap nothing is compared
GIVEN = "grid"  # the origin of points that somebody asked for; others come from refining


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one method: every point of its grid with every seed."""

    label: str
    name: str
    points: list[dict[str, Any]]
    seeds: list[int]
    history: dict[str, np.ndarray]  # column -> (points, seeds, rounds + 1)
    x: np.ndarray  # (points, seeds, d)
    diverged: np.ndarray  # (points, seeds): first bad round, or −1
    seconds: float
    colour: str | None = None  # that the method's record gives it
    origins: list[str] = dataclasses.field(default_factory=list)  # of every point: asked for, or why it was added
    numbers: list[str] = dataclasses.field(default_factory=list)  # parameters that could be smaller or larger
    pooled: bool = False  # it holds all data in one place

    def __post_init__(self) -> None:
        if not self.origins:
            object.__setattr__(self, "origins", [GIVEN] * len(self.points))

    @functools.cached_property
    def best(self) -> int | None:
        """The point whose worst seed ends lowest; at rounding level the one that came down fastest. None: all diverged.

        A point that diverged with any seed is not chosen.
        """
        curves = self.curve_of_all()
        ends = worst_seeds(curves[..., -1], self.diverged)
        if not np.any(np.isfinite(ends)):
            return None
        near = np.flatnonzero(ends <= max(10 * ROUNDING, float(ends.min())))
        paths = [float(np.mean(np.log(np.maximum(np.max(filled(curves[i]), axis=0), ROUNDING)))) for i in near]
        return int(near[int(np.argmin(paths))])

    @property
    def chosen(self) -> int:
        """The best point, or the first where all diverged."""
        return 0 if self.best is None else self.best

    @property
    def edges(self) -> dict[str, str]:
        """The parameters whose best value is the smallest ("lower") or the largest ("upper") that was tried."""
        return {} if self.best is None else edges(self.points, self.best, self.numbers)

    @property
    def added(self) -> int:
        """How many points were added to the grid that was asked for."""
        return sum(origin != GIVEN for origin in self.origins)

    @property
    def measure(self) -> str:
        return "gap" if "gap" in self.history else "loss"

    def curve_of_all(self) -> np.ndarray:
        """Relative gap (f − f*)/(f_0 − f*), or the loss where f* is not known: (points, seeds, rounds + 1)."""
        values = self.history[self.measure]
        return values if self.measure == "loss" else relative_gap(values)

    def curve(self) -> np.ndarray:
        """The same for the chosen point: (seeds, rounds + 1)."""
        return self.curve_of_all()[self.chosen]

    def column(self, name: str) -> np.ndarray:
        return self.history[name][self.chosen]

    def result(self, seed: int = 0) -> Result:
        """The run of one of the seeds (by its place) at the chosen point."""
        columns = {name: self.column(name)[seed] for name in self.history}
        bad = int(self.diverged[self.chosen, seed])
        rounds = len(columns["loss"]) - 1
        diverged = (bad, None) if bad >= 0 else None
        return Result(self.x[self.chosen, seed], History(columns), None, rounds, {}, self.seconds, diverged)

    def rounds_of_seeds(self, target: float) -> list[int | None]:
        """For every seed the first round from which on its relative gap stays at or below the target; None: never."""
        if self.measure != "gap" or self.best is None:
            return [None] * len(self.seeds)
        return [_arrival(curve, target) for curve in filled(self.curve())]

    def rounds_to(self, target: float) -> int | None:
        """The round by which at least half of the seeds are there."""
        reached = sorted(np.inf if one is None else one for one in self.rounds_of_seeds(target))
        middle = reached[(len(reached) - 1) // 2]
        return None if np.isinf(middle) else int(middle)

    def with_points(self, other: Outcome) -> Outcome:
        """The same method with the points of another outcome behind its own."""
        return dataclasses.replace(
            self,
            points=[*self.points, *other.points],
            origins=[*self.origins, *other.origins],
            history={name: np.concatenate([rows, other.history[name]]) for name, rows in self.history.items()},
            x=np.concatenate([self.x, other.x]),
            diverged=np.concatenate([self.diverged, other.diverged]),
            seconds=self.seconds + other.seconds,
        )


def play_one(entry: Entry, seeds: list[int], observe: SweepObserver | None = None) -> Outcome:
    """One method: its whole grid with all seeds, one compiled program for all points that differ in numbers only."""
    # Where nothing varies the first parameter is shown as the one that was chosen; a method may also have none at all.
    points = entry.method.points() if entry.method.grid else [dict(list(entry.method.parameters.items())[:1])]
    return play_points(entry, points, entry.runs, seeds, GIVEN, observe)


def play_points(
    entry: Entry,
    points: list[dict[str, Any]],
    runs: Sequence[Run],
    seeds: list[int],
    origin: str,
    observe: SweepObserver | None = None,
) -> Outcome:
    """These points of a method, whose runs these are, with all seeds."""
    swept = sweep_runs([run.but(on_divergence="continue") for run in runs], {"point": points}, seeds, observe)
    return Outcome(
        entry.label,
        entry.method.name,
        points,
        seeds,
        dict(swept.history),
        swept.x,
        swept.diverged,
        swept.seconds,
        entry.method.known.colour,
        [origin] * len(points),
        searched(entry),
        entry.runs[0].recipe.centralised,
    )


def searched(entry: Entry) -> list[str]:
    """The parameters of a grid that are numbers of the method; not those that a rule alone has chosen."""
    traced, ruled = traced_by(entry.method.factory), {name for name, one in entry.chosen.items() if one.rule}
    grid = entry.method.grid
    return [name for name, values in grid.items() if name in traced and (len(values) > 1 or name not in ruled)]


def run_at(entry: Entry, point: dict[str, Any]) -> Run:
    """The run of a point that may have been added to the grid."""
    made = entry.method.make(**point)
    alike = next(run for run in entry.runs if run.recipe == made.recipe)
    return alike.but(method=made)


def run_of_best(entry: Entry, outcome: Outcome) -> Run:
    """The run of the chosen point."""
    asked = outcome.chosen < len(entry.runs)
    return entry.runs[outcome.chosen] if asked else run_at(entry, outcome.points[outcome.chosen])


def _arrival(curve: np.ndarray, target: float) -> int | None:
    """The first place from which on the curve stays at or below the target."""
    above = np.flatnonzero(curve > target)
    first = 0 if not above.size else int(above[-1]) + 1
    return first if first < curve.size else None
