"""In which order components are refreshed (FedTrack, IAG)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp

from ..errors import InputError, unknown
from ..local import Local
from ..protocol import Gradients
from ..randomness import device_shuffle_keys, shuffled
from ..signatures import Work

if TYPE_CHECKING:
    from ..problems.client import ClientLoss

ORDERS = ("cyclic", "reshuffled", "uniform")


class OwnOrder(Protocol):
    """A user's order."""

    def __call__(self, refresh: Any, count: Any, round: Any, client: Any, /) -> Any:
        """j, the component of this refresh."""


Order = str | tuple[int, ...] | OwnOrder


def check_order(order: Order) -> None:
    """Refuse what is not an order."""
    if isinstance(order, str) and order not in ORDERS:
        raise unknown("order", order, ORDERS)
    if isinstance(order, tuple) and (not order or any(int(j) != j or j < 0 for j in order)):
        raise InputError(f"a fixed order lists component numbers ≥ 0, got {order}")
    if not isinstance(order, str | tuple) and not callable(order):
        raise InputError(
            f"an order is 'cyclic', 'reshuffled', 'uniform', a list of components, or a function; got {order!r}"
        )


def component_at(order: Order, refresh: Any, count: Any, local: Local) -> jax.Array:
    """j: the component of the refresh-th refresh (0, 1, …) of a client with `count` components.

    cyclic: 0, 1, …, count − 1, 0, …; reshuffled: a new random order every round and after every pass; uniform: each drawn
    from all, independently of the others (FedTrack's footnote on SVRG); a list: its entries over and over (taken modulo count);
    a function (refresh, count, round, client) -> j.
    """
    if order == "cyclic":
        return refresh % count
    if order == "reshuffled":
        keys = device_shuffle_keys(jax.random.fold_in(local.key, refresh // count))
        return shuffled(refresh % count, count, keys, jnp)
    if order == "uniform":
        return jax.random.randint(jax.random.fold_in(local.key, refresh), (), 0, count)
    if isinstance(order, tuple):
        return jnp.asarray(order)[refresh % len(order)] % count
    assert callable(order)
    return jnp.asarray(order(refresh, count, local.round, local.client)) % count


def empty_table(loss: ClientLoss, x: jax.Array, batch: int) -> Any:
    """Zeros in the shape of a table of component gradients."""
    shapes = jax.eval_shape(lambda x: loss.track(x, batch)[0], x)
    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)


def check_batch(batch: int) -> None:
    if int(batch) != batch or batch < 1:
        raise InputError(f"a component is a whole number of samples ≥ 1, got batch = {batch!r}")


def table_work(batch: int) -> Work:
    """What it takes to fill a table: every component once."""
    return lambda steps, sizes: Gradients(-(-sizes // batch), sizes)
