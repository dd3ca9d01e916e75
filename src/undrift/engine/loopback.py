"""Message passing in one process: slow, obvious, the referee.

A server and m clients that share nothing but encoded messages. Every message really becomes bytes and is decoded again at the
other end. The seam is the *transport*: given an exchange's name and one encoded message per client, it returns one encoded
reply per client that answered; a deployment replaces it and nothing else.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision, wire
from ..local import Local
from ..oracles import Oracle
from ..plan import Draw
from ..problems.base import Problem
from ..problems.evaluation import Evaluation
from ..protocol import Algorithm, Cohort, Exchange, Memory, OneByOne, Program, Repeat, exchanges
from .history import Result
from .interpret import LOCAL, Info, exchange_key
from .ledger import LINKS, Shapes, message_shapes
from .recorder import Recorder
from .setup import Setup, prepare
from .simulate import Records, divergence


class Call(NamedTuple):
    """What accompanies a message: where in the run it belongs."""

    exchange: str
    round: int
    repeat: int
    first: bool  # the opening round has programs of its own


class Transport(Protocol):
    """Brings messages to clients and their replies back."""

    def deliver(self, call: Call, messages: Mapping[int, tuple[int, bytes]]) -> dict[int, bytes]:
        """messages: client -> (its τ_i, payload). Returns client -> reply, for those that answered."""


class ClientNode:
    """A client: its data, its memory, and nothing of anyone else."""

    def __init__(self, number: int, row: Any, setup: Setup, compiled: Compiled) -> None:
        self.number, self.row, self.setup, self.compiled = number, row, setup, compiled
        algorithm, x0 = setup.algorithm, jnp.asarray(setup.x0)
        remember = algorithm.remember
        self.memory = algorithm.init(x0).clients if remember is None else remember(x0, setup.problem.client(row))

    def handle(self, call: Call, steps: int, payload: bytes) -> bytes:
        shapes = self.compiled.shapes[call.exchange + (" (first)" if call.first else "")]
        down = wire.decode(payload, shapes.down)
        self.memory, up = self.compiled.client(call)(
            self.memory, down, self.row, steps, self.number, call.round, call.repeat
        )
        return wire.encode(up)


class Compiled:
    """One compiled function per exchange and end."""

    def __init__(self, setup: Setup, shapes: dict[str, Shapes]) -> None:
        self.setup, self.shapes = setup, shapes
        self.key = jax.random.key(setup.seed)
        algorithm = setup.algorithm
        self._ordinary = {e.name: e for e in exchanges(algorithm.start + algorithm.round)}
        self._first = {e.name: e for e in exchanges(algorithm.first or ())}
        self._cache: dict[tuple[str, str, bool], Any] = {}

    def exchange(self, call: Call) -> Exchange:
        return (self._first if call.first else self._ordinary)[call.exchange]

    def client(self, call: Call) -> Any:
        problem, oracle = self.setup.problem, self.setup.oracle
        every_round = self.setup.plan.everyone_every_round
        step, key = self.exchange(call), self.key

        def play(memory: Any, down: Any, row: Any, steps: Any, number: Any, round: Any, repeat: Any) -> Any:
            mine = jax.random.fold_in(exchange_key(key, round, step.name, repeat), number)
            steps_key = jax.random.fold_in(exchange_key(key, round, LOCAL, 0), number)
            local = Local(problem.client(row), steps, mine, round, number, oracle, every_round, repeat, steps_key)
            return step.client(memory, down, local)

        return self._once("client", call, play)

    def send(self, call: Call) -> Any:
        return self._once("send", call, self.exchange(call).send)

    def receive(self, call: Call) -> Any:
        step = self.exchange(call)

        def play(server: Any, slots: Any, ups: Any, ids: Any, steps: Any, weights: Any, key: Any) -> Any:
            cohort = Cohort(ids, steps, weights, None, self.setup.problem.clients, key)
            return step.receive(server, slots, ups, cohort)

        return self._once("receive", call, play)

    def _once(self, end: str, call: Call, function: Any) -> Any:
        return self._cache.setdefault((end, call.exchange, call.first), jax.jit(function))


class Loopback:
    """The transport that calls its clients directly."""

    def __init__(self, setup: Setup, compiled: Compiled) -> None:
        rows = [jax.tree.map(lambda leaf, i=i: leaf[i], setup.problem.stack) for i in range(setup.problem.clients)]
        self.clients = [ClientNode(i, row, setup, compiled) for i, row in enumerate(rows)]

    def deliver(self, call: Call, messages: Mapping[int, tuple[int, bytes]]) -> dict[int, bytes]:
        return {i: self.clients[i].handle(call, steps, payload) for i, (steps, payload) in messages.items()}


@dataclasses.dataclass
class ServerNode:
    """The server: its memory, the slots, and a transport."""

    setup: Setup
    compiled: Compiled
    transport: Transport
    memory: Any
    slots: list[Any]
    weights: np.ndarray
    travelled: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys((*LINKS, "none"), 0))
    info: Info = dataclasses.field(default_factory=lambda: Info(0.0, -1))

    def play(
        self, program: Program, round: int, first: bool, ids: np.ndarray, steps: np.ndarray, answers: np.ndarray
    ) -> None:
        """Play a program with the members that answer; those that stay silent are told its first message only."""
        self.info = Info(0.0, -1)
        opening = exchanges(program)[0]
        if opening.on_wire:
            call = Call(opening.name, round, 0, first)
            for i in ids[~answers]:
                told = wire.encode(self.compiled.send(call)(self.memory, self.slots[i]))
                self.travelled[opening.down_link] += len(told)
        self._steps(program, round, first, 0, ids[answers], steps[answers])

    def _steps(
        self, program: Program, round: int, first: bool, repeat: int, ids: np.ndarray, steps: np.ndarray
    ) -> None:
        for step in program:
            if isinstance(step, Exchange):
                self._exchange(step, Call(step.name, round, repeat, first), ids, steps)
            elif isinstance(step, OneByOne):
                for k in range(len(ids)):
                    self._steps(step.program, round, first, repeat, ids[k : k + 1], steps[k : k + 1])
            else:
                self._repeat(step, round, first, ids, steps)

    def _repeat(self, step: Repeat, round: int, first: bool, ids: np.ndarray, steps: np.ndarray) -> None:
        counts = np.asarray(step.counts(steps))
        for r in range(counts.max(initial=0)):
            self._steps(step.program, round, first, r, ids[counts > r], steps[counts > r])

    def _exchange(self, step: Exchange, call: Call, ids: np.ndarray, steps: np.ndarray) -> None:
        if not len(ids):
            return
        key = exchange_key(self.compiled.key, call.round, step.name, call.repeat)
        server = self.memory if step.prepare is None else step.prepare(self.memory, key)
        send = self.compiled.send(call)
        payloads = {int(i): (int(s), wire.encode(send(server, self.slots[i]))) for i, s in zip(ids, steps, strict=True)}
        replies = self.transport.deliver(call, payloads)
        shapes = self.compiled.shapes[call.exchange + (" (first)" if call.first else "")]
        ups = [wire.decode(replies[int(i)], shapes.up) for i in ids]
        if step.on_wire:  # a client drawn twice is spoken to once but counted twice, as in the simulation
            self.travelled[step.down_link] += sum(len(payloads[int(i)][1]) for i in ids)
            self.travelled[step.up_link] += sum(len(replies[int(i)]) for i in ids)
        if not self.weights[ids].sum() > 0:
            return
        self._observe(step, ids, payloads, ups, shapes)
        slots = _stack([self.slots[i] for i in ids])
        self.memory, slots = self.compiled.receive(call)(
            server, slots, _stack(ups), ids.astype(np.int32), steps.astype(np.int32), self.weights[ids], key
        )
        for k, i in enumerate(ids):
            self.slots[i] = jax.tree.map(lambda leaf, k=k: leaf[k], slots)

    @np.errstate(over="ignore", invalid="ignore")  # a run that diverges ends in an error of its own
    def _observe(self, step: Exchange, ids: np.ndarray, payloads: Any, ups: list[Any], shapes: Shapes) -> None:
        bad = [int(i) for i, up in zip(ids, ups, strict=True) if not _finite(up)]
        drift = 0.0
        if step.endpoint is not None:
            downs = [wire.decode(payloads[int(i)][1], shapes.down) for i in ids]
            ends = np.stack([np.asarray(step.endpoint(d, u)) for d, u in zip(downs, ups, strict=True)])
            share = self.weights[ids] / self.weights[ids].sum()
            drift = np.mean(np.linalg.norm(ends - share @ ends, axis=1))
        suspect = int(self.info.suspect) if self.info.suspect >= 0 else (bad[0] if bad else -1)
        self.info = Info(float(np.maximum(self.info.drift, drift)), suspect)


def loopback(
    method: Any,
    problem: Problem,
    *,
    rounds: int,
    oracle: Oracle | None = None,
    progress: Callable[[int, int], None] | None = None,
    **arguments: Any,
) -> Result:
    """The run of `ud.run`, same arguments (checkpoints excepted) and same result, by message passing.

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> a, b = (f(ud.fedlin(eta=0.1), p, rounds=3, steps=5).x for f in (ud.run, loopback))
    >>> bool(np.allclose(a, b, rtol=1e-14))
    True
    """
    setup = prepare(method, problem, rounds=rounds, oracle=oracle, **arguments)
    with precision.scope(setup.problem.dtype):
        return _play(setup, progress)


def _play(setup: Setup, progress: Callable[[int, int], None] | None) -> Result:
    began = time.perf_counter()
    algorithm, problem = setup.algorithm, setup.problem
    compiled = Compiled(setup, message_shapes(algorithm, problem, setup.oracle))
    first_memory: Memory = algorithm.init(jnp.asarray(setup.x0))
    slots = [first_memory.slots] * problem.clients
    server = ServerNode(
        setup, compiled, Loopback(setup, compiled), first_memory.server, slots, np.asarray(problem.weights)
    )
    recorder, reference = Recorder(setup), problem.reference()
    evaluate = jax.jit(lambda problem, x: problem.evaluate(x, reference))
    x_good = np.array(setup.x0)
    for t in range(setup.rounds + 1):
        plan = _play_round(server, algorithm, setup, t)
        x = algorithm.model(server.memory)
        due = t % setup.record_every == 0 or t == setup.rounds
        evaluation = evaluate(problem, x)
        if not due:
            evaluation = Evaluation(dict.fromkeys(evaluation.columns, np.nan), -1, {})
        fine = bool(np.all(np.isfinite(np.asarray(x)))) and (not due or bool(np.isfinite(evaluation.columns["loss"])))
        x_good = np.asarray(x) if fine else x_good
        suspect = int(server.info.suspect if server.info.suspect >= 0 else evaluation.suspect)
        rows = jax.tree.map(lambda v: np.asarray(v)[None], Records(evaluation, server.info.drift, np.asarray(x)))
        recorder.add(rows, plan, t, 1, -1 if fine else t, suspect)
        if progress is not None:
            progress(t, setup.rounds)
        if not fine and setup.on_divergence == "stop":
            result = recorder.result(x_good, time.perf_counter() - began)
            raise divergence(result)
    _compare_with_ledger(recorder, server)
    return recorder.result(np.asarray(algorithm.model(server.memory)), time.perf_counter() - began)


def _play_round(server: ServerNode, algorithm: Algorithm, setup: Setup, t: int) -> Draw:
    m = setup.problem.clients
    if t == 0:
        everyone = np.arange(m)
        if algorithm.start:
            server.play(algorithm.start, 0, False, everyone, np.ones(m, np.int64), np.ones(m, bool))
        return setup.plan.draw(1, 1)
    plan = setup.plan.draw(t, 1)
    ids = np.arange(m) if plan.ids is None else plan.ids[0]
    answers = np.ones(len(ids), bool) if plan.answered is None else plan.answered[0]
    special = t == 1 and algorithm.first is not None
    program = algorithm.first if special and algorithm.first is not None else algorithm.round
    server.play(program, t, special, ids, plan.steps[0], answers)
    return plan


def _compare_with_ledger(recorder: Recorder, server: ServerNode) -> None:
    """The bytes that really travelled are the bytes that the ledger counts."""
    counted = {link: int(sum(part.sum() for part in recorder.columns[f"bytes_{link}"])) for link in LINKS}
    travelled = {link: server.travelled[link] for link in LINKS}
    if counted != travelled:
        raise AssertionError(f"the ledger counts {counted}, but {travelled} travelled")


def _stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *trees)


def _finite(tree: Any) -> bool:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return all(bool(np.all(np.isfinite(leaf))) for leaf in leaves if leaf.dtype.kind == "f")
