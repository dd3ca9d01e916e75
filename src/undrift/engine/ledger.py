"""Bytes, gradients and virtual seconds, counted from the program, the shapes of its messages and the plan."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import wire
from ..local import Local
from ..oracles import Oracle
from ..plan import Draw
from ..problems.base import Problem
from ..protocol import Algorithm, Exchange, OneByOne, Program, Repeat, exchanges
from ..resources import Resources
from .history import COST_COLUMNS

LINKS = ("up", "down", "peer")
SECONDS = COST_COLUMNS["seconds"]
Counts = dict[str, np.ndarray]  # column -> what a stretch of rounds cost, one number per round


@dataclasses.dataclass(frozen=True)
class Shapes:
    """The message shapes of one exchange."""

    down: Any
    up: Any

    @property
    def down_bytes(self) -> int:
        return wire.size(self.down)

    @property
    def up_bytes(self) -> int:
        return wire.size(self.up)


def message_shapes(algorithm: Algorithm, problem: Problem, oracle: Oracle) -> dict[str, Shapes]:
    """Shapes of all messages, found without computing any. The first round's own exchanges are called «name (first)»."""
    x = jax.ShapeDtypeStruct((problem.dim,), problem.dtype)
    memory = jax.eval_shape(algorithm.init, x)
    population = problem.population
    row, shared_shapes = population.row, population.shared
    if algorithm.remember is not None:
        remember = algorithm.remember
        own = jax.eval_shape(lambda x, row, shared: remember(x, population.view(shared, row)), x, row, shared_shapes)
        memory = memory._replace(clients=own)
    key = jax.eval_shape(lambda: jax.random.key(0))

    def messages(exchange: Exchange) -> Shapes:
        def play(server: Any, slot: Any, client: Any, row: Any, key: jax.Array, shared: Any) -> tuple[Any, Any]:
            if exchange.prepare is not None:
                server = exchange.prepare(server, key)
            down = exchange.send(server, slot)
            one = jnp.asarray(1, jnp.int32)
            local = Local(population.view(shared, row), one, key, one, one, oracle, steps_key=key)
            return down, exchange.client(client, down, local)[1]

        shapes = jax.eval_shape(play, memory.server, memory.slots, memory.clients, row, key, shared_shapes)
        return Shapes(*shapes)

    found = {e.name: messages(e) for e in exchanges(algorithm.start + algorithm.round)}
    for exchange in exchanges(algorithm.first or ()):
        found[f"{exchange.name} (first)"] = messages(exchange)
    return found


class Ledger:
    """Counts costs for an algorithm on a problem.

    The columns are bytes by link, gradients, and, where messages have named parts (dictionaries, as in split learning), bytes
    by part. With `resources` there are virtual seconds too, by cause: an exchange takes as long as its slowest client
    computes, plus one latency, plus its messages at the rates of a client's own link; clients that play in turn take the sum
    of that. Work is counted in calls of a client's whole oracle: a component gradient of FedTrack is 1/n_i of one. `shapes`:
    those of the messages where they are known already.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        problem: Problem,
        oracle: Oracle,
        every_round: bool,
        resources: Resources | None = None,
        shapes: dict[str, Shapes] | None = None,
    ) -> None:
        self.algorithm, self.oracle, self.every_round = algorithm, oracle, every_round
        self.sizes, self.resources = problem.sizes, resources
        self.shapes = message_shapes(algorithm, problem, oracle) if shapes is None else shapes
        messages = [message for shape in self.shapes.values() for message in (shape.down, shape.up)]
        parts = sorted({name for message in messages if isinstance(message, dict) for name in message})
        self.columns = (
            *(f"bytes_{link}" for link in LINKS),
            "gradients",
            "component_gradients",
            *(f"bytes_{part}" for part in parts),
            *(SECONDS if resources is not None else ()),
        )

    def start(self) -> Counts:
        """The cost of the start program, played by all clients."""
        m = len(self.sizes)
        draw = Draw(None, np.ones((1, m), np.int64), None)
        return self._program(self.algorithm.start, draw, "")

    def rounds(self, draw: Draw, first_round: int) -> Counts:
        """The cost of these rounds."""
        counts = self._program(self.algorithm.round, draw, "")
        if self.algorithm.first is not None and first_round == 1:
            special = self._program(self.algorithm.first, draw.rows(0, 1), " (first)")
            for name, column in special.items():
                counts[name][0] = column[0]
        return counts

    def _program(self, program: Program, draw: Draw, suffix: str) -> Counts:
        rounds, n = draw.steps.shape
        ids = np.broadcast_to(np.arange(n), (rounds, n)) if draw.ids is None else draw.ids
        answered = np.ones((rounds, n), np.int64) if draw.answered is None else draw.answered.astype(np.int64)
        total = {name: np.zeros(rounds, float if name in SECONDS else np.int64) for name in self.columns}
        stretch = _Stretch(draw.steps, answered, ids, self.sizes[ids], suffix, total)
        self._walk(program, stretch, np.ones((rounds, n), np.int64), False)
        return total

    def _walk(self, program: Program, stretch: _Stretch, times: np.ndarray, in_turn: bool) -> None:
        for step in program:
            if isinstance(step, Repeat):
                self._walk(step.program, stretch, times * step.counts(stretch.steps), in_turn)
            elif isinstance(step, OneByOne):
                self._walk(step.program, stretch, times, True)
            else:
                self._exchange(step, stretch, times, in_turn)

    def _exchange(self, step: Exchange, stretch: _Stretch, times: np.ndarray, in_turn: bool) -> None:
        total = stretch.total
        played = times * stretch.answered
        # Whoever stays silent was told the first message of the round, once.
        told = played + (1 - stretch.answered) if stretch.opening else played
        stretch.opening = False
        calls, components = self._work(step, stretch.steps, stretch.sizes)
        shapes = self.shapes[step.name + stretch.suffix]
        if step.on_wire:
            _count_message(total, step.down_link, shapes.down, told.sum(axis=1))
            _count_message(total, step.up_link, shapes.up, played.sum(axis=1))
        total["gradients"] += (calls * played).sum(axis=1)
        total["component_gradients"] += (components * played).sum(axis=1)
        if self.resources is not None:
            work = components / self.oracle.components(stretch.sizes)
            spent = _seconds(self.resources, step, shapes, work, told, played, stretch.ids)
            for name, seconds in zip(SECONDS, spent, strict=True):
                total[name] += seconds.sum(axis=1) if in_turn else seconds.max(axis=1)

    def _work(self, step: Exchange, steps: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if step.cost is not None:
            return step.cost(steps, sizes, self.every_round)
        work = step.work if self.every_round or step.work_if_absent is None else step.work_if_absent
        calls = work(steps)
        return calls, calls * self.oracle.components(sizes)


@dataclasses.dataclass
class _Stretch:
    """Some rounds that are being counted: one row per round, one column per member of the cohort."""

    steps: np.ndarray
    answered: np.ndarray
    ids: np.ndarray
    sizes: np.ndarray
    suffix: str
    total: Counts
    opening: bool = True  # no message has been sent yet


def _count_message(total: Counts, link: str, message: Any, times: np.ndarray) -> None:
    if link == "none":
        return
    total[f"bytes_{link}"] += times * wire.size(message)
    for part, content in message.items() if isinstance(message, dict) else ():
        total[f"bytes_{part}"] += times * wire.size(content)


def _seconds(
    resources: Resources,
    step: Exchange,
    shapes: Shapes,
    work: np.ndarray,
    told: np.ndarray,
    played: np.ndarray,
    ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What an exchange takes each member of the cohort: computing, latency, transfer."""
    computing = played * work / np.asarray(resources.speeds)[ids]
    if not step.on_wire:
        return computing, np.zeros_like(computing), np.zeros_like(computing)
    down = resources.link_seconds(step.down_link, shapes.down_bytes)
    up = resources.link_seconds(step.up_link, shapes.up_bytes)
    return computing, told * resources.latency, told * down + played * up
