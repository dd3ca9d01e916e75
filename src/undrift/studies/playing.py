"""All methods of a comparison, one after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .comparison import Outcome, play_one
from .entries import Entry
from .refining import refined


def play(
    entries: Sequence[Entry],
    seeds: list[int],
    observe: Callable[[int, int], Any],
    finished: Callable[[int], Outcome | None] = lambda number: None,
    done: Callable[[int, Outcome], None] = lambda number, outcome: None,
    refine: int = 0,
) -> list[Outcome]:
    """The outcome of every method; `finished` may know one already, `done` is told each new one.

    observe: called with (number of the method, rounds it has played). refine: how many points a grid may grow by.
    """
    outcomes = []
    for number, entry in enumerate(entries):
        tell = functools.partial(_tell, observe, number)
        outcome = finished(number)
        if outcome is None:
            observe(number, 0)
            outcome = play_one(entry, seeds, tell)
            done(number, outcome)
        outcomes.append(refined(entry, outcome, refine, tell, functools.partial(done, number)))
    return outcomes


def _tell(observe: Callable[[int, int], Any], number: int, played: int, rounds: int) -> None:
    observe(number, played)
