"""Baselines that hold all data in one place: gradient descent, SGD and IAG on the pooled problem."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ..errors import InputError, unknown
from ..local import Local, descend
from ..oracles import minibatch
from ..protocol import Account, Algorithm, Cohort, Exchange, Gradients, every_step
from ..recipe import Method, method, positive
from .tracking import Order, check_batch, check_order, component_at, empty_table, table_work

if TYPE_CHECKING:
    from ..problems.client import ClientLoss


@method(centralised=True)
def gd(eta: float) -> Algorithm:
    """τ steps x ← x − η ∇f(x) a round, on all data; no messages.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.ones((2, 1, 1)), np.array([[1.0], [3.0]]))
    >>> ud.run(ud.gd(eta=0.5), p, rounds=1, steps=2).x
    array([1.5])
    """
    positive(eta=eta)

    def client(memory: tuple[()], x: jax.Array, local: Local) -> tuple[tuple[()], jax.Array]:
        return memory, descend(local, x, eta)

    def receive(x: jax.Array, slots: Any, y: jax.Array, cohort: Cohort) -> tuple[jax.Array, Any]:
        return cohort.mean(y), slots

    steps = Exchange("steps", lambda x, slot: x, client, receive, Account(every_step, on_wire=False))
    return Algorithm((steps,))


def _checked(function: Callable[..., Method]) -> Callable[..., Method]:
    """The same errors for wrong parameters as the factories give."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Method:
        for given in kwargs:
            if given not in signature.parameters:
                raise unknown(f"parameter of {function.__name__}", given, signature.parameters)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputError(f"{function.__name__}{signature}: {error}") from None
        return function(*bound.args, **bound.kwargs)

    return checked


@_checked
def sgd(eta: float, batch: int = 1, replace: bool = True) -> Method:
    """τ steps a round with mini-batches of the pooled data; no messages.

    >>> import undrift as ud
    >>> print(ud.sgd(eta=0.1, batch=8))
    sgd(eta=0.1)
    """
    made: Method = gd(eta=eta)
    recipe = dataclasses.replace(made.recipe, name="sgd", oracle=minibatch(batch, replace))
    return dataclasses.replace(made, recipe=recipe)


class Aggregated(NamedTuple):
    table: Any  # the latest gradient of every component
    total: jax.Array  # their sum
    refreshes: jax.Array  # so far


@method(centralised=True)
def iag(eta: float, order: Order = "cyclic", batch: int = 1) -> Algorithm:
    """Incremental aggregated gradient on all data: τ steps a round, each refreshing one component and then moving along all.

    Blatt, Hero, Gauchman, "A convergent incremental gradient method with a constant step size" (2007); `order` and `batch` as
    for FedTrack. In the history, `gradients` counts components.

    >>> import numpy as np, undrift as ud
    >>> A, b = np.array([[[1.0], [2.0]], [[3.0], [1.0]]]), np.array([[1.0, 1.0], [2.0, 5.0]])
    >>> p = ud.problems.least_squares(A, b)
    >>> bool(np.allclose(ud.run(ud.iag(eta=0.02), p, rounds=100, steps=10).x, p.optimum.x))
    True
    """
    positive(eta=eta)
    check_order(order)
    check_batch(batch)

    def remember(x: jax.Array, loss: ClientLoss) -> Aggregated:
        return Aggregated(empty_table(loss, x, batch), jnp.zeros_like(x), jnp.asarray(0, jnp.int32))

    def fill(memory: Aggregated, x: jax.Array, local: Local) -> tuple[Aggregated, tuple[()]]:
        table, total = local.loss.track(x, batch)
        return Aggregated(table, total, memory.refreshes), ()

    def client(memory: Aggregated, x: jax.Array, local: Local) -> tuple[Aggregated, jax.Array]:
        count = local.loss.component_count(batch)

        def step(k: jax.Array, carry: Any) -> Any:
            y, (table, total, refreshes) = carry
            j = component_at(order, refreshes, count, local)
            table, change = local.loss.refresh(table, j, y, batch)
            total = total + change
            return y - eta * total, Aggregated(table, total, refreshes + 1)

        y, memory = jax.lax.fori_loop(0, local.steps, step, (x, memory))
        return memory, y

    def receive(x: jax.Array, slots: Any, y: jax.Array, cohort: Cohort) -> tuple[jax.Array, Any]:
        return cohort.mean(y), slots

    def one_each(steps: Any, sizes: Any) -> Gradients:
        return Gradients(steps, steps * batch)

    whole_table = Account(table_work(batch), on_wire=False)
    first = Exchange("table", lambda x, slot: x, fill, lambda x, s, u, c: (x, s), whole_table)
    walk = Exchange("steps", lambda x, slot: x, client, receive, Account(one_each, on_wire=False))
    return Algorithm((walk,), client=remember, start=(first,))
