"""Message passing in one process: slow, obvious, the referee.

A server and m clients, every one with its own problem and nothing else, that share nothing but encoded messages. Every message
really becomes bytes and is decoded again at the other end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .. import precision
from ..envelope import DOWN, Envelope, must_be, seal, unseal
from .description import Run
from .history import Result
from .ledger import LINKS
from .nodes import Call, ClientNode, Parts, Seen, ServerNode
from .recorder import Recorder
from .simulate import Observer, Records, divergence


class Direct:
    """The transport that calls its clients directly; what it hands over are sealed frames, as on a network."""

    def __init__(self, clients: Sequence[ClientNode]) -> None:
        self.clients = clients

    def deliver(self, call: Call, messages: Mapping[int, tuple[int, bytes]]) -> dict[int, bytes]:
        return {i: self._ask(self.clients[i], call, steps, payload) for i, (steps, payload) in messages.items()}

    @staticmethod
    def _ask(client: ClientNode, call: Call, steps: int, payload: bytes) -> bytes:
        told = Envelope(DOWN, client.parts.run_name, client.number, 0, call.place, call.round, call.repeat, steps)
        came, reply = unseal(client.answer(seal(told, payload)))
        must_be(came, told.reply())
        return reply


def pass_messages(run: Run, *, observe: Observer | None = None) -> Result:
    """Play a run by message passing; see `undrift.loopback`."""
    run = run.to_play()
    with precision.scope(run.population.dtype):
        return _play(run, observe)


def nodes_for(run: Run) -> ServerNode:
    """A server whose clients are called directly."""
    parts = Parts(run.contract)
    clients = [ClientNode(i, run.problem.only(i), parts, not_finite=True) for i in range(run.population.clients)]
    return ServerNode(parts, Direct(clients), run.reference, run.problem.server_data, not_finite=True)


def _play(run: Run, observe: Observer | None) -> Result:
    began = time.perf_counter()
    server, recorder = nodes_for(run), Recorder(run)
    rule = None if run.stop is None else run.stop.start()
    x_good = np.array(run.x0)
    for t in range(run.rounds + 1):
        plan = server.play_round(t)
        due = t % run.record_every == 0 or t == run.rounds
        records, suspect = _record(server, run, due)
        x = np.asarray(server.x)
        fine = bool(np.all(np.isfinite(x))) and (not due or bool(np.isfinite(records.columns["loss"])))
        x_good = x if fine and due else x_good
        recorder.add(jax.tree.map(lambda v: np.asarray(v)[None], records), plan, t, 1, -1 if fine else t, suspect)
        if run.stop is not None:
            if t == 0:
                run.stop.check(records.columns)
            rule, met = run.stop.look(rule, records.columns)
            recorder.stopped = f"{run.stop} in round {t}" if met else None
        if observe is not None and observe(recorder.history()) and recorder.stopped is None:
            recorder.stopped = f"the observer asked for it after round {t}"
        if not fine and run.on_divergence == "stop":
            raise divergence(recorder.result(x_good, time.perf_counter() - began))
        if recorder.stopped is not None:
            break
    _compare_with_ledger(recorder, server)
    return recorder.result(np.asarray(server.x), time.perf_counter() - began)


def _record(server: ServerNode, run: Run, due: bool) -> tuple[Records, int]:
    evaluation = server.evaluate()
    columns, clients = evaluation.columns, evaluation.clients
    if not due:
        columns, clients = jax.tree.map(lambda v: np.full(np.shape(v), np.nan), (columns, clients))
    seen: Seen = server.seen
    columns = {**columns, "drift": seen.drift, "drift_worst": seen.drift_worst}
    if run.drift_of_each:
        own = [seen.drifts.get(i, np.nan) for i in range(run.population.clients)]
        clients = {**clients, "drift": np.asarray(own)}
    suspect: Any = seen.suspect if seen.suspect >= 0 else (evaluation.suspect if due else -1)
    return Records(columns, clients, np.asarray(server.x)), int(suspect)


def _compare_with_ledger(recorder: Recorder, server: ServerNode) -> None:
    """The bytes that really travelled are the bytes that the ledger counts."""
    counted = {link: int(recorder.columns[f"bytes_{link}"][recorder.length - 1]) for link in LINKS}
    travelled = {link: server.travelled[link] for link in LINKS}
    if counted != travelled:
        raise AssertionError(f"the ledger counts {counted}, but {travelled} travelled")
