"""Sequential federated learning: FedAvg's local steps, one client after the other."""

from __future__ import annotations

from typing import Any

from ..local import Solver
from ..protocol import Algorithm, OneByOne
from ..recipe import method
from .fedavg import averaging
from .global_step import with_global_step


@method(ordered=True)
def sequential_fl(
    eta: float, server_eta: float | None = None, solver: Any = None, keep_solver: bool = False
) -> Algorithm:
    """Clients in a fresh random order; each takes τ_i steps from the model its predecessor left; the last one's model is x.

    Literally FedAvg's program with cohorts of one. With `participation=ud.plan.uniform(S)` a round is S fresh clients, with
    `ud.plan.permuted(S)` one random permutation of all m is spread over m/S rounds, as the SSL paper counts. With unequal
    weights client i's steps are m·w_i as long. `server_eta`: a global step, x ← x + η_s(last one's model − x).

    Li, Lyu, "Convergence analysis of sequential split learning on heterogeneous data" (2023), Algorithm 1.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [3.0]]))
    >>> r = ud.run(ud.sequential_fl(eta=0.01), p, rounds=200, steps=5)
    >>> bool(abs(r.x[0] - 2.0) < 0.1)
    True
    """
    fedavg = averaging(Solver.of(solver, eta, keep_solver), 0.0, 1.0, None)
    return with_global_step(fedavg._replace(round=(OneByOne(fedavg.round),)), server_eta)
