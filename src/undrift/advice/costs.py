"""What a round costs: bytes and gradients from the program's messages, seconds from the resources."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .. import precision, wire
from ..engine.ledger import Shapes, message_shapes
from ..engine.setup import prepare
from ..oracles import Oracle
from ..protocol import Exchange, OneByOne, Program, Repeat
from ..recipe import Method
from .resources import Resources


@dataclasses.dataclass(frozen=True)
class Costs:
    """Running totals of all clients together; seconds are virtual, and in three parts."""

    rounds: int = 0
    bytes_up: float = 0.0
    bytes_down: float = 0.0
    gradients: float = 0.0
    computing: float = 0.0  # seconds
    latency: float = 0.0
    transfer: float = 0.0

    @property
    def seconds(self) -> float:
        return self.computing + self.latency + self.transfer

    @property
    def bytes(self) -> float:
        return self.bytes_up + self.bytes_down

    def __add__(self, other: Costs) -> Costs:
        return Costs(*(a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)))

    def times(self, factor: float) -> Costs:
        return Costs(*(factor * value for value in dataclasses.astuple(self)))

    def words(self) -> dict[str, float]:
        return {
            "rounds": int(self.rounds),
            "bytes_up": int(self.bytes_up),
            "bytes_down": int(self.bytes_down),
            "gradients": float(self.gradients),
            "seconds": float(self.seconds),
            "computing": float(self.computing),
            "latency": float(self.latency),
            "transfer": float(self.transfer),
        }


@dataclasses.dataclass(frozen=True)
class Tariff:
    """The price of the start, of the first round where it differs, and of every other round."""

    start: Costs
    first: Costs
    round: Costs

    def after(self, rounds: int) -> Costs:
        """Everything up to the end of this round."""
        if rounds <= 0:
            return self.start
        return dataclasses.replace(self.start + self.first + self.round.times(rounds - 1), rounds=int(rounds))


def tariff(
    method: Method,
    problem: Any,
    steps: Any,
    resources: Resources,
    oracle: Oracle | None = None,
    known: dict[str, dict[str, Shapes]] | None = None,
) -> Tariff:
    """Prices of a method with these local steps, with full participation.

    An exchange takes as long as its slowest client computes, plus one latency, plus its message down and its message up at
    the rates of a client's own link. Clients that play in turn take the sum of that. Work is counted in gradient evaluations
    of a client's whole oracle: a component gradient of FedTrack is 1/n_i of one. Centralised baselines send nothing and
    compute as fast as all clients together. `known`: shapes of messages by method, which is filled in; they do not depend on τ.
    """
    setup = prepare(method, problem, rounds=1, steps=steps, oracle=oracle)
    known = {} if known is None else known
    kind = f"{method.name} {method.recipe.settings if method.name == 'fedlin' else ''}"
    if kind not in known:
        with precision.scope(setup.problem.dtype):
            known[kind] = message_shapes(setup.algorithm, setup.problem, setup.oracle)
    shapes = known[kind]
    counts = np.broadcast_to(np.asarray(setup.plan.steps), (setup.problem.clients,))
    speeds = np.asarray(resources.speeds)
    if method.recipe.centralised:
        speeds = np.array([speeds.sum() / len(speeds)])  # each step is one gradient of each client
    book = _Book(shapes, setup.problem.sizes, setup.oracle, counts, speeds, resources)
    algorithm = setup.algorithm
    every = book.program(algorithm.round, "")
    first = every if algorithm.first is None else book.program(algorithm.first, " (first)")
    return Tariff(
        dataclasses.replace(book.program(algorithm.start, ""), rounds=0),
        dataclasses.replace(first, rounds=1),
        dataclasses.replace(every, rounds=1),
    )


@dataclasses.dataclass(frozen=True)
class _Book:
    shapes: dict[str, Shapes]
    sizes: np.ndarray
    oracle: Oracle
    steps: np.ndarray
    speeds: np.ndarray
    resources: Resources

    def program(self, program: Program, suffix: str, in_turn: bool = False, times: Any = 1) -> Costs:
        total = Costs()
        for step in program:
            if isinstance(step, OneByOne):
                total += self.program(step.program, suffix, True, times)
            elif isinstance(step, Repeat):
                total += self.program(step.program, suffix, in_turn, times * np.asarray(step.counts(self.steps)))
            else:
                total += self._exchange(step, suffix, in_turn, np.broadcast_to(times, self.steps.shape))
        return total

    def _exchange(self, exchange: Exchange, suffix: str, in_turn: bool, times: np.ndarray) -> Costs:
        per_call = self.oracle.components(self.sizes)
        if exchange.cost is not None:
            calls, components = exchange.cost(self.steps, self.sizes, True)
            work = components / per_call
        else:
            calls = exchange.work(self.steps)
            work = calls
        computing = times * work / self.speeds
        together = np.sum if in_turn else np.max
        spent = Costs(gradients=float(np.sum(calls * times)), computing=float(together(computing)))
        if not exchange.on_wire:
            return spent
        shapes = self.shapes[exchange.name + suffix]
        down, up = wire.size(shapes.down), wire.size(shapes.up)
        travel = times * (down / self.resources.down + up / self.resources.up)
        return spent + Costs(
            bytes_up=float(up * times.sum()),
            bytes_down=float(down * times.sum()),
            latency=float(together(times * self.resources.latency)),
            transfer=float(together(travel)),
        )
