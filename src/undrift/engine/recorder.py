"""Collects the records of chunks into a history, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..plan import Draw
from .history import History, Result
from .ledger import Counts, Ledger
from .setup import Setup


class Recorder:
    """Grows round by round; cut at the first round whose loss is not finite unless the run is to go on."""

    def __init__(self, setup: Setup, ledger: Ledger | None = None) -> None:
        self.setup = setup
        self.ledger = ledger or Ledger(
            setup.algorithm, setup.problem, setup.oracle, setup.plan.everyone_every_round, setup.resources
        )
        self.columns: dict[str, list[np.ndarray]] = {
            name: [] for name in (*_measured(setup), "drift", *self.ledger.columns)
        }
        self.iterates: list[np.ndarray] = []
        self.length = 0  # records so far: rounds played + 1
        self.diverged: tuple[int, int | None] | None = None

    def add(self, records: Any, plan: Draw, first: int, count: int, diverged: int, suspect: int) -> None:
        """The records of rounds first … first + count − 1."""
        if diverged >= 0 and self.diverged is None:
            self.diverged = (diverged, suspect if suspect >= 0 else None)
        for name, column in records.evaluation.columns.items():
            self.columns[name].append(np.asarray(column[:count], np.float64))
        self.columns["drift"].append(np.asarray(records.drift[:count], np.float64))
        for name, column in self.costs(plan, first, count).items():
            self.columns[name].append(column)
        if self.setup.keep_iterates:
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

    def result(self, x: np.ndarray, seconds: float) -> Result:
        length = self.length
        if self.diverged is not None and self.setup.on_divergence == "stop":
            length = min(length, self.diverged[0] + 1)  # the first bad round is kept: it shows what happened
        merged = {
            name: np.concatenate(parts)[:length] if parts else np.zeros(0) for name, parts in self.columns.items()
        }
        for name in self.ledger.columns:
            merged[name] = np.cumsum(merged[name])
        iterates = np.concatenate(self.iterates)[:length] if self.setup.keep_iterates else None
        return Result(x, History(merged), iterates, max(length - 1, 0), self.setup.describe(), seconds, self.diverged)


def _measured(setup: Setup) -> dict[str, Any]:
    return setup.problem.evaluation_shapes(setup.problem.reference()).columns
