"""Baselines that hold all data in one place: gradient descent and SGD on the pooled problem."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from ..local import descend
from ..method import Method, method, positive
from ..oracles import minibatch
from ..protocol import Algorithm, Cohort, Exchange, Memory


@method(centralised=True)
def gd(eta: float) -> Algorithm:
    """τ steps x ← x − η ∇f(x) a round, on all data; no messages.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.ones((2, 1, 1)), np.array([[1.0], [3.0]]))
    >>> ud.run(ud.gd(eta=0.5), p, rounds=1, steps=2).x
    array([1.5])
    """
    positive(eta=eta)

    def client(memory: tuple[()], x: jax.Array, local: Any) -> tuple[tuple[()], jax.Array]:
        return memory, descend(local, x, eta)

    def receive(x: jax.Array, slots: Any, y: jax.Array, cohort: Cohort) -> tuple[jax.Array, Any]:
        return cohort.mean(y), slots

    steps = Exchange("steps", lambda x, slot: x, client, receive, work=lambda steps: steps, on_wire=False)
    return Algorithm(init=Memory, round=(steps,), model=lambda x: x)


def sgd(eta: float, batch: int = 1, replace: bool = True) -> Method:
    """τ steps a round with mini-batches of the pooled data; no messages.

    >>> import undrift as ud
    >>> print(ud.sgd(eta=0.1, batch=8))
    sgd(eta=0.1)
    """
    made: Method = gd(eta=eta)
    recipe = dataclasses.replace(made.recipe, name="sgd", oracle=minibatch(batch, replace))
    return dataclasses.replace(made, recipe=recipe)
