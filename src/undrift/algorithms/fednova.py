"""FedNova: normalised averaging for clients of different speed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..local import as_solver, descend
from ..protocol import Algorithm, Cohort, Exchange, Memory
from ..recipe import method, positive


@method
def fednova(eta: float, solver: Any = None) -> Algorithm:
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
    transform = as_solver(solver, eta)

    def client(memory: tuple[()], x: jax.Array, local: Any) -> tuple[tuple[()], Any]:
        y = descend(local, x, eta, solver=transform)
        return memory, ((x - y) / local.steps, jnp.asarray(local.steps, jnp.int32))

    def receive(x: jax.Array, slots: Any, ups: Any, cohort: Cohort) -> tuple[jax.Array, Any]:
        normalised, steps = ups
        mean, effective = cohort.mean((normalised, steps.astype(x.dtype)))
        return x - effective * mean, slots

    local_steps = Exchange(
        "local",
        send=lambda x, slot: x,
        client=client,
        receive=receive,
        work=lambda steps: steps,
        endpoint=lambda x, up: x - up[0] * up[1],
    )
    return Algorithm(init=Memory, round=(local_steps,), model=lambda x: x)
