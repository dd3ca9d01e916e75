"""The record of a run whose rounds a server plays by messages: in one process, or over a network."""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np

from ..errors import DivergenceError
from ..plan import Draw
from .description import Run
from .history import Result
from .ledger import LINKS
from .nodes import ServerNode
from .recorder import Recorder
from .rounds import Records
from .simulate import divergence


class Chronicle:
    """What is written down after every round, and whether it was the last."""

    def __init__(self, run: Run) -> None:
        self.run, self.recorder = run, Recorder(run)
        self.rule = None if run.stop is None else run.stop.start()
        self.x_good = np.array(run.x0)
        self.began = time.perf_counter()

    @property
    def over(self) -> bool:
        return self.recorder.length > self.run.rounds or self.recorder.stopped is not None

    def note(self, t: int, plan: Draw, server: ServerNode) -> None:
        """The record of round t; `DivergenceError` where the run ends with it."""
        run, due = self.run, t % self.run.record_every == 0 or t == self.run.rounds
        records, suspect, measured = self._record(server, due)
        x = records.iterates
        fine = bool(np.all(np.isfinite(x))) and (not measured or bool(np.isfinite(records.columns["loss"])))
        self.x_good = x if fine and due else self.x_good
        one = jax.tree.map(lambda v: np.asarray(v)[None], records)
        self.recorder.add(one, plan, t, 1, -1 if fine else t, suspect)
        if run.stop is not None:
            if t == 0:
                run.stop.check(records.columns)
            self.rule, met = run.stop.look(self.rule, records.columns)
            self.recorder.stopped = f"{run.stop} in round {t}" if met else None
        if not fine and run.on_divergence == "stop":
            raise divergence(self.result(self.x_good))

    def ends_diverged(self, t: int, client: int | None) -> DivergenceError:
        """The error of a run whose numbers overflow inside round t, which is not recorded."""
        kept = self.recorder.kept
        self.recorder.kept = kept._replace(diverged=(t, client))
        error = divergence(self.result(self.x_good))
        self.recorder.kept = kept
        return error

    def result(self, x: Any) -> Result:
        return self.recorder.result(np.asarray(x), time.perf_counter() - self.began)

    def compare_with_ledger(self, server: ServerNode) -> None:
        """The bytes that really travelled are the bytes that the ledger counts."""
        counted = {link: int(self.recorder.columns[f"bytes_{link}"][self.recorder.length - 1]) for link in LINKS}
        travelled = {link: server.travelled[link] for link in LINKS}
        if counted != travelled:
            raise AssertionError(f"the ledger counts {counted}, but {travelled} travelled")

    def _record(self, server: ServerNode, due: bool) -> tuple[Records, int, bool]:
        """(the record of a round, whom to suspect if it is not finite, whether all clients were measured)."""
        run, seen, measured, blame = self.run, server.seen, False, -1
        if due:
            evaluation = server.evaluate()
            columns, clients, measured = dict(evaluation.columns), dict(evaluation.clients), server.complete
            blame = int(evaluation.suspect) if measured else -1
        else:
            columns, clients = self._nothing()
        columns |= {"drift": seen.drift, "drift_worst": seen.drift_worst}
        if run.drift_of_each:
            clients["drift"] = np.asarray([seen.drifts.get(i, np.nan) for i in range(run.population.clients)])
        suspect = seen.suspect if seen.suspect >= 0 else blame
        return Records(columns, clients, np.asarray(server.x)), suspect, measured

    def _nothing(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is recorded of a round that is not evaluated: the columns that round 0 has."""
        recorder = self.recorder
        columns = {name: np.nan for name in recorder.columns if name not in recorder.counted}
        clients = {name: np.full(rows[:1].shape[1:], np.nan) for name, rows in recorder.clients.items()}
        return columns, clients
