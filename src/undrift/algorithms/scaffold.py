"""SCAFFOLD: control variates against drift."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..errors import InputError
from ..local import Local, descend
from ..protocol import Account, Algorithm, Cohort, Diagnostics, Exchange, every_step
from ..recipe import method, positive
from ..sums import weighted
from .variates import mean_gradient


class Server(NamedTuple):
    x: jax.Array
    c: jax.Array


@method
def scaffold(eta: float, option: int = 2, server_eta: float = 1.0) -> Algorithm:
    """Client memory c_i = 0, server memory c = 0. ↓(x, c); y ← y − η(G_i(y) − c_i + c), τ_i steps from x;
    c_i⁺ = G_i(x) (option 1) or c_i − c + (x − y)/(τ_i η) (option 2); ↑(y − x, c_i⁺ − c_i);
    x ← x + η_s mean(y − x); c ← c + (|S|/m) mean(c_i⁺ − c_i).

    Memory survives rounds in which the client does not take part. Diagnostic: `variate_error` = ‖c − Σ w_i c_i‖.
    Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning" (2020), Algorithm 1.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> bool(np.allclose(ud.run(ud.scaffold(eta=0.02), p, rounds=300, steps=10).x, p.optimum.x))
    True
    """
    positive(eta=eta, server_eta=server_eta)
    if option not in (1, 2):
        raise InputError(f"SCAFFOLD has the options 1 and 2, got {option!r}")

    def client(c_i: jax.Array, down: Server, local: Local) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        x, c = down
        # Option 1 needs G_i(x), which is the first local gradient as well.
        gradient = local.gradient(x) if option == 1 else None
        y = descend(local, x, eta, shift=c - c_i, first=gradient)
        new = gradient if gradient is not None else mean_gradient(c_i, c, x - y, local.steps * eta)
        return new, (y - x, new - c_i)

    def receive(server: Server, slots: Any, ups: Any, cohort: Cohort) -> tuple[Server, Any]:
        moves, changes = ups
        return Server(server.x + server_eta * cohort.mean(moves), server.c + cohort.total(changes)), slots

    local_steps = Exchange(
        "local",
        send=lambda server, slot: server,
        client=client,
        receive=receive,
        account=Account(every_step, endpoint=lambda down, up: down.x + up[0]),
    )
    return Algorithm(
        (local_steps,),
        server=lambda x: (Server(x, jnp.zeros_like(x)), ()),
        client=lambda x, loss: jnp.zeros_like(x),
        model=lambda server: server.x,
        diagnostics=Diagnostics(
            client=lambda c_i, x, loss: c_i,
            server=lambda server, c_i, weights: {"variate_error": jnp.linalg.norm(server.c - weighted(weights, c_i))},
        ),
    )
