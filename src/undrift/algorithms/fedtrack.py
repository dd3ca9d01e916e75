"""FedTrack: FedLin's guarantee at one component gradient a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ..local import Local
from ..protocol import Account, Algorithm, Cohort, Diagnostics, Exchange, Gradients
from ..recipe import method, positive
from ..sums import weighted
from .correction import average, centre_of, send_direction, send_x
from .tracking import Order, check_batch, check_order, component_at, empty_table, table_work

if TYPE_CHECKING:
    from ..problems.client import ClientLoss


class Server(NamedTuple):
    x: jax.Array
    g: jax.Array  # ∇f(x)


class Start(NamedTuple):
    """Where local steps start from."""

    x: jax.Array
    G: jax.Array  # ∇f_i(x)
    table: Any  # component gradients at x: one number per sample for linear models, else one vector per component


class Client(NamedTuple):
    start: Any  # kept where nobody misses a round, so that nothing of it need be sent or computed again; else ()
    staleness: Any = ()  # ‖a − ∇f_i(y)‖ where the local steps ended, if somebody asks


DIAGNOSTICS = Diagnostics(
    client=lambda memory, x, loss: memory.staleness,
    server=lambda server, staleness, weights: {"staleness": weighted(weights, staleness)},
)


@method
def fedtrack(
    eta: float, order: Order = "cyclic", batch: int = 1, every_round: bool = True, diagnose: bool = False
) -> Algorithm:
    """Algorithm 1 of the paper, for f_i = (1/m_i) Σ_j f_ij.

     1. ↓g; from y = x and the table of all ∇f_ij(x), τ_i steps y ← y − η(a − ∇f_i(x) + g), where the aggregate a is the
        mean of the table and before every step but the first one component is refreshed at the current y; ↑y_i; x ← mean y_i
     2. ↓x; the table is taken anew at x; ↑∇f_i(x); g = mean ∇f_i(x).

    A round costs a client m_i + τ_i − 1 component gradients, against τ_i·m_i for FedLin. A client that may have missed the last
    round is told (x, g) in 1 and takes its table anew. `order`: "cyclic", "reshuffled" (anew every round), "uniform" (each
    component drawn from all, as SVRG does), a fixed list, or a function (refresh, count, round, client) -> component. `batch`:
    samples per component. η is the client's step (Theorem 1: 1/(18 L τ)), not divided by τ_i. In the history, `gradients`
    counts components.
    Diagnostic: `staleness` = Σ w_i ‖a − ∇f_i(y)‖ where the local steps ended.

    Mitra, Jaafar, Pappas, Hassani, "Federated learning with incrementally aggregated gradients" (2021).

    >>> import numpy as np, undrift as ud
    >>> A, b = np.array([[[1.0], [2.0]], [[3.0], [1.0]]]), np.array([[1.0, 1.0], [2.0, 5.0]])
    >>> p = ud.problems.least_squares(A, b)
    >>> bool(np.allclose(ud.run(ud.fedtrack(eta=0.02), p, rounds=200, steps=5).x, p.optimum.x))
    True
    """
    positive(eta=eta)
    check_order(order)
    check_batch(batch)

    def client(x: jax.Array, loss: ClientLoss) -> Client:
        staleness = jnp.zeros((), x.dtype) if diagnose else ()
        return Client(Start(x, jnp.zeros_like(x), empty_table(loss, x, batch)) if every_round else (), staleness)

    def table_at(x: jax.Array, local: Local) -> Start:
        table, G = local.loss.track(x, batch)
        return Start(x, G, table)

    def take_local_steps(memory: Client, message: Any, local: Local) -> tuple[Client, jax.Array]:
        start, g = (memory.start, message) if every_round else (table_at(message[0], local), message[1])
        count = local.loss.component_count(batch)

        def step(k: jax.Array, carry: Any) -> Any:
            y, table, a = carry
            table, change = local.loss.refresh(table, component_at(order, k - 1, count, local), y, batch)
            a = a + change
            return y - eta * (a - start.G + g), table, a

        # At the first step the aggregate a is ∇f_i(x), and the direction is g itself.
        y, _, a = jax.lax.fori_loop(1, local.steps, step, (start.x - eta * g, start.table, start.G))
        if diagnose:
            memory = memory._replace(staleness=jnp.linalg.norm(a - local.loss.gradient(y)))
        return memory, y

    def upload_gradient(memory: Client, x: jax.Array, local: Local) -> tuple[Client, jax.Array]:
        start = table_at(x, local)
        return memory._replace(start=start) if every_round else memory, start.G

    def new_direction(server: Server, slots: Any, G: jax.Array, cohort: Cohort) -> tuple[Server, Any]:
        return server._replace(g=cohort.mean(G)), slots

    def work_of_steps(steps: Any, sizes: Any) -> Gradients:
        tables = 0 if every_round else 1
        return Gradients(steps - 1 + tables * -(-sizes // batch), (steps - 1) * batch + tables * sizes)

    account = Account(work_of_steps, endpoint=lambda message, y: y)
    centre = centre_of(every_round, lambda memory: memory.start.x)
    local_steps = Exchange("local", send_direction(every_round), take_local_steps, average, account, centre=centre)
    start = Exchange("first gradient", send_x, upload_gradient, new_direction, Account(table_work(batch)))
    return Algorithm(
        round=(local_steps, start._replace(name="gradient")),
        server=lambda x: (Server(x, jnp.zeros_like(x)), ()),
        client=client,
        model=lambda server: server.x,
        start=(start,),
        diagnostics=DIAGNOSTICS,
    )
