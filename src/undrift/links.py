"""Compression of one direction of one exchange, for any method.

    compressed(scaffold(eta=0.1), up=top_k(50), down=top_k(100))

Every vector of length d in a message is compressed on its own; other parts travel as they are. With memory, the end that
compresses keeps what it withheld: a client beside its own memory, the server beside its. Compress differences (what clients
send in FedAvg, SCAFFOLD, FedNova), not models: a sparse model is not a small error.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .compression import Compressor, feedback, no_error
from .errors import InputError, unknown
from .local import Local
from .oracles import Full
from .problems.client import ClientLoss
from .protocol import Algorithm, Cohort, Exchange, Memory, OneByOne, Program, Repeat, exchanges
from .randomness import tag
from .recipe import Method, as_method
from .wire import dense


class Withheld(NamedTuple):
    """A memory with the errors of one link beside it."""

    inner: Any
    errors: Any
    message: Any = ()  # at the server: the message of this exchange


def compressed(
    method: Any, up: Compressor | None = None, down: Compressor | None = None, exchange: str | None = None
) -> Method:
    """The method with one exchange compressed in one or both directions (its only one, or the one named).

    >>> import undrift as ud
    >>> print(compressed(ud.fedavg(eta=0.1), up=ud.top_k(5)))
    fedavg(eta=0.1, server_eta=1) + up top_k(5)
    """
    method = as_method(method)
    names = [e.name for e in exchanges(method.build().round)]
    if exchange is not None and exchange not in names:
        raise unknown(f"exchange of {method.name}", exchange, names)
    if exchange is None and len(names) > 1:
        raise InputError(f"{method.name} has the exchanges {', '.join(names)}: say which one, exchange={names[0]!r}")
    return method.wrapped(Compressed(exchange or names[0], up, down))


@dataclasses.dataclass(frozen=True)
class Compressed:
    """The wrapper of an algorithm: hashable, so that it is part of the compiled program's identity."""

    exchange: str
    up: Compressor | None
    down: Compressor | None

    def __call__(self, algorithm: Algorithm) -> Algorithm:
        inner = next(e for e in exchanges(algorithm.round) if e.name == self.exchange)
        if algorithm.remember is not None:
            raise InputError(
                "compression of a method whose client memory depends on its data (FedTrack, IAG) is not defined"
            )

        def init(x: jax.Array) -> Memory:
            server, slots, client = algorithm.init(x)
            down, up = _example(algorithm, inner, x)
            message = (
                () if self.down is None else _compress(self.down, _errors(self.down, down, x), down, x, _no_key())[0]
            )
            return Memory(
                Withheld(server, _errors(self.down, down, x), message),
                slots,
                Withheld(client, _errors(self.up, up, x)),
            )

        return Algorithm(
            init=init,
            start=self._program(algorithm.start),
            first=None if algorithm.first is None else self._program(algorithm.first),
            round=self._program(algorithm.round),
            model=lambda server: algorithm.model(server.inner),
        )

    def _program(self, program: Program) -> Program:
        def step(given: Any) -> Any:
            if isinstance(given, Repeat | OneByOne):
                return given._replace(program=self._program(given.program))
            return self._link(given) if given.name == self.exchange else _carried_through(given)

        return tuple(step(given) for given in program)

    def _link(self, inner: Exchange) -> Exchange:
        def prepare(server: Withheld, key: jax.Array) -> Withheld:
            own = server.inner if inner.prepare is None else inner.prepare(server.inner, key)
            if self.down is None:
                return server._replace(inner=own)
            down = inner.send(own, ())
            message, errors = _compress(self.down, server.errors, down, _vector_of(down), _link_key(key))
            return Withheld(own, errors, message)

        def send(server: Withheld, slot: Any) -> Any:
            return inner.send(server.inner, slot) if self.down is None else server.message

        def client(memory: Withheld, down: Any, local: Any) -> tuple[Withheld, Any]:
            own, up = inner.client(memory.inner, _dense(down), local)
            if self.up is None:
                return memory._replace(inner=own), up
            message, errors = _compress(self.up, memory.errors, up, _vector_of(up), _link_key(local.key))
            return Withheld(own, errors), message

        def receive(server: Withheld, slots: Any, ups: Any, cohort: Cohort) -> tuple[Withheld, Any]:
            own, slots = inner.receive(server.inner, slots, _dense_rows(ups), cohort)
            return server._replace(inner=own), slots

        endpoint = inner.endpoint
        return inner._replace(
            send=send,
            client=client,
            receive=receive,
            prepare=prepare,
            endpoint=None if endpoint is None else lambda down, up: endpoint(_dense(down), _dense(up)),
        )

    def __str__(self) -> str:
        parts = [f"{name} {c}" for name, c in (("up", self.up), ("down", self.down)) if c is not None]
        return ", ".join(parts)


class _Stub(ClientLoss):
    """A client without data, to learn the shapes of messages."""

    def gradient(self, x: jax.Array) -> jax.Array:
        return jnp.zeros_like(x)

    def loss(self, x: jax.Array) -> jax.Array:
        return jnp.sum(x) * 0

    def prox(self, centre: jax.Array, s: Any) -> jax.Array:
        return centre


def _example(algorithm: Algorithm, exchange: Exchange, x: jax.Array) -> tuple[Any, Any]:
    """Zero messages of an exchange: (down, up)."""

    def play(x: jax.Array) -> tuple[Any, Any]:
        server, slot, client = algorithm.init(x)
        down = exchange.send(server, slot)
        one = jnp.asarray(1, jnp.int32)
        local = Local(_Stub(), one, _no_key(), one, one, Full())
        return down, exchange.client(client, down, local)[1]

    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(play, x))


def _carried_through(inner: Exchange) -> Exchange:
    """An exchange that is not compressed, on memories that carry errors beside them."""

    def client(memory: Withheld, down: Any, local: Any) -> tuple[Withheld, Any]:
        own, up = inner.client(memory.inner, down, local)
        return memory._replace(inner=own), up

    def receive(server: Withheld, slots: Any, ups: Any, cohort: Cohort) -> tuple[Withheld, Any]:
        own, slots = inner.receive(server.inner, slots, ups, cohort)
        return server._replace(inner=own), slots

    prepare = inner.prepare
    return inner._replace(
        send=lambda server, slot: inner.send(server.inner, slot),
        client=client,
        receive=receive,
        prepare=None if prepare is None else lambda s, key: s._replace(inner=prepare(s.inner, key)),
    )


def _is_vector(leaf: Any, x: jax.Array) -> bool:
    return leaf.shape == x.shape and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _vector_of(message: Any) -> jax.Array:
    """The vectors of a message are its longest floating leaves."""
    return max(jax.tree.leaves(message), key=lambda leaf: leaf.size)


def _errors(compressor: Compressor | None, message: Any, x: jax.Array) -> Any:
    return [no_error(compressor, leaf) if _is_vector(leaf, x) else () for leaf in jax.tree.leaves(message)]


def _compress(compressor: Compressor, errors: Any, message: Any, x: jax.Array, key: jax.Array) -> tuple[Any, Any]:
    leaves, structure = jax.tree.flatten(message)
    sent, kept = [], []
    for i, (leaf, error) in enumerate(zip(leaves, errors, strict=True)):
        one, left = (
            feedback(compressor, error, leaf, jax.random.fold_in(key, i)) if _is_vector(leaf, x) else (leaf, error)
        )
        sent.append(one)
        kept.append(left)
    return jax.tree.unflatten(structure, sent), kept


def _dense(message: Any) -> Any:
    return jax.tree.map(dense, message, is_leaf=lambda node: hasattr(node, "wire_size"))


def _dense_rows(messages: Any) -> Any:
    return jax.vmap(_dense)(messages)


def _link_key(key: jax.Array) -> jax.Array:
    """The randomness of a compressor, apart from that of the gradients it compresses (they fold step numbers in)."""
    return jax.random.fold_in(key, tag("link"))


def _no_key() -> jax.Array:
    return jax.random.key(0)
