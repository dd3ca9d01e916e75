"""Collects the records of chunks into a history, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..plan import Draw
from .description import Run
from .history import History, Result, in_order
from .ledger import Counts, Ledger


class Recorder:
    """Grows round by round; cut at the first round whose loss is not finite unless the run is to go on."""

    def __init__(self, run: Run, ledger: Ledger | None = None) -> None:
        self.run, self.ledger = run, ledger or Ledger.of(run)
        self.columns: dict[str, list[np.ndarray]] = {}
        self.clients: dict[str, list[np.ndarray]] = {}  # with one column per client
        self.iterates: list[np.ndarray] = []
        self.length = 0  # records so far: rounds played + 1
        self.diverged: tuple[int, int | None] | None = None
        self.stopped: str | None = None  # why the run ended before its last round

    def add(self, records: Any, plan: Draw, first: int, count: int, diverged: int, suspect: int) -> None:
        """The records of rounds first … first + count − 1."""
        if diverged >= 0 and self.diverged is None:
            self.diverged = (diverged, suspect if suspect >= 0 else None)
        for name, column in records.columns.items():
            self.columns.setdefault(name, []).append(np.asarray(column[:count], np.float64))
        for name, rows in records.clients.items():
            self.clients.setdefault(name, []).append(np.asarray(rows[:count], np.float64))
        for name, column in self.costs(plan, first, count).items():
            self.columns.setdefault(name, []).append(column)
        if self.run.keep_iterates:
            self.iterates.append(np.asarray(records.iterates[:count]))
        self.length += count

    def costs(self, plan: Draw, first: int, count: int) -> Counts:
        if first > 0:
            return self.ledger.rounds(plan.rows(0, count), first)
        opening = self.ledger.start()
        if count == 1:
            return opening
        rest = self.ledger.rounds(plan.rows(1, count), 1)
        return {name: np.concatenate([opening[name], rest[name]]) for name in opening}

    def history(self) -> History:
        """All columns so far."""
        length = self._kept()
        merged = {name: joined(parts)[:length] for name, parts in self.columns.items()}
        for name in self.ledger.columns:
            merged[name] = np.cumsum(merged[name])
        return History({name: merged[name] for name in in_order(merged)})

    def result(self, x: np.ndarray, seconds: float) -> Result:
        length = self._kept()
        return Result(
            x,
            self.history(),
            joined(self.iterates)[:length] if self.run.keep_iterates else None,
            max(length - 1, 0),
            self.run.words(),
            seconds,
            self.diverged,
            self.stopped,
            {name: joined(parts)[:length] for name, parts in self.clients.items()},
        )

    def _kept(self) -> int:
        if self.diverged is None or self.run.on_divergence != "stop":
            return self.length
        return min(self.length, self.diverged[0] + 1)  # the first bad round is kept: it shows what happened


def joined(parts: list[np.ndarray]) -> np.ndarray:
    """The parts as one array, which takes their place."""
    if len(parts) > 1:
        parts[:] = [np.concatenate(parts)]
    return parts[0] if parts else np.zeros(0)
