"""Compression of one direction of one exchange, for any method.

    compressed(scaffold(eta=0.1), up=top_k(50), down=top_k(100))

Every vector of length d in a message is compressed on its own; other parts travel as they are. With memory, the end that
compresses keeps what it withheld: a client beside its own memory, the server beside its. Compress differences (what clients
send in FedAvg, SCAFFOLD, FedNova), not models: a sparse model is not a small error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from .compression import Compressor, feedback, no_error
from .errors import InputError, unknown
from .local import Local
from .oracles import Full
from .protocol import Algorithm, AtServer, Cohort, Diagnostics, Exchange, OneByOne, Program, Repeat, Step, exchanges
from .randomness import tag
from .recipe import Method, as_method
from .signatures import Centre, Receive
from .wire import dense

if TYPE_CHECKING:
    from .problems.client import ClientLoss


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
    for given in (up, down):
        if given is not None and not isinstance(given, Compressor):
            raise InputError(f"a compressor is what ud.top_k(…) and its kin return, got {given!r}")
    if up is None and down is None:
        raise InputError(
            "compressed needs a compressor: give up=… (what clients send), down=… (what the server sends) or both"
        )
    if method.recipe.split:
        raise InputError(
            f"the messages of {method.name} are halves of a model and activations, not vectors of length d: nothing would be "
            "compressed"
        )
    for wrapper in method.recipe.wrap if up is not None else ():
        if why := getattr(wrapper, "as_it_is", None):  # a promise that rests on what is sent
            raise InputError(f"what the clients of {method} send cannot be compressed afterwards: {why}")
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

    def __call__(self, algorithm: Algorithm, /, **numbers: Any) -> Algorithm:
        inner = next(e for e in exchanges(algorithm.round) if e.name == self.exchange)

        def server(x: jax.Array) -> tuple[Withheld, Any]:
            own, slot = algorithm.server(x)
            if self.down is None:
                return Withheld(own, ()), slot
            down = _zeros(lambda: inner.send(own, slot))
            errors = _errors(self.down, down, x)
            return Withheld(own, errors, _compress(self.down, errors, down, x, _no_key())[0]), slot

        def client(x: jax.Array, loss: ClientLoss) -> Withheld:
            own = algorithm.client(x, loss)
            if self.up is None:
                return Withheld(own, ())
            up = _zeros(lambda: inner.client(own, inner.send(*algorithm.server(x)), _nobody(loss))[1])
            return Withheld(own, _errors(self.up, up, x))

        return Algorithm(
            self._program(algorithm.round),
            server=server,
            client=client,
            model=lambda server: algorithm.model(server.inner),
            start=self._program(algorithm.start),
            first=None if algorithm.first is None else self._program(algorithm.first),
            diagnostics=_diagnostics_inside(algorithm.diagnostics),
        )

    def _program(self, program: Program) -> Program:
        def step(given: Step) -> Step:
            if isinstance(given, Repeat | OneByOne):
                return given._replace(program=self._program(given.program))
            if isinstance(given, AtServer):
                return AtServer(_inside(given.step))
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

        def client(memory: Withheld, down: Any, local: Local) -> tuple[Withheld, Any]:
            own, up = inner.client(memory.inner, _dense(down), local)
            if self.up is None:
                return memory._replace(inner=own), up
            message, errors = _compress(self.up, memory.errors, up, _vector_of(up), _link_key(local.key))
            return Withheld(own, errors), message

        def receive(server: Withheld, slots: Any, ups: Any, cohort: Cohort) -> tuple[Withheld, Any]:
            return _inside(inner.receive)(server, slots, ups if self.up is None else _dense_rows(ups), cohort)

        endpoint = inner.account.endpoint
        account = inner.account
        if endpoint is not None:
            account = account._replace(endpoint=lambda down, up: endpoint(_dense(down), _dense(up)))
        centre = _centre_inside(inner)
        return inner._replace(
            send=send, client=client, receive=receive, prepare=prepare, account=account, centre=centre
        )

    def __str__(self) -> str:
        parts = [f"{name} {c}" for name, c in (("up", self.up), ("down", self.down)) if c is not None]
        return ", ".join(parts)


def _nobody(loss: ClientLoss) -> Local:
    """A client that is asked for the shape of its answer only."""
    one = jnp.asarray(1, jnp.int32)
    return Local(loss, one, _no_key(), one, one, Full(), _no_key())


def _zeros(message: Callable[[], Any]) -> Any:
    """Zeros in the shape of a message, which is not computed."""
    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(message))


def _inside(receive: Receive) -> Receive:
    """What a server does to its memory, on a memory that carries errors beside it."""

    def lifted(server: Withheld, slots: Any, ups: Any, cohort: Cohort) -> tuple[Withheld, Any]:
        own, slots = receive(server.inner, slots, ups, cohort)
        return server._replace(inner=own), slots

    return lifted


def _diagnostics_inside(own: Diagnostics | None) -> Diagnostics | None:
    if own is None:
        return None
    return Diagnostics(
        client=lambda memory, x, loss: own.client(memory.inner, x, loss),
        server=lambda server, told, weights: own.server(server.inner, told, weights),
    )


def _carried_through(inner: Exchange) -> Exchange:
    """An exchange that is not compressed, on memories that carry errors beside them."""

    def client(memory: Withheld, down: Any, local: Local) -> tuple[Withheld, Any]:
        own, up = inner.client(memory.inner, down, local)
        return memory._replace(inner=own), up

    prepare = inner.prepare
    return inner._replace(
        send=lambda server, slot: inner.send(server.inner, slot),
        client=client,
        receive=_inside(inner.receive),
        prepare=None if prepare is None else lambda s, key: s._replace(inner=prepare(s.inner, key)),
        centre=_centre_inside(inner),
    )


def _centre_inside(inner: Exchange) -> Centre | None:
    """What the message up lies around, on a memory that carries errors beside it."""
    own = inner.centre
    return None if own is None else lambda memory, down: own(memory.inner, _dense(down))


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
