"""What FedLin and FedTrack share: a direction g that corrects local steps from x, made of the clients' gradients G_i.

 - The paper's rule: g = C_down(e + mean h_i) with h_i = C_up(ρ_i + G_i), the mean over those that answered last.
 - A table: the server keeps what it last heard of every G_i, and g = Σ w_i G_i(kept) over *all* clients. Where nobody misses a
   round the two are the same, and nothing is kept.
 - Difference memory on the up-link: clients send C(G_i − h_i), both ends add it to h_i, and the server takes h_i for G_i.

Where nobody misses rounds a client keeps the x it was told last, and hears g alone; elsewhere it is told (x, g).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..compression import Compressor, arrived, feedback, receiver_memory, sender_memory
from ..errors import InputError
from ..links import Compressed
from ..protocol import Algorithm, Cohort, unseen
from ..randomness import tag
from ..signatures import Centre, Endpoint, Send
from ..wire import dense


class Server(NamedTuple):
    x: jax.Array
    g: Any  # the direction as it is sent: compressed, if it is
    e: Any = ()  # what the server's compressor has withheld so far
    g_1: Any = ()  # the first direction, never compressed; kept only if the others are
    mean: Any = ()  # Σ w_i G_i(kept), where a table is kept


class Slot(NamedTuple):
    """What the server keeps for one client."""

    G: Any = ()  # what it holds of G_i: the table, and h_i of a difference memory
    move: Any = ()  # what it holds of y_i − x, with a difference memory for models


class Sent(NamedTuple):
    """What a client keeps of what it sent."""

    rho: Any = ()  # ρ_i, or h_i of a difference memory
    move: Any = ()  # the same for y_i − x
    G: Any = ()  # what the server holds of G_i, where local steps are corrected by it


@dataclasses.dataclass(frozen=True)
class Links:
    """How gradients and models travel, and what is kept of them."""

    up: Compressor | None = None  # of G_i
    down: Compressor | None = None  # of g
    up_model: Compressor | None = None  # of y_i − x
    table: bool = False  # kept, because clients may miss rounds
    kept: bool = False  # local steps are corrected by what the server holds of G_i
    moves: bool = False  # clients send y_i − x, not y_i
    first: Any = None  # g_1, where it is given

    @property
    def holds(self) -> bool:
        """Whether the server keeps something of every G_i."""
        return self.table or (self.up is not None and self.up.differs)

    def endpoint(self, end: Callable[[Any], Any]) -> Endpoint:
        """Where a local path ended, `end(up)` being the part of a message that tells."""
        told = self.up_model is None or not self.up_model.differs
        return (lambda down, up: dense(end(up))) if told else unseen

    def centre(self, x: Centre) -> Centre:
        """What the end of a local path lies around, as it is sent: x, or zero where it is y_i − x that is sent."""
        return (lambda memory, down: 0.0) if self.moves else x

    # ----- memory at the start: a first direction that is given stands for every G_i until that is heard of, so g = Σ w_i G_i
    def server(self, x: jax.Array) -> tuple[Server, Slot]:
        g = _first(self.first, x)
        mean = g if self.table else ()
        slot = Slot(g if self.holds else (), receiver_memory(self.up_model, x))
        if self.down is None:
            return Server(x, g, mean=mean), slot
        # g is what round 2 sends if nobody answers in round 1.
        sent = self.down.compress(g, jax.random.key(0))
        return Server(x, sent, sender_memory(self.down, x), g, mean), slot

    def sent(self, x: jax.Array) -> Sent:
        g = _first(self.first, x)
        rho = g if self.up is not None and self.up.differs else sender_memory(self.up, x)
        return Sent(rho, sender_memory(self.up_model, x), g if self.kept else ())

    # ----- at a client
    def upload(self, sent: Sent, G: jax.Array, key: jax.Array) -> tuple[Sent, Any]:
        """h_i, or C(G_i − h_i)."""
        message, rho = feedback(self.up, sent.rho, G, key)
        own = arrived(self.up, sent.rho, message)[0] if self.kept else ()
        return sent._replace(rho=rho, G=own), message

    def upload_first(self, sent: Sent, G: jax.Array) -> tuple[Sent, Any]:
        """G_i(x_0) as it is; nothing where the first direction is given."""
        if self.first is not None:
            return sent, ()
        rho = G if self.up is not None and self.up.differs else sent.rho
        return sent._replace(rho=rho, G=G if self.kept else ()), G

    def upload_end(self, sent: Sent, y: jax.Array, x: jax.Array, key: jax.Array) -> tuple[Sent, Any]:
        """y_i, or y_i − x, compressed if it is."""
        if not self.moves:
            return sent, y
        message, left = feedback(self.up_model, sent.move, y - x, jax.random.fold_in(key, tag("move")))
        return sent._replace(move=left), message

    # ----- at the server
    def average(self, server: Server, slots: Slot, ends: Any, cohort: Cohort) -> tuple[Server, Slot]:
        """x ← mean y_i, or x + mean(y_i − x)"""
        if not self.moves:
            return server._replace(x=cohort.mean(ends, around=server.x)), slots
        moves, held = _heard(self.up_model, slots.move, ends)
        return server._replace(x=server.x + cohort.mean(moves)), slots._replace(move=held)

    def direct(self, server: Server, slots: Slot, messages: Any, cohort: Cohort) -> tuple[Server, Slot]:
        """g ← C_down(e + mean h_i); e ← e + mean h_i − g."""
        heard, _ = _heard(self.up, slots.G, messages)
        server, slots, mean = self._mean(server, slots, heard, cohort)
        g, e = feedback(self.down, server.e, mean, cohort.key)
        return server._replace(g=g, e=e), slots

    def direct_first(self, server: Server, slots: Slot, G: Any, cohort: Cohort) -> tuple[Server, Slot]:
        """g_1 = mean G_i, of all clients."""
        if self.first is not None:
            return server, slots
        server, slots, mean = self._mean(server, slots, G, cohort)
        if self.down is None:
            return server._replace(g=mean), slots
        return server._replace(g=self.down.compress(mean, cohort.key), g_1=mean), slots

    def _mean(self, server: Server, slots: Slot, heard: Any, cohort: Cohort) -> tuple[Server, Slot, jax.Array]:
        """Of all clients' gradients, those that did not answer taken from the table; without one, of those that answered."""
        new = slots._replace(G=heard) if self.holds else slots
        if not self.table:
            return server, new, cohort.mean(heard)
        mean = server.mean + cohort.total(heard - slots.G)
        return server._replace(mean=mean), new, mean


def _heard(link: Compressor | None, held: Any, messages: Any) -> tuple[Any, Any]:
    """The vectors that a cohort's messages stand for, and what is held of them; whole messages are passed on unopened."""
    if link is None:
        return messages, held
    return jax.vmap(lambda own, message: arrived(link, own, message))(held, messages)


def send_x(server: Any, slot: Any) -> jax.Array:
    """↓x"""
    x: jax.Array = server.x
    return x


def send_direction(every_round: bool, name: str = "g") -> Send:
    """↓g, or ↓(x, g) where a client may have missed x; `name`: where the server keeps g."""

    def send(server: Any, slot: Any) -> Any:
        g = getattr(server, name)
        return g if every_round else (server.x, g)

    return send


def with_differences_down(
    algorithm: Algorithm, down: Compressor | None, down_model: Compressor | None, every_round: bool
) -> Algorithm:
    """The algorithm with what is sent down compressed around it: g by differences, and x.

    A client that missed a round starts from an x that it is told as it is, and what it holds of g is not what others hold.
    """
    for name, exchange, link in (("down", "local", down), ("down_model", "gradient", down_model)):
        if link is None:
            continue
        if not every_round:
            raise InputError(
                f"{name}={link} follows what a client holds from round to round, and here clients may miss rounds "
                f"(participation, failures): use {'memory=True' if name == 'down' else 'up_model, or leave it out'}"
            )
        algorithm = Compressed(exchange, None, link)(algorithm)
    return algorithm


def check_links(**given: Any) -> None:
    """Refuse what are no compressors."""
    for name, link in given.items():
        if link is not None and not isinstance(link, Compressor):
            raise InputError(f"{name} must be a compressor such as ud.top_k(10), or None; got {link!r}")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is no truth value."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be True or False, got {value!r}")


def _first(given: Any, x: jax.Array) -> jax.Array:
    """g_1, as far as it is known before anyone was asked."""
    if given is None:
        return jnp.zeros_like(x)
    try:
        g_1 = jnp.asarray(given, x.dtype)
    except (TypeError, ValueError) as error:
        raise InputError(f"first_direction must be a vector of d numbers, or None; got {given!r}") from error
    if g_1.shape != x.shape:
        raise InputError(f"first_direction must have shape (d,) = {x.shape}, got {g_1.shape}")
    return g_1
