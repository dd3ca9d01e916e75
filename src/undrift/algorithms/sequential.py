"""Sequential federated learning: FedAvg's local steps, one client after the other; and the same with control variates."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..local import Local, Solver
from ..protocol import Account, Algorithm, AtServer, Cohort, Diagnostics, Exchange, OneByOne, every_step
from ..recipe import method, positive
from ..sums import weighted
from .correction import check_flag
from .fedavg import averaging
from .global_step import with_global_step
from .variates import corrected_steps


@method(ordered=True)
def sequential_fl(
    eta: float,
    server_eta: float | None = None,
    solver: Any = None,
    keep_solver: bool = False,
    corrected: bool = False,
) -> Algorithm:
    """Clients in a fresh random order; each takes τ_i steps from the model its predecessor left; the last one's model is x.

    Literally FedAvg's program with cohorts of one. With `participation=ud.plan.uniform(S)` a round is S fresh clients, with
    `ud.plan.permuted(S)` one random permutation of all m is spread over m/S rounds, as the SSL paper counts. With unequal
    weights client i's steps are m·w_i as long. `server_eta`: a global step, x ← x + η_s(last one's model − x).

    Li, Lyu, "Convergence analysis of sequential split learning on heterogeneous data" (2023), Algorithm 1.

    `corrected` (ours; the paper leaves it to future work): control variates as in SCAFFOLD. Client i keeps c_i = 0 and is told
    (x, c), c = Σ w_i c_i; it steps y ← y − η(G_i(y) − c_i + c), and c_i⁺ is the mean of its G_i. c takes in what a round has
    changed when the round is over. It then settles at x* instead of around it, with cohorts too: there is a floor no more.
    With one step and `ud.plan.uniform(1)` it is SAGA (Defazio, Bach, Lacoste-Julien 2014), a client for a sample.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]], [[3.0]]]), np.array([[1.0], [2.0], [30.0]]))
    >>> def farthest(**settings):
    ...     h = ud.run(ud.sequential_fl(eta=0.02, **settings), p, rounds=200, steps=5).history
    ...     return float(np.sqrt(h["sq_distance"][-50:].max()))
    >>> farthest() > 0.1, farthest(corrected=True) < 1e-12
    (True, True)
    """
    check_flag("corrected", corrected)
    how = Solver.of(solver, eta, keep_solver)
    if corrected:
        return with_global_step(_corrected(how), server_eta, keep=lambda now, moved: now._replace(x=moved.x))
    fedavg = averaging(how, 0.0, 1.0, None)
    return with_global_step(fedavg._replace(round=(OneByOne(fedavg.round),)), server_eta)


class Server(NamedTuple):
    """What travels from client to client."""

    x: jax.Array
    c: jax.Array
    change: jax.Array  # Σ w_i(c_i⁺ − c_i) over this round's turns so far


class Client(NamedTuple):
    c: jax.Array  # c_i
    solver: Any


def _corrected(solver: Solver) -> Algorithm:
    """↓(x, c); y from x along G_i(y) − c_i + c; ↑(y − x, c_i⁺ − c_i), in turn; then c ← c + Σ w_i(c_i⁺ − c_i).

    Within a full pass of equal τ the corrections c − c_i cancel, Σ w_i(c − c_i) = 0, because all of them were made before it.
    Were c changed after every turn, they would not, and more passes are needed (docs/beyond_sequence.md has the figures).
    """
    positive(eta=solver.eta)

    def client(memory: Client, down: Any, local: Local) -> tuple[Client, Any]:
        x, c = down
        y, mean, kept = corrected_steps(solver, memory.solver, local, x, memory.c, c)
        return Client(mean, kept), (y - x, mean - memory.c)

    def receive(server: Server, slots: Any, ups: Any, cohort: Cohort) -> tuple[Server, Any]:
        move, change = ups
        return Server(server.x + cohort.mean(move), server.c, server.change + cohort.total(change)), slots

    turn = Exchange(
        "local",
        send=lambda server, slot: (server.x, server.c),
        client=client,
        receive=receive,
        account=Account(every_step, endpoint=lambda down, up: down[0] + up[0]),
    )
    return Algorithm(
        (OneByOne((turn,)), AtServer(_take_in)),
        server=lambda x: (Server(x, jnp.zeros_like(x), jnp.zeros_like(x)), ()),
        client=lambda x, loss: Client(jnp.zeros_like(x), solver.memory(x)),
        model=lambda server: server.x,
        diagnostics=Diagnostics(
            client=lambda memory, x, loss: memory.c,
            server=lambda server, c_i, weights: {"variate_error": jnp.linalg.norm(server.c - weighted(weights, c_i))},
        ),
    )


def _take_in(server: Server, slots: Any, ups: Any, cohort: Cohort) -> tuple[Server, Any]:
    """c ← c + Σ w_i(c_i⁺ − c_i): again the weighted mean of all c_i."""
    return Server(server.x, server.c + server.change, jnp.zeros_like(server.change)), slots
