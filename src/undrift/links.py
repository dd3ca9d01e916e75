"""Compression of one direction of one exchange, for any method.

    compressed(scaffold(eta=0.1), up=top_k(50), down=top_k(100))

Every vector of length d in a message is compressed on its own; other parts travel as they are. With error feedback, the end
that compresses keeps what it withheld: a client beside its own memory, the server beside its. Compress differences (what
clients send in FedAvg, SCAFFOLD, FedNova), not models: a sparse model is not a small error.

With difference memory both ends keep what the receiver holds: a client beside its memory, the server in the client's slot,
so that each client is told what is new to it, however many rounds it missed. Models can be sent so too; both ends know the
message that belongs to x_0 and begin with it. What arrives lags behind and catches up, so it suits values (gradients, models,
moves); increments that the server adds up (SCAFFOLD's c_i⁺ − c_i) need error feedback, which delivers their sum.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .compression import Compressor, arrived, feedback, receiver_memory, sender_memory
from .errors import InputError, unknown
from .local import Local
from .oracles import Full
from .problems.client import ClientLoss
from .protocol import (
    Algorithm,
    AtServer,
    Cohort,
    Diagnostics,
    Exchange,
    OneByOne,
    Program,
    Repeat,
    Step,
    exchanges,
    unseen,
)
from .randomness import tag
from .recipe import Method, as_method
from .signatures import Centre, Endpoint, Receive
from .wire import Packed, dense


class Withheld(NamedTuple):
    """A memory with what compressors keep beside it."""

    inner: Any
    errors: Any  # of the messages that this end sends, one for each vector
    message: Any = ()  # at the server: the message of this exchange, or the key that belongs to it
    held: Any = ()  # at a client: what it holds of the server's messages


class Slot(NamedTuple):
    """What the server keeps for one client beside the method's own slot, one for each vector; nothing without differences."""

    inner: Any
    held: Any = ()  # of the client's messages
    told: Any = ()  # what the client holds of the server's


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

        def first_up(x: jax.Array, loss: ClientLoss) -> Any:
            own = algorithm.client(x, loss)
            up = _zeros(lambda: inner.client(own, inner.send(*algorithm.server(x)), _nobody(loss))[1])
            return _whole(up, f"what clients send in exchange {self.exchange!r}", self.up)

        def first_told(x: jax.Array) -> Any:
            """What both ends take to have been told before anything was: the message that belongs to x_0."""
            return _vectors(first_down(*algorithm.server(x)), x)

        def first_down(own: Any, slot: Any) -> Any:
            return _whole(inner.send(own, slot), f"what the server sends in exchange {self.exchange!r}", self.down)

        def server(x: jax.Array) -> tuple[Withheld, Slot]:
            own, slot = algorithm.server(x)
            held = _each(receiver_memory, self.up, first_up(x, Anyone()), x) if _differs(self.up) else ()
            if self.down is None:
                return Withheld(own, ()), Slot(slot, held)
            if self.down.differs:
                return Withheld(own, (), jax.random.key_data(_no_key())), Slot(slot, held, first_told(x))
            down = _zeros(lambda: first_down(own, slot))
            errors = _each(sender_memory, self.down, down, x)
            return Withheld(own, errors, _compress(self.down, errors, down, x, _no_key())[0]), Slot(slot, held)

        def client(x: jax.Array, loss: ClientLoss) -> Withheld:
            own = algorithm.client(x, loss)
            errors = () if self.up is None else _each(sender_memory, self.up, first_up(x, loss), x)
            return Withheld(own, errors, (), first_told(x) if _differs(self.down) else ())

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
            if self.down.differs:  # each client is told what is new to it
                return server._replace(inner=own, message=jax.random.key_data(_link_key(key)))
            down = inner.send(own, ())
            message, errors = _compress(self.down, server.errors, down, _vector_of(down), _link_key(key))
            return Withheld(own, errors, message)

        def tell(server: Withheld, slot: Slot) -> tuple[Any, Any]:
            """What is new to this client, and what it holds then."""
            assert self.down is not None
            down, key = inner.send(server.inner, slot.inner), jax.random.wrap_key_data(server.message)
            return _compress(self.down, slot.told, down, _vector_of(down), key)

        def send(server: Withheld, slot: Slot) -> Any:
            if self.down is None:
                return inner.send(server.inner, slot.inner)
            return tell(server, slot)[0] if self.down.differs else server.message

        def client(memory: Withheld, down: Any, local: Local) -> tuple[Withheld, Any]:
            down, held = _arrive(self.down, memory.held, down)
            own, up = inner.client(memory.inner, down, local)
            memory = memory._replace(inner=own, held=held)
            if self.up is None:
                return memory, up
            message, errors = _compress(self.up, memory.errors, up, _vector_of(up), _link_key(local.key))
            return memory._replace(errors=errors), message

        def receive(server: Withheld, slots: Slot, ups: Any, cohort: Cohort) -> tuple[Withheld, Slot]:
            if _differs(self.down):
                slots = slots._replace(told=jax.vmap(lambda slot: tell(server, slot)[1])(slots))
            if self.up is not None:
                ups, held = jax.vmap(lambda held, up: _arrive(self.up, held, up))(slots.held, ups)
                slots = slots._replace(held=held)
            return _inside(inner.receive)(server, slots, ups, cohort)

        endpoint = inner.account.endpoint
        account = inner.account
        if endpoint is not None:
            account = account._replace(endpoint=self._endpoint(endpoint))
        centre = _centre_inside(inner, self.down)
        return inner._replace(
            send=send, client=client, receive=receive, prepare=prepare, account=account, centre=centre
        )

    def _endpoint(self, inner: Endpoint) -> Endpoint:
        """Where a client's local path ended, as the server hears it; differences do not tell."""
        if _differs(self.up) or _differs(self.down):
            return unseen
        return lambda down, up: inner(_dense(down), _dense(up))

    def __str__(self) -> str:
        parts = [f"{name} {c}" for name, c in (("up", self.up), ("down", self.down)) if c is not None]
        return ", ".join(parts)


class Anyone(ClientLoss):
    """A client of whom the server knows nothing, asked for the shape of its answers only."""

    capacity = 1

    def loss(self, x: jax.Array) -> jax.Array:
        return jnp.sum(x)

    def partial_gradient(self, x: jax.Array, indices: jax.Array, weights: jax.Array) -> jax.Array:
        return x

    def prox(self, centre: jax.Array, s: Any) -> jax.Array:
        return centre


def _differs(compressor: Compressor | None) -> bool:
    return compressor is not None and compressor.differs


def _nobody(loss: ClientLoss) -> Local:
    """A client that is asked for the shape of its answer only."""
    one = jnp.asarray(1, jnp.int32)
    return Local(loss, one, _no_key(), one, one, Full(), _no_key())


def _zeros(message: Callable[[], Any]) -> Any:
    """Zeros in the shape of a message, which is not computed."""
    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(message))


def _inside(receive: Receive) -> Receive:
    """What a server does to its memory, on a memory that carries errors beside it."""

    def lifted(server: Withheld, slots: Slot, ups: Any, cohort: Cohort) -> tuple[Withheld, Slot]:
        own, inside = receive(server.inner, slots.inner, ups, cohort)
        return server._replace(inner=own), slots._replace(inner=inside)

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
        send=lambda server, slot: inner.send(server.inner, slot.inner),
        client=client,
        receive=_inside(inner.receive),
        prepare=None if prepare is None else lambda s, key: s._replace(inner=prepare(s.inner, key)),
        centre=_centre_inside(inner),
    )


def _centre_inside(inner: Exchange, link: Compressor | None = None) -> Centre | None:
    """What the message up lies around, on a memory that carries errors beside it; `link`: what the message down came by."""
    own = inner.centre
    return None if own is None else lambda memory, down: own(memory.inner, _arrive(link, memory.held, down)[0])


def _is_vector(leaf: Any, x: jax.Array) -> bool:
    return leaf.shape == x.shape and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _vector_of(message: Any) -> jax.Array:
    """The vectors of a message are its longest floating leaves."""
    return max(jax.tree.leaves(message), key=lambda leaf: leaf.size)


def _vectors(message: Any, x: jax.Array) -> list[Any]:
    """The vectors of a message, nothing for its other parts."""
    return [leaf if _is_vector(leaf, x) else () for leaf in jax.tree.leaves(message)]


def _each(
    memory: Callable[[Compressor | None, jax.Array], Any], compressor: Compressor | None, message: Any, x: jax.Array
) -> list[Any]:
    """What an end keeps at the start, for every vector of a message."""
    return [memory(compressor, leaf) if _is_vector(leaf, x) else () for leaf in jax.tree.leaves(message)]


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


def _arrive(compressor: Compressor | None, held: Any, message: Any) -> tuple[Any, Any]:
    """A message as its receiver takes it, and what the receiver holds then."""
    if not _differs(compressor):
        return _dense(message), held
    parts, structure = jax.tree.flatten(message, is_leaf=_is_packed)
    both = [
        arrived(compressor, mine, part) if _is_packed(part) else (part, mine)
        for mine, part in zip(held, parts, strict=True)
    ]
    vectors, held = ([pair[k] for pair in both] for k in (0, 1))
    return jax.tree.unflatten(structure, vectors), held


def _whole(message: Any, what: str, link: Compressor | None) -> Any:
    """The message; one with compressed parts is refused."""
    if any(map(_is_packed, jax.tree.leaves(message, is_leaf=_is_packed))):
        raise InputError(
            f"{what} is compressed already, and {link} would compress it once more: say one compressor only"
        )
    return message


def _is_packed(node: Any) -> bool:
    return isinstance(node, Packed)


def _dense(message: Any) -> Any:
    return jax.tree.map(dense, message, is_leaf=_is_packed)


def _link_key(key: jax.Array) -> jax.Array:
    """The randomness of a compressor, apart from that of the gradients it compresses (they fold step numbers in)."""
    return jax.random.fold_in(key, tag("link"))


def _no_key() -> jax.Array:
    return jax.random.key(0)
