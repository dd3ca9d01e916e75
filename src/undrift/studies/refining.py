"""Grids that grow by themselves: wider while the best value lies at an edge, then once finer around it.

What comes next follows from the points that have been played and from nothing else, so a search that was interrupted goes on
as if it had not been.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ..engine.grids import LOWER, UPPER, is_number, values_of
from ..engine.sweep import SweepObserver
from ..errors import InputError
from .comparison import Outcome, play_points, run_at
from .entries import Entry

WIDER, FINER = "wider", "finer"
RATIO = 4.0  # of neighbours where a grid has a single value, or zero: as in the grids that undrift lays itself
CLOSEST = 1.02  # neighbours with a smaller ratio have nothing between them
DIGITS = 4  # of a value that is added: it can be typed again


def refined(
    entry: Entry,
    outcome: Outcome,
    most: int,
    observe: SweepObserver | None = None,
    done: Callable[[Outcome], None] = lambda outcome: None,
) -> Outcome:
    """The outcome after at most `most` points were added to its grid; `done` is told each state of it."""
    while more := proposal(entry, outcome, most):
        origin, points = more
        runs = [run_at(entry, point) for point in points]
        outcome = outcome.with_points(play_points(entry, points, runs, outcome.seeds, origin, observe))
        done(outcome)
    return outcome


def proposal(entry: Entry, outcome: Outcome, most: int) -> tuple[str, list[dict[str, Any]]] | None:
    """The points to play next and why; None where the search is at its end."""
    room = most - outcome.added
    if room <= 0 or FINER in outcome.origins:
        return None
    for origin, found in ((WIDER, _beyond(outcome)), (FINER, _between(outcome))):
        fresh = [point for point in found if point not in outcome.points and _possible(entry, point)]
        if fresh:
            return origin, fresh[:room]
    return None


def _beyond(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """The next value past the first edge that the best one lies at; on both sides of a single value."""
    for name, sides in _open_sides(outcome).items():
        values, here = values_of(outcome.points, name), _standing(outcome)
        for side in sides:
            last, before = (values[0], values[1:2]) if side == LOWER else (values[-1], values[-2:-1])
            factor = _ratio(last, before[0]) if before else RATIO
            yield {**here, name: _rounded(last / factor if side == LOWER else last * factor)}
        return


def _open_sides(outcome: Outcome) -> dict[str, list[str]]:
    """Where to look further. Where everything diverged, below the smallest value of the first number."""
    if outcome.best is None:
        return {name: [LOWER] for name in outcome.numbers[:1] if values_of(outcome.points, name)}
    single = {name: [LOWER, UPPER] for name in outcome.numbers if len(values_of(outcome.points, name)) == 1}
    return {**{name: [side] for name, side in outcome.edges.items()}, **single}


def _between(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """Half-way (of exponents) from the best value to its neighbours."""
    here = _standing(outcome)
    for name in outcome.numbers if outcome.best is not None else ():
        value, values = here[name], values_of(outcome.points, name)
        if not is_number(value) or value <= 0:
            continue
        below, above = [v for v in values if 0 < v < value][-1:], [v for v in values if v > value][:1]
        for neighbour in (*below, *above):
            if _ratio(value, neighbour) > CLOSEST:
                yield {**here, name: _rounded(math.sqrt(value * neighbour))}


def _standing(outcome: Outcome) -> dict[str, Any]:
    """The point from which to look."""
    return outcome.points[outcome.chosen]


def _ratio(one: float, other: float) -> float:
    low, high = sorted((one, other))
    return high / low if low > 0 else RATIO


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _possible(entry: Entry, point: dict[str, Any]) -> bool:
    """Whether the method takes these values: a probability above one, or a step of zero, it does not."""
    numbers = [value for value in point.values() if is_number(value)]
    if not all(math.isfinite(value) for value in numbers):
        return False
    try:
        entry.method.make(**point)
    except InputError:
        return False
    return True


def remarks(outcome: Outcome, most: int) -> list[str]:
    """What a reader of the table should know of the grid of a method, with what to do about it."""
    said = []
    if outcome.added:
        kinds = [f"{outcome.origins.count(kind)} {kind}" for kind in (WIDER, FINER) if kind in outcome.origins]
        said.append(f"the grid grew by {outcome.added} of at most {most} values ({', '.join(kinds)})")
    for name, side in outcome.edges.items():
        value, past = outcome.points[outcome.chosen][name], "above" if side == UPPER else "below"
        still = "still " if outcome.added else ""
        extreme = "largest" if side == UPPER else "smallest"
        look = f"--refine {2 * most} looks further" if most else "--refine looks there"
        said.append(
            f"the best {name}, {value:g}, is {still}the {extreme} that was tried: a better one may lie {past}; {look}, or give "
            f"{'larger' if side == UPPER else 'smaller'} values"
        )
    lost = sum(bool((row >= 0).any()) and not bool((row >= 0).all()) for row in outcome.diverged)
    if lost:
        said.append(f"{lost} of {len(outcome.points)} values diverged with some seeds only: they were not chosen")
    return said
