"""What a round costs: bytes and gradients from the program's messages, seconds from the resources."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..engine.description import Run
from ..engine.layout import Shapes
from ..engine.ledger import Counts, Ledger
from ..oracles import Oracle
from ..plan import Draw
from ..recipe import Method, Recipe
from ..resources import Resources


@dataclasses.dataclass(frozen=True)
class Costs:
    """Running totals of all clients together; seconds are virtual, and in three parts."""

    rounds: int = 0
    bytes_up: float = 0.0
    bytes_down: float = 0.0
    bytes_peer: float = 0.0  # from client to client
    gradients: float = 0.0
    computing: float = 0.0  # seconds
    latency: float = 0.0
    transfer: float = 0.0

    @property
    def seconds(self) -> float:
        return self.computing + self.latency + self.transfer

    @property
    def bytes(self) -> float:
        return self.bytes_up + self.bytes_down + self.bytes_peer

    def __add__(self, other: Costs) -> Costs:
        return Costs(*(a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)))

    def times(self, factor: float) -> Costs:
        return Costs(*(factor * value for value in dataclasses.astuple(self)))

    def words(self) -> dict[str, float]:
        return {
            "rounds": int(self.rounds),
            "bytes_up": int(self.bytes_up),
            "bytes_down": int(self.bytes_down),
            "bytes_peer": int(self.bytes_peer),
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
    known: dict[Recipe, list[Shapes]] | None = None,
) -> Tariff:
    """Prices of a method with these local steps, with full participation, as the ledger of a run counts them.

    `known`: shapes of messages by recipe, which is filled in; they do not depend on numbers or τ.
    """
    run = Run.of(method, problem, 1, oracle=oracle, resources=resources, **method.given(steps)).to_play()
    shapes = (known or {}).get(method.recipe) or run.shapes
    if known is not None:
        known[method.recipe] = shapes
    ledger = Ledger(run.algorithm, shapes, run.population.sizes, run.oracle, run.resources)
    counts = run.plan.typical_steps
    two = ledger.rounds(Draw(None, np.stack([counts, counts]).astype(np.int64), None), 1)
    return Tariff(_costs(ledger.start(), 0, 0), _costs(two, 0, 1), _costs(two, 1, 1))


def _costs(counts: Counts, row: int, rounds: int) -> Costs:
    columns = (
        "bytes_up", "bytes_down", "bytes_peer", "gradients", "seconds_computing", "seconds_latency", "seconds_transfer",
    )  # fmt: skip
    return Costs(rounds, *(float(counts[name][row]) for name in columns))
