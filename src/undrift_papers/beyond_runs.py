"""Variants against each other on an ensemble: every problem with every step of a grid, and what is read off the curves.

Thresholds of claims were fixed after runs on the problems 0 to 5 and 100 to 102 of each kind, with prototypes of the variants;
the problems that results are made from start at number 1000. Quick runs take the former.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import undrift as ud
from undrift.engine.history import totals

from .beyond_problems import CLIENTS, COHORT, KINDS, LONGEST, Case, case
from .data import Curves, Data, Table
from .item import Decision, Setting, Work, at_least, at_most, ours, reduced
from .measures import floor, rounds_to

POINTS = 200  # evaluations of a run
SHOWN = 25  # … of which a stored curve has these many, and the start
ROUNDING = 1e-24  # of the start: squared distances end between 1e-32 and 1e-28 of it where nothing but rounding is left
GOAL = {"quadratic": 1e-12, "logistic": 1e-12, "network": 1e-6}  # of the start: "to the goal" in tables
FIRST = 1000  # number of the first problem
COSTS = ("rounds", "bytes", "gradients")


class Variant(NamedTuple):
    """A method with its step left open, and who takes part."""

    make: Callable[[Case, float], Any]  # (problem, η̄) -> method
    everyone: bool = False
    steps: int | None = None  # local steps of all clients, in place of the problem's own
    oracle: Any = None


def common(rounds: Mapping[str, int], grid: Sequence[float], drawn: float) -> tuple[Setting, ...]:
    """Settings of all items that compare variants on the ensembles."""
    return (
        ours(
            "kinds", list(rounds), "least squares, logistic regression with l2, a network with one hidden layer of tanh"
        ),
        ours("problems", 50, "of each kind"),
        ours("first problem", FIRST, "thresholds were fixed on the problems 0 to 5 and 100 to 102, not among these"),
        ours("clients, cohort", [CLIENTS, COHORT], "uniform without replacement, drawn from the problem's number"),
        ours("longest", {kind: LONGEST[kind] for kind in rounds}, "τ_i uniform from 1 on, once for each client"),
        ours("weights", "equal in every second problem, else between about 1/30 and 1/4"),
        ours("grid", list(grid), "η̄L"),
        ours("drawn at", drawn, "η̄L of the curves"),
        ours("rounds", dict(rounds)),
        ours(
            "goal",
            {kind: GOAL[kind] for kind in rounds},
            "of the start; what rounds, bytes and gradients are counted to",
        ),
    )


def fewer(rounds: Mapping[str, int], grid: Sequence[float], problems: int = 2) -> tuple[Setting, ...]:
    """The same for a quick run."""
    return (
        reduced("kinds", list(rounds)),
        reduced("first problem", 0),
        reduced("problems", problems),
        reduced("rounds", dict(rounds)),
        reduced("grid", list(grid)),
    )


def cases(work: Work, kind: str) -> list[Case]:
    """The problems of a kind, as the setting says."""
    return [case(kind, work["first problem"] + number) for number in range(work["problems"])]


def contest(work: Work, variants: Mapping[str, Variant]) -> Data:
    """Tables "curves" (panel: kind, seed: the problem's number) and "ends" (a row for each problem, variant and step)."""
    curves, ends = Curves(), Ends()
    total = len(work["kinds"]) * len(variants) * work["problems"]
    done = 0
    for kind in work["kinds"]:
        for name, variant in variants.items():
            for one in cases(work, kind):
                rounds, values, costs = play(one, variant, work["grid"], work["rounds"][kind])
                ends.add(one, name, work["grid"], rounds, values, costs)
                shown = np.arange(0, len(rounds), max(1, (len(rounds) - 1) // SHOWN))
                curve = values[list(work["grid"]).index(work["drawn at"]), shown]
                curves.add(kind, name, short(curve), seed=one.number, round=rounds[shown], bytes=costs["bytes"][shown])
                done += 1
                work.progress(f"{kind}: {name}", done, total)
    numbers = range(work["first problem"], work["first problem"] + work["problems"])
    return Data({"curves": curves.table(), "ends": ends.table()}, numbers)


def play(
    one: Case, variant: Variant, grid: Sequence[float], rounds: int
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Rounds at which it was measured, what was measured (a row for each step of the grid), and what rounds cost."""
    every = max(1, rounds // POINTS)
    swept = ud.sweep(
        lambda eta: variant.make(one, eta),
        one.problem,
        grid={"eta": [step / one.L for step in grid]},
        seeds=[one.number],
        rounds=rounds,
        steps=one.steps if variant.steps is None else variant.steps,
        x0=one.x0,
        participation=None if variant.everyone else ud.plan.uniform(COHORT),
        oracle=variant.oracle,
        record_every=every,
    )
    at = np.arange(0, rounds + 1, every)
    spent = {axis: np.asarray(cost)[0, 0, at] for axis, cost in totals(swept.history).items()}
    values = one.measure(swept.history)[:, 0, at]
    return at, np.where(np.isfinite(values), values, np.inf), spent


class Ends:
    """Collects the table "ends"."""

    NAMES = ("kind", "problem", "variant", "step", "start", "middle", "end", "worst", *COSTS)

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []

    def add(
        self, one: Case, name: str, grid: Sequence[float], rounds: Any, values: Any, costs: Mapping[str, Any]
    ) -> None:
        last, quarter = max(1, len(rounds) // 20), max(1, len(rounds) // 4)
        for step, curve in zip(grid, values, strict=True):
            half = curve[: len(curve) // 2 + 1]
            reached = rounds_to(curve, GOAL[one.kind])
            where = int(reached) if np.isfinite(reached) else None
            spent = [float("inf") if where is None else float(cost[where]) for cost in (rounds, *_two(costs))]
            ends = (curve[0], floor(half, quarter), floor(curve, quarter), float(np.max(curve[-last:])))
            self._rows.append((one.kind, one.number, name, step, *map(short_number, ends), *spent))

    def table(self) -> Table:
        return {
            name: np.asarray(column) for name, column in zip(self.NAMES, zip(*self._rows, strict=True), strict=True)
        }


def _two(costs: Mapping[str, Any]) -> tuple[Any, Any]:
    return costs["bytes"], costs["gradients"]


def short_number(value: float) -> float:
    """Five digits, so that files stay small.

    >>> short_number(1 / 3)
    0.33333
    """
    return float(f"{value:.4e}")


def short(values: np.ndarray) -> np.ndarray:
    """Five digits of each."""
    return np.array([short_number(float(value)) for value in values])


# ---------------------------------------------------------------- what is read off the table
def rows(data: Data, **values: Any) -> Table:
    """The rows of "ends" with these values."""
    return data.where("ends", **values)


def to_rounding(table: Table) -> np.ndarray:
    """Whether a run ended where only rounding is left."""
    return np.asarray(table["worst"] <= ROUNDING * table["start"])


def contracts(table: Table) -> np.ndarray:
    """Whether a run had not stopped: it is at rounding, or its last quarter lies a factor of four or more below the second.

    A curve that falls linearly but slowly counts; one that has reached a floor, or grows, does not.
    """
    falls = (table["end"] <= table["middle"] / 4) & (table["end"] < table["start"])
    return np.asarray(to_rounding(table) | falls)


def share(flags: np.ndarray) -> float:
    """How many of them are true."""
    return float(np.mean(flags)) if len(flags) else float("nan")


def steps_of(data: Data) -> list[float]:
    """The grid, as far as it was run."""
    return sorted({float(step) for step in data["ends"]["step"]})


def kinds_of(data: Data) -> list[str]:
    """The kinds that were run, in order."""
    found = set(data["ends"]["kind"].tolist())
    return [kind for kind in KINDS if kind in found]


def reliable_steps(data: Data, kind: str, variant: str, least: float = 0.95) -> list[float]:
    """Steps of the grid at which so large a share of the problems contract."""
    return [
        step for step in steps_of(data) if share(contracts(rows(data, kind=kind, variant=variant, step=step))) >= least
    ]


def step_range(data: Data, kind: str, variant: str, least: float = 0.95) -> str:
    """The same in words: neighbours of the grid are drawn together, gaps are shown."""
    grid, found = steps_of(data), reliable_steps(data, kind, variant, least)
    runs: list[list[float]] = []
    for step in found:
        if runs and grid.index(step) == grid.index(runs[-1][-1]) + 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    return ", ".join(f"{run[0]:g} to {run[-1]:g}" if len(run) > 1 else f"{run[0]:g}" for run in runs) or "none"


def some_rows(data: Data, **values: Any) -> Table:
    """Rows of "ends" in which every column has one of these values."""
    table = data["ends"]
    keep = np.ones(len(table["kind"]), bool)
    for name, given in values.items():
        keep &= np.isin(table[name], given if isinstance(given, list) else [given])
    return {name: column[keep] for name, column in table.items()}


def median(values: np.ndarray) -> float:
    """The median; infinite where nobody came far enough to be counted."""
    return float(np.median(values)) if len(values) else float("inf")


def ratio(data: Data, column: str, one: str, other: str, **values: Any) -> np.ndarray:
    """one/other in this column, problem by problem and step by step; where neither is finite it is left out."""
    first, second = (some_rows(data, variant=name, **values)[column] for name in (one, other))
    known = np.isfinite(first) | np.isfinite(second)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: np.ndarray = np.asarray(first, float)[known] / np.asarray(second, float)[known]
    return found


def median_ratio_at_most(
    limit: float, column: str, one: str, other: str, what: str, **values: Any
) -> Callable[[Data], Decision]:
    """Holds if the median of one/other is at most this, in every kind that was run."""

    def decide(data: Data) -> Decision:
        kinds = values.get("kind", kinds_of(data))
        rest = {name: value for name, value in values.items() if name != "kind"}
        found = {kind: median(ratio(data, column, one, other, kind=kind, **rest)) for kind in kinds}
        said = ", ".join(f"{kind} {value:.3g}" for kind, value in found.items())
        return at_most(max(found.values()), limit, f"{what}: {said}")

    return decide


def best_of_grid(data: Data, column: str, variant: str, kind: str) -> np.ndarray:
    """The least rounds, bytes or gradients to the goal over all steps of the grid, for every problem in order."""
    table = rows(data, kind=kind, variant=variant)
    numbers = sorted({int(number) for number in table["problem"]})
    return np.array([np.min(table[column][table["problem"] == number]) for number in numbers], float)


def best_ratio(data: Data, column: str, one: str, other: str, kind: str) -> np.ndarray:
    """one/other, each with the best step of the grid, for every problem that either of them solves."""
    first, second = (best_of_grid(data, column, name, kind) for name in (one, other))
    known = np.isfinite(first) | np.isfinite(second)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: np.ndarray = first[known] / second[known]
    return found


def best_at_most(
    limit: float, column: str, pairs: Sequence[tuple[str, str]], because: str | None = None
) -> Callable[[Data], Decision]:
    """Holds if, with the best steps, the median of one/other is at most this for all pairs and kinds."""

    def decide(data: Data) -> Decision:
        found = {
            (one, kind): median(best_ratio(data, column, one, other, kind))
            for one, other in pairs
            for kind in kinds_of(data)
        }
        said = "; ".join(
            f"{one}: " + ", ".join(f"{kind} {found[one, kind]:.2f}" for kind in kinds_of(data)) for one, _ in pairs
        )
        text = f"{column} to the goal, each with its best step (median ratio). {said}"
        return at_most(max(found.values()), limit, text, because)

    return decide


def falls_to_rounding(
    variants: Sequence[str],
    steps: Sequence[float],
    kinds: Sequence[str] = ("quadratic", "logistic"),
    least: float = 0.98,
) -> Callable[[Data], Decision]:
    """Holds if so large a share of the problems ends at rounding, for each of the variants and steps."""

    def decide(data: Data) -> Decision:
        cells = {}
        for variant in variants:
            for step in steps:
                found = to_rounding(some_rows(data, variant=variant, step=step, kind=list(kinds)))
                cells[variant, step] = found
        worst = min(cells, key=lambda cell: share(cells[cell]))
        said = "; ".join(
            f"{variant}, η̄ = {step:g}/L: {int(found.sum())} of {len(found)}" for (variant, step), found in cells.items()
        )
        return at_least(share(cells[worst]), least, f"problems that end at rounding: {said}")

    return decide


def has_stopped(variants: Sequence[str], step: float, least: float = 0.9) -> Callable[[Data], Decision]:
    """Holds if so large a share of the runs has stopped falling, far above rounding."""

    def decide(data: Data) -> Decision:
        stopped = ~contracts(some_rows(data, variant=list(variants), step=step))
        ends = {
            kind: float(np.median(some_rows(data, variant=list(variants), step=step, kind=kind)["end"]))
            for kind in kinds_of(data)
        }
        said = ", ".join(f"{kind} {end:.1e}" for kind, end in ends.items())
        text = (
            f"{int(stopped.sum())} of {len(stopped)} runs at η̄ = {step:g}/L have stopped falling; median floors: {said}"
        )
        return at_least(share(stopped), least, text)

    return decide


def lower_by(factor: float, one: str, other: str, step: float, kind: str = "network") -> Callable[[Data], Decision]:
    """Holds if `one` ends lower than `other` by this factor in 95 % of the problems of a kind."""

    def decide(data: Data) -> Decision:
        lower = 1 / ratio(data, "end", one, other, kind=kind, step=step)
        fifth = float(np.percentile(lower, 5))
        text = f"at η̄ = {step:g}/L lower by the factor {np.median(lower):.1e} (median), {fifth:.1e} or more in 95 % of them"
        return at_least(fifth, factor, text)

    return decide
