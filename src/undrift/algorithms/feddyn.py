"""FedDyn: a linear term at each client that learns its gradient at the minimiser."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..local import Local, descend
from ..protocol import Account, Algorithm, Cohort, Exchange, every_step
from ..recipe import method, positive


class Server(NamedTuple):
    x: jax.Array
    h: jax.Array


@method
def feddyn(eta: float, alpha: float) -> Algorithm:
    """Client memory λ_i = 0, server memory h = 0. ↓x; y ← y − η(G_i(y) − λ_i + α(y − x)), τ_i steps from x;
    λ_i ← λ_i − α(y_i − x); ↑y_i − x; h ← h − α (|S|/m) mean(y_i − x); x ← x + mean(y_i − x) − h/α.

    The paper's clients minimise f_i(y) − ⟨λ_i, y⟩ + (α/2)‖y − x‖² exactly; here they take τ_i gradient steps towards that.
    h = Σ w_i λ_i always. Where nothing moves any more, y_i = x gives λ_i = ∇f_i(x) and h = 0 gives ∇f(x) = 0: it can rest at
    the minimiser alone, however few local steps are taken, whoever takes part. One vector each way, half of SCAFFOLD's.
    Acar, Zhao, Matas, Mattina, Whatmough, Saligrama, "Federated learning based on dynamic regularization" (2021), Algorithm 1.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> bool(np.allclose(ud.run(ud.feddyn(eta=0.1, alpha=2.0), p, rounds=300, steps=10).x, p.optimum.x))
    True
    """
    positive(eta=eta, alpha=alpha)

    def client(lam: jax.Array, x: jax.Array, local: Local) -> tuple[jax.Array, jax.Array]:
        move = descend(local, x, eta, shift=-lam, pull=alpha) - x
        return lam - alpha * move, move

    def receive(server: Server, slots: Any, moves: jax.Array, cohort: Cohort) -> tuple[Server, Any]:
        h = server.h - alpha * cohort.total(moves)
        return Server(server.x + cohort.mean(moves) - h / alpha, h), slots

    local_steps = Exchange(
        "local",
        send=lambda server, slot: server.x,
        client=client,
        receive=receive,
        account=Account(every_step, endpoint=lambda x, move: x + move),
    )
    return Algorithm(
        (local_steps,),
        server=lambda x: (Server(x, jnp.zeros_like(x)), ()),
        client=lambda x, loss: jnp.zeros_like(x),
        model=lambda server: server.x,
    )
