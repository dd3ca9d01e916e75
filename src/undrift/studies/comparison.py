"""Several methods on one problem and one plan, each over its grid of step sizes, and which value suits each best."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.history import History, Result
from ..engine.sweep import SweepObserver, sweep_runs
from .entries import Entry
from .relative import filled, relative_gap

TARGETS = (1e-3, 1e-6, 1e-9)
ROUNDING = 1e-15  # below this share of the first gap nothing is compared


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
    pooled: bool = False  # it holds all data in one place

    @functools.cached_property
    def best(self) -> int | None:
        """The point with the lowest end; at rounding level the one that came down fastest. None: all diverged."""
        curves = self.curve_of_all()
        with np.errstate(all="ignore"):
            ends = np.where(np.all(self.diverged < 0, axis=1), np.median(curves[..., -1], axis=1), np.inf)
            ends = np.where(np.isfinite(ends), ends, np.inf)
        if not np.any(np.isfinite(ends)):
            return None
        near = np.flatnonzero(ends <= max(10 * ROUNDING, float(ends.min())))
        paths = [float(np.mean(np.log(np.maximum(np.median(filled(curves[i]), axis=0), ROUNDING)))) for i in near]
        return int(near[int(np.argmin(paths))])

    @property
    def chosen(self) -> int:
        """The best point, or the first where all diverged."""
        return 0 if self.best is None else self.best

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

    def result(self) -> Result:
        """The run of the first seed at the chosen point."""
        columns = {name: self.column(name)[0] for name in self.history}
        bad = int(self.diverged[self.chosen, 0])
        rounds = len(self.column("loss")[0]) - 1
        return Result(
            self.x[self.chosen, 0], History(columns), None, rounds, {}, self.seconds, (bad, None) if bad >= 0 else None
        )

    def rounds_to(self, target: float) -> int | None:
        """The first round from which on the (median) relative gap stays at or below the target."""
        if self.measure != "gap" or self.best is None:
            return None
        curve = np.median(filled(self.curve()), axis=0)
        above = np.flatnonzero(curve > target)
        first = 0 if not above.size else int(above[-1]) + 1
        return first if first < curve.size else None


def play(
    entries: Sequence[Entry],
    seeds: list[int],
    observe: Callable[[int, int], Any],
    finished: Callable[[int], Outcome | None] = lambda number: None,
    done: Callable[[int, Outcome], None] = lambda number, outcome: None,
) -> list[Outcome]:
    """All methods, one after the other; `finished` may know an outcome already, `done` is told each new one.

    observe: called with (number of the method, rounds it has played).
    """
    outcomes = []
    for number, entry in enumerate(entries):
        outcome = finished(number)
        if outcome is None:
            observe(number, 0)
            outcome = play_one(entry, seeds, functools.partial(_tell, observe, number))
            done(number, outcome)
        outcomes.append(outcome)
    return outcomes


def _tell(observe: Callable[[int, int], Any], number: int, played: int, rounds: int) -> None:
    observe(number, played)


def play_one(entry: Entry, seeds: list[int], observe: SweepObserver | None = None) -> Outcome:
    """One method: its whole grid with all seeds, one compiled program for all points that differ in numbers only."""
    # Where nothing varies the first parameter is shown as the one that was chosen; a method may also have none at all.
    points = entry.method.points() if entry.method.grid else [dict(list(entry.method.parameters.items())[:1])]
    runs = [run.but(on_divergence="continue") for run in entry.runs]
    swept = sweep_runs(runs, {"point": points}, seeds, observe)
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
        entry.runs[0].recipe.centralised,
    )
