"""What a method's program says, as data: its messages with contents and sizes, its memory, its gradients.

Everything is derived from the program and the shapes of its messages; nothing is known about any method.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .. import precision, wire
from ..engine.description import Run
from ..engine.layout import Shapes, memory_shapes
from ..engine.ledger import Ledger
from ..plan import Draw
from ..problems.base import Problem
from ..problems.least_squares import LeastSquares
from ..protocol import Algorithm, AtServer, Exchange, Memory, Program, Repeat, exchanges, placed

CLIENTS, SAMPLES = 2, 50


@dataclasses.dataclass(frozen=True)
class Message:
    contents: list[str]
    bytes: int
    link: str  # "down", "up", or "peer" from client to client


@dataclasses.dataclass(frozen=True)
class Row:
    """An exchange, or the head of a block of them (which has no messages of its own)."""

    depth: int
    name: str
    down: Message | None = None
    up: Message | None = None
    gradients: int = 0
    gradients_if_absent: int = 0
    is_block: bool = False


@dataclasses.dataclass(frozen=True)
class Protocol:
    """A method at a given dimension and number of local steps."""

    start: list[Row]
    first: list[Row]
    round: list[Row]
    memory: dict[str, list[tuple[str, str, int]]]  # place -> (name, what, bytes)
    per_round: dict[str, int]  # for one client
    per_start: dict[str, int]


def stand_in(dim: int, dtype: str) -> Problem:
    """A problem that consists of shapes only: enough to ask a program for its messages, at any dimension."""
    kind = np.dtype(dtype)
    stack = {
        "A": jax.ShapeDtypeStruct((CLIENTS, SAMPLES, dim), kind),
        "b": jax.ShapeDtypeStruct((CLIENTS, SAMPLES), kind),
        "size": np.full(CLIENTS, SAMPLES, np.int32),
    }
    return LeastSquares(stack, (), np.full(CLIENTS, 1 / CLIENTS, kind), dim, kind)


def cut_network() -> Problem:
    """A small network in two halves, for methods that cut the model."""
    from ..models import mlp
    from ..problems.network import network

    images, labels = np.zeros((CLIENTS * SAMPLES, 8, 8, 1), np.float32), np.arange(CLIENTS * SAMPLES) % 10
    parts = np.array_split(np.arange(CLIENTS * SAMPLES), CLIENTS)
    return network(mlp((32,), input=(8, 8, 1)), (images, labels), parts, cut=2)


def protocol_of(run: Run) -> Protocol:
    """Read the program of a run's method."""
    with precision.scope(run.population.dtype):
        return _protocol_of(run)


def _protocol_of(run: Run) -> Protocol:
    algorithm, steps = run.algorithm, int(run.plan.typical_steps.max())
    absent = run.but(failures=0.5).algorithm.exchanges  # where clients may have missed the last round
    memory = memory_shapes(algorithm, run.population)
    names = _server_names(algorithm, memory.server)

    def rows(program: Program, place: int, depth: int = 0) -> list[Row]:
        found: list[Row] = []
        for at, step in placed(program, place):
            if isinstance(step, Exchange):
                sent = _copied_from(step, memory, names)
                found.append(_row(step, run.shapes[at], sent, _calls(absent[at], steps), steps, depth))
            elif isinstance(step, AtServer):
                found.append(Row(depth, "the server by itself", is_block=True))
            else:
                times = f"{int(step.counts(np.asarray(steps)))} times" if isinstance(step, Repeat) else ""
                found.append(Row(depth, times or "one client after the other", is_block=True))
                found += rows(step.program, at, depth + 1)
        return found

    ledger = Ledger(algorithm, run.shapes, run.population.sizes, run.oracle)
    clients = run.population.clients
    plan = Draw(None, np.full((1, clients), steps, np.int64), None)
    opening, special = len(exchanges(algorithm.start)), algorithm.first or ()
    return Protocol(
        rows(algorithm.start, 0),
        rows(special, opening),
        rows(algorithm.round, opening + len(exchanges(special))),
        _memory(memory, names),
        {name: int(column[0]) // clients for name, column in ledger.rounds(plan, 2).items()},
        {name: int(column[0]) // clients for name, column in ledger.start().items()},
    )


def _row(step: Exchange, shapes: Shapes, sent: list[str | None], absent: int, steps: int, depth: int) -> Row:
    account = step.account

    def message(part: Any, size: int, link: str, names: list[str | None]) -> Message | None:
        if not account.on_wire or link == "none":
            return None
        return Message(_contents(part, names), size, link)

    down = message(shapes.down, shapes.down_bytes, account.down_link, sent)
    up = message(shapes.up, shapes.up_bytes, account.up_link, [])
    return Row(depth, step.name, down, up, _calls(step, steps), absent)


def _calls(step: Exchange, steps: int) -> int:
    return int(np.asarray(step.account.work(np.asarray(steps), np.asarray(SAMPLES)).calls))


def _contents(message: Any, copied: list[str | None]) -> list[str]:
    """The parts of a message in words, named by their fields, or by the memory that they are a copy of."""
    parts = jax.tree.leaves(message, is_leaf=_is_packed)
    words = []
    for part, field in zip(parts, leaf_names(message, is_leaf=_is_packed), strict=True):
        own, copied = copied[: len(jax.tree.leaves(part))], copied[len(jax.tree.leaves(part)) :]
        name = field or (own[0] if own else None)
        if _is_packed(part) and name and not field:
            name = name.rpartition(".")[0]  # the compressed vector, not one of its arrays
        words.append(f"{name}: {_describe(part)}" if name else _describe(part))
    return words


def _is_packed(node: Any) -> bool:
    return isinstance(node, wire.Packed)


def _describe(node: Any) -> str:
    if _is_packed(node):
        values = max(jax.tree.leaves(node), key=lambda leaf: (leaf.dtype.kind == "f", leaf.size))
        return f"{type(node).__name__.lower()}, {values.size} × {values.dtype}"
    return f"{node.size} × {node.dtype}" if node.shape else str(node.dtype)


def _server_names(algorithm: Algorithm, server: Any) -> list[str]:
    """Names of the leaves of the server's memory; the one that `model` returns is x."""
    model = _origins(algorithm.model, server)
    return ["x" if i in model else name for i, name in enumerate(leaf_names(server))]


def leaf_names(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[str]:
    """A name for every leaf, from the fields and keys that lead to it (those of wrappers left out)."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_leaf)
    words = []
    for path, _ in paths:
        fields = [getattr(key, "name", None) or getattr(key, "key", None) for key in path]
        words.append(".".join(field for field in fields if isinstance(field, str) and field != "inner"))
    return words


def _copied_from(step: Exchange, memory: Memory, names: list[str]) -> list[str | None]:
    """For every array the server sends: which part of its memory it is a copy of, if it is one."""
    slot = jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), memory.slots)
    found = _origins(lambda server: step.send(server, slot), memory.server)
    return [None if i is None else names[i] or None for i in found]


def _origins(function: Callable[[Any], Any], tree: Any) -> list[int | None]:
    """For every leaf of function(tree): the leaf of `tree` that it is, or None where it was computed."""
    traced = jax.make_jaxpr(function)(tree).jaxpr
    place = {id(variable): i for i, variable in enumerate(traced.invars)}
    return [place.get(id(variable)) for variable in traced.outvars]


def _memory(memory: Memory, names: list[str]) -> dict[str, list[tuple[str, str, int]]]:
    places = (
        ("server", memory.server, names),
        ("server, per client", memory.slots, None),
        ("client", memory.clients, None),
    )
    return {
        place: [
            (name, _describe(leaf), int(leaf.size) * leaf.dtype.itemsize)
            for name, leaf in zip(known or leaf_names(tree), jax.tree.leaves(tree), strict=True)
        ]
        for place, tree, known in places
    }
