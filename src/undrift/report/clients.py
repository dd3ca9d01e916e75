"""Who is served how well by a model: every client's loss and accuracy, the worst of them and how far they lie apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.table import Table

from ..engine.description import Run
from ..engine.history import Result
from ..plan import GeometricSteps, RandomSteps
from ..problems.base import Problem
from .measures import ACCURACY, LOSS, PER_SAMPLE, value_text
from .plain import LEAST_NAME, plain_table

LISTED = 100  # clients up to which all are listed in a summary
SHOWN = 10  # on the terminal; of more, some stand for all
WORST = 5
COSTLIEST = 5e9  # samples × numbers of a model that are looked at once more at the end of a run
HEADS = {LOSS: "loss", PER_SAMPLE: "loss/sample", ACCURACY: "right"}


class Roll(NamedTuple):
    """What is known of the clients besides the model: one entry each, None where there is nothing to say."""

    clients: int  # m
    names: Sequence[str] | None = None
    samples: np.ndarray | None = None
    steps: np.ndarray | None = None  # τ_i, where it is the same in every round
    adds_samples: bool = False  # whether a loss is a sum over samples

    @classmethod
    def of(cls, run: Run, names: Sequence[str] | None = None) -> Roll:
        """Of the clients of this run; of a centralised one, of those whose data it pools."""
        problem = _unpooled(run.data)
        population = run.population if problem is None else problem.population
        samples = None if np.all(population.sizes == 1) else population.sizes
        names = names if names is not None or problem is None else problem.client_names
        steps = None if run.recipe.centralised else settled_steps(run)
        return cls(population.clients, names, samples, steps, population.adds_samples)

    def name(self, client: int) -> str:
        return str(client) if self.names is None else self.names[client]


def settled_steps(run: Run) -> np.ndarray | None:
    """τ_i of all clients, where no round draws or computes them anew."""
    drawn = callable(run.steps) or isinstance(run.steps, RandomSteps | GeometricSteps)
    return None if drawn else run.plan.typical_steps


def _unpooled(problem: Problem | None) -> Problem | None:
    return getattr(problem, "source", problem)


@dataclasses.dataclass(frozen=True)
class Clients:
    """Every client's measures of one model, in the order of their numbers; NaN where a client did not answer.

    >>> roll = Roll(3, ("a", "b", "c"), np.array([10, 30, 20]), adds_samples=True)
    >>> served = Clients.of(roll, {"loss": np.array([5.0, 6.0, 2.0]), "accuracy": np.array([0.7, 0.9, 1.0])}, round=8)
    >>> served.name(served.worst), served.measure, served.values["loss_per_sample"].tolist()
    ('a', 'accuracy', [0.5, 0.2, 0.1])
    >>> print(served.sentence())
    worst client: a, 70.0 % right, 20.0 points below the median; best: c, 100.0 %; spread (standard deviation) 12.5 points
    """

    roll: Roll
    values: Mapping[str, np.ndarray]
    round: int

    @classmethod
    def of(cls, roll: Roll, found: Mapping[str, Any], round: int) -> Clients:
        """From what is recorded of every client."""
        values = {name: np.asarray(found[name], np.float64) for name in (LOSS, ACCURACY) if name in found}
        if roll.adds_samples and roll.samples is not None and LOSS in values:
            values[PER_SAMPLE] = values[LOSS] / roll.samples
        return cls(roll, values, round)

    @cached_property
    def measure(self) -> str:
        """By what clients are compared: being right; else the loss, of a sample where losses are sums over them."""
        return next(name for name in (ACCURACY, PER_SAMPLE, LOSS) if name in self.values)

    @cached_property
    def order(self) -> np.ndarray:
        """Numbers of the clients that answered, worst first; equal ones by their loss, then by their number."""
        sign = -1 if self.measure != ACCURACY else 1
        loss = self.values.get(PER_SAMPLE, self.values.get(LOSS, self.values[self.measure]))
        ranked = np.lexsort((-loss, sign * self.values[self.measure]))
        return ranked[np.isfinite(self.values[self.measure][ranked])]

    @property
    def worst(self) -> int:
        return int(self.order[0])

    @property
    def best(self) -> int:
        return int(self.order[-1])

    @property
    def median(self) -> int:
        """The client in the middle; of two, the worse one."""
        return int(self.order[(len(self.order) - 1) // 2])

    def name(self, client: int) -> str:
        return self.roll.name(client)

    @property
    def spread(self) -> float:
        return _spread(self.values[self.measure])

    def sentence(self) -> str:
        """Who is worst, by how much, and how far clients lie apart."""
        values = self.values[self.measure]
        with np.errstate(over="ignore"):
            off = abs(float(values[self.worst]) - float(np.median(values[self.order])))
        unit = {ACCURACY: "", PER_SAMPLE: "loss per sample ", LOSS: "loss "}[self.measure]
        if self.measure == ACCURACY:
            worst, best, far, spread = (
                f"{100 * one:.1f}" for one in (values[self.worst], values[self.best], off, self.spread)
            )
            return (
                f"worst client: {self.name(self.worst)}, {worst} % right, {far} points below the median; best: "
                f"{self.name(self.best)}, {best} %; spread (standard deviation) {spread} points"
            )
        return (
            f"worst client: {self.name(self.worst)}, {unit}{values[self.worst]:.3g}, {off:.2g} above the median; best: "
            f"{self.name(self.best)}, {values[self.best]:.3g}; spread (standard deviation) {self.spread:.2g}"
        )

    def entry(self, client: int) -> dict[str, Any]:
        """A client for machines."""
        known = {
            name: array
            for name, array in (("samples", self.roll.samples), ("steps", self.roll.steps))
            if array is not None
        }
        return {
            "client": client,
            "name": self.name(client),
            **{name: int(array[client]) for name, array in known.items()},
            **{name: _plain(array[client]) for name, array in self.values.items()},
        }

    def words(self) -> dict[str, Any]:
        """For machines: of many clients the worst five, the median and the best."""
        few = self.roll.clients <= LISTED
        listed = (
            range(self.roll.clients)
            if few
            else list(dict.fromkeys([*map(int, self.order[:WORST]), self.median, self.best]))
        )
        return {
            "count": self.roll.clients,
            "round": self.round,
            "compared_by": self.measure,
            "worst": self.entry(self.worst),
            "median": self.entry(self.median),
            "best": self.entry(self.best),
            "spread": {name: _plain(_spread(array)) for name, array in self.values.items()},
            "all_listed": few,
            "listed": [self.entry(client) for client in listed],
        }

    def table(self) -> Table:
        """For the terminal, worst first."""
        many = len(self.order) > SHOWN
        rows = [*map(int, self.order[:WORST]), self.median, self.best] if many else list(map(int, self.order))
        marks = {self.best: "best", self.worst: "worst"} | ({self.median: "median"} if many else {})
        table = plain_table(
            f"Clients after round {self.round}"
            + (f": {WORST} worst of {self.roll.clients}, median, best" if many else "")
        )
        table.add_column("client", min_width=LEAST_NAME, overflow="fold")
        heads = [head for head, array in (("samples", self.roll.samples), ("τ", self.roll.steps)) if array is not None]
        for head in (*heads, *(HEADS[name] for name in self._shown), ""):
            table.add_column(head, justify="right", no_wrap=True)
        for client in dict.fromkeys(rows):
            known = [f"{int(array[client]):,}" for array in (self.roll.samples, self.roll.steps) if array is not None]
            cells = [value_text(name, self.values[name][client]) for name in self._shown]
            table.add_row(self.name(client), *known, *cells, marks.get(client, "") if len(self.order) > 1 else "")
        return table

    @property
    def _shown(self) -> list[str]:
        """The measures for people: of sums over samples the means."""
        return [
            name
            for name in (LOSS, PER_SAMPLE, ACCURACY)
            if name in self.values and not (name == LOSS and PER_SAMPLE in self.values)
        ]


def clients_of(run: Run, result: Result, roll: Roll, look: bool = True) -> Clients | None:
    """How well the clients are served by the last model that was measured; None where nobody knows.

    `look`: where the run did not record them, ask all clients once about its last model, unless that would take long.
    """
    if (recorded := last_recorded(result)) is not None:
        return recorded_clients(roll, *recorded)
    problem = _unpooled(run.data)
    if not look or problem is None or jax.process_count() > 1 or not np.all(np.isfinite(result.x)):
        return None
    if float(np.sum(problem.sizes)) * problem.dim > COSTLIEST:
        return None
    return recorded_clients(roll, problem.evaluator(None, True)(result.x).clients, _round(result))


def _round(result: Result) -> int:
    """The round whose model was kept."""
    return result.best.round if result.best is not None and result.best.kept else result.rounds


def recorded_clients(roll: Roll, found: Mapping[str, Any], round: int) -> Clients | None:
    served = Clients.of(roll, found, round)
    return served if served.values and len(served.order) else None


def last_recorded(result: Result) -> tuple[dict[str, np.ndarray], int] | None:
    """The last round in which somebody was measured, of a run that recorded every client."""
    if LOSS not in result.clients:
        return None
    rounds = np.flatnonzero(np.isfinite(result.clients[LOSS]).any(axis=1))
    if not rounds.size:
        return None
    kept = None if result.best is None or not result.best.kept else result.best.round
    last = int(rounds[-1]) if kept is None or kept not in rounds else kept  # the round whose model was kept
    return {name: rows[last] for name, rows in result.clients.items()}, last


def _spread(values: np.ndarray) -> float:
    """Standard deviation over those who answered; infinite where losses have run away."""
    known = values[np.isfinite(values)]
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.std(known)) if known.size else float("nan")


def _plain(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
