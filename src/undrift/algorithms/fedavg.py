"""FedAvg and FedProx: local steps, then the mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from ..errors import InputError
from ..local import Local, Solver, is_transform
from ..protocol import Account, Algorithm, Cohort, Exchange, every_step
from ..recipe import method, not_negative, positive

if TYPE_CHECKING:
    import optax


class Server(NamedTuple):
    x: jax.Array
    state: Any  # of the server optimiser


@method
def fedavg(
    eta: float, server_eta: float = 1.0, solver: Any = None, server: Any = None, keep_solver: bool = False
) -> Algorithm:
    """↓x; y_i = τ_i steps y ← y − η G_i(y) from x; ↑y_i − x; x ← x + η_s mean_i(y_i − x).

    `solver`: any Optax transform, or a function of η such as `optax.adam`, in place of plain gradient steps; it starts afresh
    in every round, or goes on where the client's last round left it (`keep_solver`). `server`: any Optax transform that takes
    −mean_i(y_i − x) as its gradient (the FedOpt family: Reddi et al. 2021); it replaces η_s.

    McMahan et al., "Communication-efficient learning of deep networks from decentralized data" (2017).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> r = ud.run(ud.fedavg(eta=0.1), p, rounds=200, steps=10)
    >>> f"{r.x[0]:.2f}, but x* = {p.optimum.x[0]:.2f}"
    '30.17, but x* = 34.33'
    """
    return averaging(Solver.of(solver, eta, keep_solver), 0.0, server_eta, server)


@method
def fedprox(
    eta: float,
    beta: float,
    server_eta: float = 1.0,
    solver: Any = None,
    server: Any = None,
    keep_solver: bool = False,
) -> Algorithm:
    """As FedAvg, with local steps on f_i(y) + (β/2)‖y − x‖²; β = 0 is FedAvg.

    Li et al., "Federated optimization in heterogeneous networks" (2018).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> a, b = (ud.run(m, p, rounds=5, steps=3).x for m in (ud.fedprox(eta=0.1, beta=0.0), ud.fedavg(eta=0.1)))
    >>> bool(np.allclose(a, b, rtol=1e-14))
    True
    """
    not_negative(beta=beta)
    return averaging(Solver.of(solver, eta, keep_solver), beta, server_eta, server)


def averaging(solver: Solver, beta: Any, server_eta: Any, server: optax.GradientTransformation | None) -> Algorithm:
    """The common body: local steps with pull β to x, then a server step along their mean."""
    positive(eta=solver.eta, server_eta=server_eta)
    if server is not None and not is_transform(server):
        raise InputError(f"server must be an Optax transform such as optax.adam(0.01), got {server!r}")

    def client(memory: Any, x: jax.Array, local: Local) -> tuple[Any, jax.Array]:
        y, memory = solver.descend(memory, local, x, pull=beta)
        return memory, y - x

    def receive(state: Server, slots: Any, moves: jax.Array, cohort: Cohort) -> tuple[Server, Any]:
        move = cohort.mean(moves)
        if server is None:
            return Server(state.x + server_eta * move, ()), slots
        update, inner = server.update(-move, state.state, state.x)
        return Server(state.x + update, inner), slots

    local_steps = Exchange(
        "local",
        send=lambda state, slot: state.x,
        client=client,
        receive=receive,
        account=Account(every_step, endpoint=lambda x, move: x + move),
    )
    return Algorithm(
        (local_steps,),
        server=lambda x: (Server(x, () if server is None else server.init(x)), ()),
        client=solver.memory,
        model=lambda state: state.x,
    )
