"""What memories and messages look like, found without computing any."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp

from .. import precision, sharding, wire
from ..local import Local
from ..oracles import Oracle
from ..problems.base import Problem
from ..problems.population import Population
from ..protocol import Algorithm, Exchange, Memory, nothing

MOST_KNOWN = 256  # lists of shapes that are remembered
_known: OrderedDict[Hashable, list[Shapes]] = OrderedDict()
_overheard: ContextVar[dict[int, Shapes] | None] = ContextVar("_overheard", default=None)  # by place


@dataclasses.dataclass(frozen=True)
class Shapes:
    """The message shapes of one exchange."""

    down: Any
    up: Any

    @classmethod
    def of(cls, down: Any, up: Any) -> Shapes:
        """Of these messages, which may be on their way in a program that is being traced."""
        return cls(*jax.tree.map(_shape, (down, up)))

    @cached_property
    def down_bytes(self) -> int:
        return wire.size(self.down)

    @cached_property
    def up_bytes(self) -> int:
        return wire.size(self.up)


def lay_out(algorithm: Algorithm, x: jax.Array, problem: Problem) -> Memory:
    """The memory at the start, for all m clients."""
    server, slot = algorithm.server(x)
    slots = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[None], (problem.clients, *leaf.shape)), slot)
    keeps_nothing = algorithm.client is nothing  # a loop over all clients for it would have to be compiled all the same
    clients = () if keeps_nothing else problem.each(lambda loss: algorithm.client(x, loss))
    shards = sharding.active()
    return (
        Memory(server, slots, clients) if shards is None else Memory(server, shards.kept(slots), shards.kept(clients))
    )


def memory_shapes(algorithm: Algorithm, population: Population) -> Memory:
    """The server's memory, one slot and one client's memory."""

    def make(x: jax.Array, shared: Any, row: Any) -> Memory:
        return Memory(*algorithm.server(x), algorithm.client(x, population.view(shared, row)))

    with precision.scope(population.dtype):
        x = jax.ShapeDtypeStruct((population.dim,), population.dtype)
        shapes: Memory = jax.eval_shape(make, x, population.shared, population.row)
    return shapes


def message_shapes(algorithm: Algorithm, population: Population, oracle: Oracle) -> list[Shapes]:
    """Shapes of the messages of all exchanges, by place."""
    return _each_exchange(algorithm, population, oracle, lambda play, *given: Shapes(*jax.eval_shape(play, *given)))


def known_shapes(name: Hashable, find: Callable[[], list[Shapes]]) -> list[Shapes]:
    """The shapes that are known by this name, or what `find` finds: that takes a trace of every exchange."""
    shapes = _known.get(name)
    if shapes is None:
        _known[name] = shapes = find()
        while len(_known) > MOST_KNOWN:
            _known.popitem(last=False)
    return shapes


@contextmanager
def overhearing() -> Iterator[dict[int, Shapes]]:
    """The shapes of messages, by place, of programs that are traced meanwhile: who listens need not trace them once more."""
    found: dict[int, Shapes] = {}
    token = _overheard.set(found)
    try:
        yield found
    finally:
        _overheard.reset(token)


def tell(algorithm: Algorithm, said: dict[int, Shapes]) -> None:
    """Tell whoever listens what the exchanges of this algorithm said; `said`: by the `id` of the exchange."""
    found = _overheard.get()
    if found is not None:
        found |= {place: said[id(e)] for place, e in enumerate(algorithm.exchanges) if id(e) in said}


def message_programs(algorithm: Algorithm, population: Population, oracle: Oracle) -> list[Any]:
    """What makes the messages of all exchanges, traced, by place."""
    return _each_exchange(algorithm, population, oracle, lambda play, *given: jax.make_jaxpr(play)(*given))


def _each_exchange(algorithm: Algorithm, population: Population, oracle: Oracle, look: Callable[..., Any]) -> list[Any]:
    """look(function that plays an exchange, shapes of what it is given), by place."""
    memory = memory_shapes(algorithm, population)
    key = jax.eval_shape(lambda: jax.random.key(0))

    def messages(exchange: Exchange) -> Any:
        def play(memory: Memory, key: jax.Array, shared: Any, row: Any) -> tuple[Any, Any]:
            server = memory.server if exchange.prepare is None else exchange.prepare(memory.server, key)
            down = exchange.send(server, memory.slots)
            one = jnp.asarray(1, jnp.int32)
            local = Local(population.view(shared, row), one, key, one, one, oracle, key)
            return down, exchange.client(memory.clients, down, local)[1]

        return look(play, memory, key, population.shared, population.row)

    with precision.scope(population.dtype):
        return [messages(exchange) for exchange in algorithm.exchanges]


def _shape(leaf: Any) -> jax.ShapeDtypeStruct:
    kind = jax.typeof(leaf)
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype)
