"""FedAvg and SSL each at its own best step size: what remains of the SSL paper's margins, and LeNet-5 on CIFAR-10.

Every cell has a search on a grid with one seed; it is widened until the best step has both its neighbours beside it. At the
best step, and at the paper's, several seeds are run for longer. Where a seed collapses at the best step, which was chosen with
one seed, the next smaller step of the grid takes its place (a rule that was added when FedAvg had collapsed on Fashion-MNIST
with one seed of three). What is not finished is listed as not run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .data import Data
from .item import Work
from .jobs import Job, Outcome, finish, outcome
from .learning_table import Cell, cell_jobs, cells
from .ssl_settings import METHODS, step_key

GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
BEST, PAPERS = "best of the grid", "the paper's"  # whose step sizes
FIRST_TARGET, SECOND_TARGET = 0.30, 0.75  # the accuracies to which the paper counts rounds
COLLAPSED = 0.15  # accuracy of ten classes at which a run that had learnt something counts as lost
SEARCHES = ("data", "classes", "K", "method", "best", "not_run")
GRID_COLUMNS = ("data", "classes", "K", "method", "eta", "accuracy")
ENDS = (
    "data", "classes", "K", "method", "steps", "eta", "seeds", "rounds", "accuracy", "deviation", "to_30", "to_75",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Search:
    """Accuracies by step size, and the steps that still have to be run."""

    scores: dict[float, float]
    missing: list[float]

    @property
    def best(self) -> float | None:
        """Once nothing is missing."""
        return None if self.missing else best_of(self.scores)


def best_of(scores: dict[float, float]) -> float:
    """The step with the highest score; the smaller one of equals."""
    return max(sorted(scores), key=scores.__getitem__)


def beside(grid: Sequence[float], eta: float) -> list[float]:
    """A step of the grid with its neighbours.

    >>> beside((0.1, 0.3, 1.0), 1.0)
    [0.3, 1.0]
    """
    place = grid.index(eta)
    return list(grid[max(place - 1, 0) : place + 2])


def widened(score: Callable[[float], float | None], start: Iterable[float], grid: Sequence[float]) -> Search:
    """Search from a few steps on until the best has its neighbours beside it (or is an end of the grid).

    >>> widened(lambda eta: -abs(eta - 1.0), [0.1], (0.1, 0.3, 1.0, 3.0)).best
    1.0
    """
    scores: dict[float, float] = {}
    wanted = set(start)
    while wanted - scores.keys():
        found = {eta: score(eta) for eta in sorted(wanted - scores.keys())}
        scores |= {eta: value for eta, value in found.items() if value is not None}
        missing = [eta for eta, value in found.items() if value is None]
        if missing:
            return Search(scores, missing)
        wanted = set(beside(grid, best_of(scores)))
    return Search(scores, [])


def job_at(values: dict[str, Any], cell: Cell, method: str, eta: float, seed: int, how: str) -> Job:
    """A run of this cell; `how` is "grid", BEST or PAPERS: they differ in their rounds and evaluations."""
    rounds = values["rounds"][str(cell.classes)] if how == PAPERS else values[f"rounds, {how}"]
    changed = {
        **values,
        "step sizes": {step_key(cell.data, cell.classes, cell.steps): [eta] * len(METHODS)},
        "rounds": {str(cell.classes): rounds},
        "evaluated every": values["evaluated every"]["grid" if how == "grid" else BEST],
        "seeds": [seed],
    }
    return dict(cell_jobs(changed, cell))[method]


def first_steps(values: dict[str, Any], cell: Cell, before: float | None = None) -> list[float]:
    """Where a search begins; `before` is the best step of the same cell with the smaller number of local steps."""
    if before is not None:
        return beside(values["grid"], before)
    return list(values["grid"] if cell.classes in values["whole grid"] else values["first steps"])


class Runs:
    """Finds, or trains, the runs of an item; and counts what is not there."""

    def __init__(self, work: Work, name: str) -> None:
        self.work, self.name = work, name

    def __call__(self, job: Job) -> Outcome | None:
        if not self.work.train:
            return outcome(job, self.work.jobs)
        return finish(job, self.work.jobs, self.work.observer(f"{self.name}: {job.name}", 0, job.rounds))

    def score(self, cell: Cell, method: str, eta: float) -> float | None:
        """Accuracy on the grid: the mean over the last rounds, with the first seed."""
        values = self.work.values
        found = self(job_at(values, cell, method, eta, values["seeds"][0], "grid"))
        return None if found is None else 100 * float(np.nan_to_num(found.last(values["averaged over"])).mean())

    def ends(self, cell: Cell, method: str, eta: float, how: str) -> list[Outcome]:
        """The seeds that are finished."""
        jobs = [job_at(self.work.values, cell, method, eta, seed, how) for seed in self.work["seeds"]]
        return [found for job in jobs if (found := self(job)) is not None]

    def steady(self, cell: Cell, method: str, eta: float) -> tuple[float, list[tuple[Any, ...]]]:
        """The best step, or the next smaller one with which no finished seed collapses; and those with which one did."""
        lost, grid = [], list(self.work["grid"])
        while grid.index(eta) > 0:
            found = self.ends(cell, method, eta, BEST)
            seeds = [
                one.job.seed for one in found if np.nan_to_num(one.last(self.work["averaged over"])).mean() < COLLAPSED
            ]
            if not seeds:
                break
            lost.append((*_of(cell), method, eta, " ".join(map(str, seeds)), len(found)))
            eta = grid[grid.index(eta) - 1]
        return eta, lost


def produce(work: Work, name: str) -> Data:
    """Tables: the searches, the grid behind them, and where several seeds end at the best step and at the paper's."""
    runs, searches, grid, ends, lost = Runs(work, name), [], [], [], []
    best: dict[tuple[Any, ...], float | None] = {}
    for cell in cells(work.values):
        for number, method in enumerate(METHODS):
            key = (cell.data, cell.classes, method)
            found = _search(runs, cell, method, best[key]) if key in best else _search(runs, cell, method)
            best[key] = found.best
            grid += [(*_of(cell), method, eta, found.scores[eta]) for eta in sorted(found.scores)]
            missing = " ".join(f"{eta:g}" for eta in found.missing) or "none"
            searches.append((*_of(cell), method, np.nan if found.best is None else found.best, missing))
            for how, eta in _steps(work.values, cell, number, found.best):
                steady, collapsed = runs.steady(cell, method, eta) if how == BEST else (eta, [])
                lost += collapsed
                ends += _end(runs, cell, method, how, steady)
    tables = {"searches": _table(SEARCHES, searches), "grid": _table(GRID_COLUMNS, grid), "ends": _table(ENDS, ends)}
    tables["collapsed"] = _table(("data", "classes", "K", "method", "eta", "lost", "seeds"), lost)
    return Data(tables, work["seeds"], work.values)


def _search(runs: Runs, cell: Cell, method: str, *before: float | None) -> Search:
    """`before`: the best step with fewer local steps, where there are fewer; None while that search is not finished."""
    if None in before:
        return Search({}, list(runs.work["grid"]))
    start = first_steps(runs.work.values, cell, *before)
    return widened(lambda eta: runs.score(cell, method, eta), start, tuple(runs.work["grid"]))


def _steps(values: dict[str, Any], cell: Cell, number: int, best: float | None) -> Iterator[tuple[str, float]]:
    """Whose step sizes several seeds are run with: the grid's best, and the paper's where it is for this network."""
    if best is not None:
        yield BEST, best
    if str(cell.classes) in values.get("rounds", {}):
        yield PAPERS, values["step sizes"][step_key(cell.data, cell.classes, cell.steps)][number]


def _end(runs: Runs, cell: Cell, method: str, how: str, eta: float) -> list[tuple[Any, ...]]:
    found = runs.ends(cell, method, eta, how)
    if not found:
        return []
    last = 100 * np.nan_to_num(np.concatenate([one.last(runs.work["averaged over"]) for one in found]))
    mean = np.mean([np.nan_to_num(one.accuracy) for one in found], axis=0)
    reached = (np.flatnonzero(mean >= target) for target in (FIRST_TARGET, SECOND_TARGET))
    rounds_to = (int(found[0].rounds[first[0]]) if first.size else -1 for first in reached)
    rounds = int(found[0].rounds[-1])
    return [(*_of(cell), method, how, eta, len(found), rounds, float(last.mean()), float(last.std()), *rounds_to)]


def _of(cell: Cell) -> tuple[str, int, int]:
    return cell.data, cell.classes, cell.steps


def _table(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}
