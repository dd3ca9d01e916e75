"""What all trackers have in common: which rounds they have been handed, what they remember, and that they do no harm."""

from __future__ import annotations

import abc
import hashlib
import importlib.util
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from ..engine.description import Run
from ..engine.history import Result
from ..errors import InputError
from ..files import write_bytes

MEMORY = "tracked-*.json"  # in the directory of a checkpoint
LARGEST = 100_000  # bytes of such a file
Row = tuple[int, dict[str, float]]  # a round and what was recorded of it


class Beginning(NamedTuple):
    """What a tracker is told before the first round."""

    name: str  # of the run
    setting: Mapping[str, Any]  # plain values: the method's numbers, and the rest in words
    folder: Path | None = None  # where a checkpoint is kept, and what the tracker remembers with it
    resume: bool = False

    @classmethod
    def of(cls, run: Run, name: str | None = None, folder: Path | None = None, resume: bool = False) -> Beginning:
        numbers = {key: float(value) for key, value in run.method.numbers.items()}
        return cls(name or run.method.name, {**numbers, **run.words()}, folder, resume)


class Memory(msgspec.Struct, forbid_unknown_fields=True):
    """What a run that is resumed must know of its tracker."""

    word: Annotated[str, msgspec.Meta(max_length=2000)]  # by which a command makes it again
    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{8,64}$")]
    next: Annotated[int, msgspec.Meta(ge=0, le=2**31)]  # the first round that it has not been handed


class Tracker(abc.ABC):
    """An observer that hands rounds on: `ud.run(…, observe=ud.track.tensorboard("tb"))`. Derive from it for your own.

    `open` is called before the first rounds (and answers which round is the first that is missing over there), `log` with
    rounds that are new, `close` at the end. What they raise is said once, and ends the tracking, not the run.
    """

    kind = "tracker"
    word = ""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.say: Callable[[str], Any] = _warn
        self.refusal: str | None = None  # why it is no longer asked
        self.id = ""
        self._next, self._opened = 0, False
        self._beginning: Beginning | None = None

    # ----- what a kind of tracker does
    @abc.abstractmethod
    def open(self, name: str, setting: Mapping[str, Any], first: int) -> int | None:
        """Begin, or go on at round `first` with what this `id` knows already; None: that round is the first one missing."""

    @abc.abstractmethod
    def log(self, rows: list[Row]) -> None:
        """Keep these rounds; when it returns, they are kept."""

    @abc.abstractmethod
    def close(self, status: str, final: Mapping[str, float]) -> None:
        """The end: finished, diverged, interrupted or failed, and the last round."""

    # ----- as an observer
    def attend(self, beginning: Beginning) -> None:
        """A run is about to begin; nothing is done before its first rounds are there."""
        self._beginning, self._opened, self._next, self.refusal = beginning, False, 0, None

    def __call__(self, history: Mapping[str, np.ndarray]) -> None:
        self._safely(lambda: self._hand_over(history))

    def end(self, result: Result | None, status: str) -> None:
        """The run has ended; nothing is done where it never began."""
        if not self._opened:
            return
        if result is not None:
            self(result.history)
        last = {} if result is None else dict(_rows(result.history, len(result.history["loss"]) - 1)).popitem()[1]
        self._safely(lambda: self.close(status, last))

    def _hand_over(self, history: Mapping[str, np.ndarray]) -> None:
        if not self._opened:
            self._begin()
        rows = [row for row in _rows(history, self._next) if row[1]]
        if rows:
            self.log(rows)
        self._next = max(self._next, len(history["loss"]))
        self._remember()

    def _begin(self) -> None:
        beginning = self._beginning or Beginning(self.kind, {})
        memory = self._recalled(beginning)
        self.id, self._next = (uuid.uuid4().hex[:16], 0) if memory is None else (memory.id, memory.next)
        self._opened = True
        first = self.open(self.name or beginning.name, beginning.setting, self._next)
        self._next = self._next if first is None else first
        self._remember()

    # ----- what is remembered beside the checkpoint
    def _place(self, folder: Path) -> Path:
        return folder / f"tracked-{self.kind}-{hashlib.sha256(self.word.encode()).hexdigest()[:8]}.json"

    def _recalled(self, beginning: Beginning) -> Memory | None:
        if beginning.folder is None or not beginning.resume:
            return None
        return recall(self._place(beginning.folder))

    def _remember(self) -> None:
        folder = self._beginning.folder if self._beginning else None
        if folder is not None:
            write_bytes(self._place(folder), msgspec.json.encode(Memory(self.word, self.id, self._next)))

    def _safely(self, act: Callable[[], None]) -> None:
        if self.refusal is not None:
            return
        try:
            act()
        except Exception as error:  # whatever it is: the run is worth more than its shadow
            self.refusal = f"{type(error).__name__}: {error}"
            self.say(f"{self.kind} does not track this run any more ({self.refusal[:300]}); the run goes on")


def recall(path: Path) -> Memory | None:
    """What is remembered there; None where it is nothing, or nothing that a tracker has written."""
    try:
        if path.stat().st_size > LARGEST:
            return None
        return msgspec.json.decode(path.read_bytes(), type=Memory)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None


def needs(kind: str, package: str) -> None:
    """Refuse a tracker whose package is not there."""
    if importlib.util.find_spec(package) is None:
        raise InputError(f"{kind} needs the package {package}, which is not installed: pip install 'undrift[{kind}]'")


def plain(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Values that every tracker takes: numbers, truth values, text."""
    return {key: value if isinstance(value, bool | int | float | str) else str(value) for key, value in setting.items()}


def _rows(history: Mapping[str, np.ndarray], first: int) -> Iterator[Row]:
    """Rounds from `first` on; what was not evaluated is left out."""
    for t in range(first, len(history["loss"])):
        values = {name: float(column[t]) for name, column in history.items()}
        yield t, {name: value for name, value in values.items() if np.isfinite(value)}


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)
