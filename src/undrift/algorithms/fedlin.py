"""FedLin: exact linear convergence under different data and different client speeds."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..compression import Compressor, feedback, no_error
from ..local import descend
from ..protocol import Algorithm, Cohort, Exchange, Memory
from ..recipe import method, positive
from ..wire import dense


class Server(NamedTuple):
    x: jax.Array
    g: Any  # the direction as it is sent: compressed, if it is
    e: Any  # what the server's compressor has withheld so far
    g_1: Any  # the first direction, never compressed; kept only if the others are


class Client(NamedTuple):
    G: jax.Array  # ∇f_i(x)
    rho: Any  # ρ_i, what the client's compressor has withheld so far


@method
def fedlin(eta: float, up: Compressor | None = None, down: Compressor | None = None) -> Algorithm:
    """Algorithm 1 of the paper, in full; η is η̄, client i steps with η̄/τ_i.

    Start: g = ∇f(x), uncompressed. Then in every round
     1. ↓(x, g); y ← y − (η̄/τ_i)(G_i(y) − G_i(x) + g), τ_i steps from x; ↑y_i; x ← mean y_i
     2. ↓x; h_i = C_up(ρ_i + G_i(x)); ρ_i ← ρ_i + G_i(x) − h_i; ↑h_i; g = C_down(e + mean h_i); e ← e + mean h_i − g.

    `up`, `down`: compressors of h_i and g, with memory (Theorems 7, 8) or without (Theorem 6). G_i(x) of step 2 is kept: it
    is also the gradient of the next round's first local step, so a round costs τ_i gradients. A client that may have missed
    the last round (partial participation, failures) cannot rely on it and asks again: τ_i + 1.

    Mitra, Jaafar, Pappas, Hassani, "Linear convergence in federated learning: tackling client heterogeneity and sparse
    gradients" (2021).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> r = ud.run(ud.fedlin(eta=0.1), p, rounds=300, steps=[50, 30])
    >>> bool(np.allclose(r.x, 103 / 3, rtol=1e-14))
    True
    """
    positive(eta=eta)

    def init(x: jax.Array) -> Memory:
        zero = jnp.zeros_like(x)
        g = zero if down is None else down.compress(zero, jax.random.key(0))
        return Memory(
            Server(x, g, no_error(down, x), () if down is None else zero), clients=Client(zero, no_error(up, x))
        )

    def take_local_steps(memory: Client, message: tuple[jax.Array, Any], local: Any) -> tuple[Client, jax.Array]:
        x, g = message
        G = memory.G if local.every_round else local.gradient(x)
        y = descend(local, x, eta / local.steps, shift=dense(g) - G, first=G)
        return memory._replace(G=G), y

    def average(server: Server, slots: Any, y: jax.Array, cohort: Cohort) -> tuple[Server, Any]:
        return server._replace(x=cohort.mean(y)), slots

    def upload_gradient(memory: Client, x: jax.Array, local: Any) -> tuple[Client, Any]:
        G = local.gradient(x)
        h, rho = feedback(up, memory.rho, G, local.key)
        return Client(G, rho), h

    def new_direction(server: Server, slots: Any, h: Any, cohort: Cohort) -> tuple[Server, Any]:
        mean = cohort.mean(h if up is None else jax.vmap(dense)(h))
        g, e = feedback(down, server.e, mean, cohort.key)
        return server._replace(g=g, e=e), slots

    def first_gradient(memory: Client, x: jax.Array, local: Any) -> tuple[Client, jax.Array]:
        G = local.gradient(x)
        return memory._replace(G=G), G

    def first_direction(server: Server, slots: Any, G: jax.Array, cohort: Cohort) -> tuple[Server, Any]:
        mean = cohort.mean(G)
        if down is None:
            return server._replace(g=mean), slots
        # g is what round 2 sends if nobody answers in round 1.
        return server._replace(g=down.compress(mean, cohort.key), g_1=mean), slots

    def once(steps: Any) -> Any:
        return 0 * steps + 1

    start = Exchange("first gradient", lambda s, slot: s.x, first_gradient, first_direction, work=once)
    local_steps = Exchange(
        "local",
        send=lambda server, slot: (server.x, server.g),
        client=take_local_steps,
        receive=average,
        work=lambda steps: steps - 1,
        work_if_absent=lambda steps: steps,
        endpoint=lambda message, y: y,
    )
    gradient = Exchange("gradient", lambda s, slot: s.x, upload_gradient, new_direction, work=once)
    first_steps = local_steps._replace(send=lambda server, slot: (server.x, server.g_1))
    return Algorithm(
        init=init,
        start=(start,),
        first=None if down is None else (first_steps, gradient),
        round=(local_steps, gradient),
        model=lambda server: server.x,
    )
