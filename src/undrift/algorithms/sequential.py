"""Sequential federated learning: FedAvg's local steps, one client after the other."""

from __future__ import annotations

from typing import Any

from ..protocol import Algorithm, OneByOne
from ..recipe import method
from .fedavg import averaging


@method(ordered=True)
def sequential_fl(eta: float, solver: Any = None) -> Algorithm:
    """Clients in a fresh random order; each takes τ_i steps from the model its predecessor left; the last one's model is x.

    Literally FedAvg's program with cohorts of one. With `participation=ud.plan.uniform(S)` a round is S fresh clients, with
    `ud.plan.permuted(S)` one random permutation of all m is spread over m/S rounds, as the SSL paper counts.

    Li, Lyu, "Convergence analysis of sequential split learning on heterogeneous data" (2023), Algorithm 1.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [3.0]]))
    >>> r = ud.run(ud.sequential_fl(eta=0.01), p, rounds=200, steps=5)
    >>> bool(abs(r.x[0] - 2.0) < 0.1)
    True
    """
    fedavg = averaging(eta, 0.0, 1.0, solver, None)
    return fedavg._replace(round=(OneByOne(fedavg.round),))
