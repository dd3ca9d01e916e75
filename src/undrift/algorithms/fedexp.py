"""FedExP: FedAvg whose server goes further the more the clients' moves differ."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..local import Local, Solver
from ..protocol import Account, Algorithm, Cohort, Exchange, every_step
from ..recipe import method, not_negative, positive
from .correction import check_flag


class Server(NamedTuple):
    x: jax.Array
    before: Any  # x of the round before, where the two are averaged


@method
def fedexp(
    eta: float, epsilon: float = 1e-3, average: bool = False, solver: Any = None, keep_solver: bool = False
) -> Algorithm:
    """↓x; y_i = τ_i steps y ← y − η G_i(y) from x; ↑Δ_i = x − y_i; Δ̄ = mean Δ_i;
    η_s = max{1, mean‖Δ_i‖² / (2(‖Δ̄‖² + ε))}; x ← x − η_s Δ̄.

    Where all clients move alike η_s is 1 and this is FedAvg; where their moves are orthogonal and of one length it is m/2. ε is
    on the scale of ‖Δ̄‖²: where that is far smaller, η_s falls to 1. The authors' program takes 10⁻³ or 10⁻¹ on images, lets it
    decay as η² does (here: a schedule of the round), and has |S|ε in its place. `average`: the model that is evaluated is the
    mean of the last two, as in the paper, because x may oscillate; what is sent stays the last one. `solver`, `keep_solver`: as
    in `fedavg`. Means are those of all methods (docs/participation.md), the paper's where weights are equal.
    Jhunjhunwala, Wang, Joshi, "FedExP: speeding up federated averaging via extrapolation" (2023).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.least_squares(np.eye(4)[:, None, :], np.ones((4, 1)))  # client i sees entry i alone
    >>> ends = [ud.run(m, p, rounds=5, steps=1).history["gap"][-1] for m in (ud.fedavg(eta=0.5), ud.fedexp(eta=0.5, epsilon=0))]
    >>> f"{ends[0]:.4f} {ends[1]:.4f}"
    '0.1315 0.0282'
    """
    positive(eta=eta)
    not_negative(epsilon=epsilon)
    check_flag("average", average)
    local_solver = Solver.of(solver, eta, keep_solver)

    def client(memory: Any, x: jax.Array, local: Local) -> tuple[Any, jax.Array]:
        y, memory = local_solver.descend(memory, local, x)
        return memory, x - y

    def receive(server: Server, slots: Any, back: jax.Array, cohort: Cohort) -> tuple[Server, Any]:
        mean, square = cohort.mean((back, jnp.sum(back * back, axis=-1)))
        x = server.x - extrapolation(square, jnp.sum(mean * mean), epsilon) * mean
        return Server(x, server.x if average else ()), slots

    local_steps = Exchange(
        "local",
        send=lambda server, slot: server.x,
        client=client,
        receive=receive,
        account=Account(every_step, endpoint=lambda x, back: x - back),
    )
    return Algorithm(
        (local_steps,),
        server=lambda x: (Server(x, x if average else ()), ()),
        client=local_solver.memory,
        model=lambda server: (server.x + server.before) / 2 if average else server.x,
    )


def extrapolation(mean_square: Any, square_of_mean: Any, epsilon: Any) -> Any:
    """max{1, mean‖Δ_i‖²/(2(‖Δ̄‖² + ε))}; 1 where nothing moved."""
    below = 2 * (square_of_mean + epsilon)
    return jnp.maximum(1, jnp.where(below > 0, mean_square / jnp.where(below > 0, below, 1), 1))
