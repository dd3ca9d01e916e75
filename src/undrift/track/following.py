"""A run with its observers: those that track it are told how it begins and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..engine.description import Run
from ..engine.history import History, Result
from ..engine.simulate import Observer
from ..errors import DivergenceError, InputError, Interrupted, StorageError
from .tracker import MEMORY, Beginning, Tracker, recall

Observers = Observer | Sequence[Observer] | None
STATUS = {DivergenceError: "diverged", Interrupted: "interrupted", StorageError: "interrupted"}


def follow(
    observe: Observers,
    run: Run,
    play: Callable[[Observer | None], Result],
    folder: str | Path | None = None,
    resume: bool = False,
    name: str | None = None,
) -> Result:
    """What `play` returns, which is given one observer for all; `folder`: where the run keeps its checkpoint."""
    observers = as_list(observe)
    trackers = [one for one in observers if isinstance(one, Tracker)]
    if not trackers:
        return play(together(observers))
    beginning = Beginning.of(run, name, None if folder is None else Path(folder), resume)
    for tracker in trackers:
        tracker.attend(beginning)
    try:
        result = play(together(observers))
    except BaseException as error:
        for tracker in trackers:
            tracker.end(getattr(error, "result", None), STATUS.get(type(error), "failed"))
        raise
    for tracker in trackers:
        tracker.end(result, "finished")
    return result


def as_list(observe: Any) -> list[Observer]:
    """One observer, several or none, as a list."""
    observers = list(observe) if isinstance(observe, list | tuple) else [] if observe is None else [observe]
    for one in observers:
        if not callable(one):
            raise InputError(f"observe is a function of the history so far, or a list of such functions, got {one!r}")
    return observers


def together(observers: Sequence[Observer]) -> Observer | None:
    """One observer that asks all, and stops the run where one of them wants it."""
    if len(observers) < 2:
        return observers[0] if observers else None

    def all_of_them(history: History) -> bool:
        answers = [bool(one(history)) for one in observers]  # each is asked, whatever another says
        return any(answers)

    return all_of_them


def remembered(folder: Path) -> list[str]:
    """The words of the trackers of a run that is to be resumed."""
    found = [recall(path) for path in sorted(folder.glob(MEMORY))]
    return [memory.word for memory in found if memory is not None]
