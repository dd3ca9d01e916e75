"""Collects the records of chunks into a history, on the host."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..plan import Draw
from .description import Run
from .epsilon import COLUMN, Epsilon
from .history import Best, History, Result, in_order
from .identity import add_rounds, plan_digest
from .ledger import Counts, Ledger
from .table import Growing, OnDisk, Table, is_large


class Kept(NamedTuple):
    """What is certain of a run, replaced as a whole when a chunk is complete: nothing in between is ever saved or shown."""

    length: int  # rows of every table that belong to it: rounds played + 1
    diverged: tuple[int, int | None] | None
    carry: Any  # what the next round starts from, where somebody keeps it here
    drawn: Any  # a hash of the plan that was played, see `identity`


class Recorder:
    """Grows round by round; cut at the first round whose loss is not finite unless the run is to go on.

    Rows are written behind those that are kept, and count from the one assignment to `kept` on. Whatever strikes before leaves
    what was kept as it was.
    """

    def __init__(self, run: Run, ledger: Ledger | None = None, carry: Any = None) -> None:
        self.run = run
        if ledger is not None:
            self.ledger = ledger
        self.folder: Path | None = None  # where large tables go; None: into temporary files
        self.columns: dict[str, Growing] = {}  # costs as running totals
        self.clients: dict[str, Table] = {}  # with one column per client
        self.iterates: Table = Growing(run.rounds + 1)
        self.stopped: str | None = None  # why the run ended before its last round
        self.kept = Kept(0, None, carry, plan_digest(run.plan))

    @cached_property
    def ledger(self) -> Ledger:
        """Made when the first costs are counted: the trace of the first chunk has shown the messages by then."""
        return Ledger.of(self.run)

    @cached_property
    def epsilon(self) -> Epsilon | None:
        """What is promised of a private method."""
        return Epsilon.of(self.run)

    @property
    def counted(self) -> tuple[str, ...]:
        """The columns that are counted here, not measured."""
        return self.ledger.columns if self.epsilon is None else (*self.ledger.columns, COLUMN)

    @property
    def length(self) -> int:
        return self.kept.length

    @property
    def diverged(self) -> tuple[int, int | None] | None:
        """The first round whose loss was seen not to be finite, and the client to blame."""
        return self.kept.diverged

    def add(
        self, records: Any, plan: Draw, first: int, count: int, diverged: int, suspect: int, carry: Any = None
    ) -> None:
        """The records of rounds first … first + count − 1, and what the next round starts from."""
        for name, column in records.columns.items():
            self._write(name, first, np.asarray(column[:count], np.float64))
        for name, rows in records.clients.items():
            rows = np.asarray(rows[:count], np.float64)
            if name not in self.clients:
                self.clients[name] = self.table(rows.shape[1:], rows.dtype)
            self.clients[name].write(first, rows)
        self.spend(plan, first, count)
        if self.run.keep_iterates:
            iterates = np.asarray(records.iterates[:count])
            if first == 0:
                self.iterates = self.table(iterates.shape[1:], iterates.dtype)
            self.iterates.write(first, iterates)
        found = (diverged, suspect if suspect >= 0 else None) if diverged >= 0 else None
        drawn = add_rounds(self.kept.drawn.copy(), self.run.plan, plan.rows(0 if first else 1, count))
        self.kept = Kept(first + count, self.diverged or found, carry, drawn)

    def restore(self, kept: Kept, columns: Any, clients: dict[str, Table], iterates: Table | None) -> None:
        """What was kept in another process, in place of all that is here."""
        self.columns = {name: Growing(self.run.rounds + 1, rows) for name, rows in columns.items()}
        self.clients = clients
        self.iterates = Growing(self.run.rounds + 1) if iterates is None else iterates
        self.kept = kept

    def table(self, shape: tuple[int, ...], dtype: Any, rows: np.ndarray | None = None) -> Table:
        """A table for all rounds of the run, with these rows: in a file, if it is going to be large."""
        if not is_large(self.run.rounds + 1, shape, dtype):
            return Growing(self.run.rounds + 1, rows)
        table = OnDisk(self.folder, shape, dtype)
        if rows is not None:
            table.write(0, rows)
        return table

    @property
    def large(self) -> dict[str, OnDisk]:
        """The tables that are in files, by the names that a checkpoint knows them by."""
        tables = {f"clients_{name}": table for name, table in self.clients.items()} | {"iterates": self.iterates}
        return {name: table for name, table in tables.items() if isinstance(table, OnDisk)}

    def spend(self, plan: Draw, first: int, count: int) -> None:
        """The costs of these rounds alone, and what is promised after them."""
        for name, column in self.costs(plan, first, count).items():
            self._write(name, first, self._running(name, first, column))
        if self.epsilon is not None:
            self._write(COLUMN, first, self.epsilon.rows(first, count))

    def costs(self, plan: Draw, first: int, count: int) -> Counts:
        if first > 0:
            return self.ledger.rounds(plan.rows(0, count), first)
        opening = self.ledger.start()
        if count == 1:
            return opening
        rest = self.ledger.rounds(plan.rows(1, count), 1)
        return {name: np.concatenate([opening[name], rest[name]]) for name in opening}

    def history(self) -> History:
        """All columns so far, and what was recorded of the clients last; they cannot be written to."""
        shown, last = self._history(writeable=False), self._shown() - 1
        return History(shown, {name: np.array(rows[last]) for name, rows in self.clients.items()})

    def result(self, x: np.ndarray, seconds: float) -> Result:
        length = self._shown()
        return Result(
            x,
            self._history(writeable=True),
            self.iterates[:length] if self.run.keep_iterates else None,
            max(length - 1, 0),
            self.run.words(),
            seconds,
            self.diverged,
            self.stopped,
            {name: rows[:length] for name, rows in sorted(self.clients.items())},
            self._best(),
        )

    def _best(self) -> Best | None:
        """The best round of the column that the run's rule watches."""
        watched = None if self.run.stop is None else self.run.stop.watched
        if watched is None or watched.column not in self.columns or not self._shown():
            return None
        found = watched.best({watched.column: self.columns[watched.column][: self._shown()]})
        return None if found is None else Best(found[0], watched.column, found[1], found[0] == self._shown() - 1)

    def _history(self, writeable: bool) -> History:
        shown = {name: self.columns[name][: self._shown()] for name in in_order(self.columns)}
        for column in shown.values():
            column.flags.writeable = writeable
        return History(shown)

    def _shown(self) -> int:
        if self.diverged is None or self.run.on_divergence != "stop":
            return self.length
        return min(self.length, self.diverged[0] + 1)  # the first bad round is kept: it shows what happened

    def _write(self, name: str, at: int, rows: np.ndarray) -> None:
        self.columns.setdefault(name, Growing(self.run.rounds + 1)).write(at, rows)

    def _running(self, name: str, first: int, spent: np.ndarray) -> np.ndarray:
        total = spent.copy()
        if first:
            total[:1] += self.columns[name][first - 1]
        total.cumsum(out=total)
        if (total < 0).any():  # what one round costs is far below 2⁶³, so this is where it wrapped around
            raise InputError(
                f"{name} passes 2**63 − 1, the most that is counted, between rounds {first} and {first + len(spent) - 1}: "
                "take fewer local steps or rounds"
            )
        return total
