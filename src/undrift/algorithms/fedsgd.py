"""FedSGD: one gradient per client and round."""

from __future__ import annotations

from typing import Any

import jax

from ..local import Local
from ..protocol import Account, Algorithm, Cohort, Exchange, once
from ..recipe import method, positive


@method
def fedsgd(eta: float) -> Algorithm:
    """↓x; ↑G_i(x); x ← x − η mean_i G_i(x).

    McMahan et al., "Communication-efficient learning of deep networks from decentralized data" (2017), section 2.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.ones((2, 1, 1)), np.array([[1.0], [3.0]]))
    >>> ud.run(ud.fedsgd(eta=1.0), p, rounds=1).x
    array([2.])
    """
    positive(eta=eta)

    def client(memory: tuple[()], x: jax.Array, local: Local) -> tuple[tuple[()], jax.Array]:
        return memory, local.gradient(x)

    def receive(x: jax.Array, slots: Any, gradients: jax.Array, cohort: Cohort) -> tuple[jax.Array, Any]:
        return x - eta * cohort.mean(gradients), slots

    gradient = Exchange("gradient", lambda x, slot: x, client, receive, Account(once))
    return Algorithm((gradient,))
