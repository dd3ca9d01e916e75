"""FedNova: normalised averaging for clients of different speed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..local import Local, Solver
from ..protocol import Account, Algorithm, Cohort, Exchange, every_step
from ..recipe import method, positive


@method
def fednova(eta: float, solver: Any = None, keep_solver: bool = False) -> Algorithm:
    """↓x; y_i = τ_i local steps; ↑(x − y_i)/τ_i and τ_i; x ← x − τ_eff mean_i (x − y_i)/τ_i, τ_eff = mean_i τ_i.

    With plain steps (x − y_i)/τ_i is η times the mean of client i's gradients: FedLin's equation (4).
    Wang et al., "Tackling the objective inconsistency problem in heterogeneous federated optimization" (2020).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> r = ud.run(ud.fednova(eta=0.01), p, rounds=300, steps=[50, 30])
    >>> f"{r.x[0]:.2f}, but x* = {p.optimum.x[0]:.2f}"
    '33.89, but x* = 34.33'
    """
    positive(eta=eta)
    local_solver = Solver.of(solver, eta, keep_solver)

    def client(memory: Any, x: jax.Array, local: Local) -> tuple[Any, Any]:
        y, memory = local_solver.descend(memory, local, x)
        return memory, ((x - y) / local.steps, jnp.asarray(local.steps, jnp.int32))

    def receive(x: jax.Array, slots: Any, ups: Any, cohort: Cohort) -> tuple[jax.Array, Any]:
        normalised, steps = ups
        # An average of the τ_i: with the factors of an unbiased mean the product of the two would be biased.
        effective = cohort.average(steps.astype(x.dtype))
        return x - effective * cohort.mean(normalised), slots

    local_steps = Exchange(
        "local",
        send=lambda x, slot: x,
        client=client,
        receive=receive,
        account=Account(every_step, endpoint=lambda x, up: x - up[0] * up[1]),
    )
    return Algorithm((local_steps,), client=local_solver.memory)
