"""FedLin: exact linear convergence under different data and different client speeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ..compression import Compressor, feedback, no_error
from ..errors import InputError
from ..local import Local, descend
from ..protocol import Account, Algorithm, Cohort, Diagnostics, Exchange, Gradients, every_step, once
from ..recipe import method, positive
from ..sums import weighted
from ..wire import dense
from .correction import average, centre_of, send_direction, send_x

if TYPE_CHECKING:
    from ..problems.client import ClientLoss


class Server(NamedTuple):
    x: jax.Array
    g: Any  # the direction as it is sent: compressed, if it is
    e: Any  # what the server's compressor has withheld so far
    g_1: Any  # the first direction, never compressed; kept only if the others are


class Client(NamedTuple):
    x: Any  # the model; kept where nobody misses a round, so that it need not be sent again
    G: jax.Array  # ∇f_i(x)
    rho: Any  # ρ_i, what the client's compressor has withheld so far


DIAGNOSTICS = Diagnostics(
    client=lambda memory, x, loss: loss.gradient(x),
    server=lambda server, G, weights: {"direction_error": jnp.linalg.norm(dense(server.g) - weighted(weights, G))},
)


@method
def fedlin(
    eta: float,
    up: Compressor | None = None,
    down: Compressor | None = None,
    first_direction: Any = None,
    every_round: bool = True,
) -> Algorithm:
    """Algorithm 1 of the paper, in full; η is η̄, client i steps with η̄/τ_i.

    Start: ↓x; G_i = G_i(x); ↑G_i; g = mean G_i, uncompressed. Then in every round
     1. ↓g; y ← y − (η̄/τ_i)(G_i(y) − G_i + g), τ_i steps from x; ↑y_i; x ← mean y_i
     2. ↓x; G_i = G_i(x); h_i = C_up(ρ_i + G_i); ρ_i ← ρ_i + G_i − h_i; ↑h_i; g = C_down(e + mean h_i); e ← e + mean h_i − g.

    `up`, `down`: compressors of h_i and g, with memory (Theorems 7, 8) or without (Theorem 6). `first_direction`: g_1 in place
    of the mean gradient (the paper allows any); nothing is sent up at the start then. G_i is also the gradient of the next
    round's first local step, so a round costs τ_i gradients and two vectors down. A client that may have missed the last round
    (partial participation, failures) is told (x, g) in 1 and asks for G_i(x) again: τ_i + 1 gradients.
    Diagnostic: `direction_error` = ‖g − ∇f(x)‖.

    Mitra, Jaafar, Pappas, Hassani, "Linear convergence in federated learning: tackling client heterogeneity and sparse
    gradients" (2021).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> r = ud.run(ud.fedlin(eta=0.1), p, rounds=300, steps=[50, 30])
    >>> bool(np.allclose(r.x, 103 / 3, rtol=1e-14))
    True
    """
    positive(eta=eta)

    def server(x: jax.Array) -> tuple[Server, tuple[()]]:
        g_1 = _first(first_direction, x)
        if down is None:
            return Server(x, g_1, (), ()), ()
        # g is what round 2 sends if nobody answers in round 1.
        return Server(x, down.compress(g_1, jax.random.key(0)), no_error(down, x), g_1), ()

    def client(x: jax.Array, loss: ClientLoss) -> Client:
        return Client(x if every_round else (), jnp.zeros_like(x), no_error(up, x))

    def take_gradient(memory: Client, x: jax.Array, local: Local) -> Client:
        return Client(x if every_round else (), local.gradient(x), memory.rho)

    def take_local_steps(memory: Client, message: Any, local: Local) -> tuple[Client, jax.Array]:
        x, g = (memory.x, message) if every_round else message
        memory = memory if every_round else take_gradient(memory, x, local)
        return memory, descend(local, x, eta / local.steps, shift=dense(g) - memory.G, first=memory.G)

    def upload_gradient(memory: Client, x: jax.Array, local: Local) -> tuple[Client, Any]:
        memory = take_gradient(memory, x, local)
        h, rho = feedback(up, memory.rho, memory.G, local.key)
        return memory._replace(rho=rho), h

    def new_direction(server: Server, slots: Any, h: Any, cohort: Cohort) -> tuple[Server, Any]:
        mean = cohort.mean(h if up is None else jax.vmap(dense)(h))
        g, e = feedback(down, server.e, mean, cohort.key)
        return server._replace(g=g, e=e), slots

    def first_gradient(memory: Client, x: jax.Array, local: Local) -> tuple[Client, Any]:
        memory = take_gradient(memory, x, local)
        return memory, memory.G if first_direction is None else ()

    def first_mean(server: Server, slots: Any, G: Any, cohort: Cohort) -> tuple[Server, Any]:
        if first_direction is not None:
            return server, slots
        mean = cohort.mean(G)
        if down is None:
            return server._replace(g=mean), slots
        return server._replace(g=down.compress(mean, cohort.key), g_1=mean), slots

    work = (lambda steps, sizes: Gradients(steps - 1)) if every_round else every_step
    account = Account(work, endpoint=lambda message, y: y)
    centre = centre_of(every_round, lambda memory: memory.x)
    local_steps = Exchange("local", send_direction(every_round), take_local_steps, average, account, centre=centre)
    first_steps = local_steps._replace(send=send_direction(every_round, "g_1"))
    gradient = Exchange("gradient", send_x, upload_gradient, new_direction, Account(once))
    return Algorithm(
        round=(local_steps, gradient),
        server=server,
        client=client,
        model=lambda server: server.x,
        start=(Exchange("first gradient", send_x, first_gradient, first_mean, Account(once)),),
        first=None if down is None else (first_steps, gradient),
        diagnostics=DIAGNOSTICS,
    )


def _first(given: Any, x: jax.Array) -> jax.Array:
    """g_1, as far as it is known before anyone was asked."""
    if given is None:
        return jnp.zeros_like(x)
    g_1 = jnp.asarray(given, x.dtype)
    if g_1.shape != x.shape:
        raise InputError(f"first_direction must have shape (d,) = {x.shape}, got {g_1.shape}")
    return g_1
