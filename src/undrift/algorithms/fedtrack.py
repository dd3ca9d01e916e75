"""FedTrack: FedLin's guarantee at one component gradient a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ..compression import Compressor
from ..local import Local
from ..protocol import Account, Algorithm, Diagnostics, Exchange, Gradients
from ..recipe import method, positive
from ..sums import weighted
from ..wire import dense
from .correction import Links, Sent, check_flag, check_links, send_direction, send_x, with_differences_down
from .tracking import Order, check_batch, check_order, component_at, empty_table, table_work

if TYPE_CHECKING:
    from ..problems.client import ClientLoss


class Start(NamedTuple):
    """Where local steps start from."""

    x: jax.Array
    G: jax.Array  # ∇f_i(x)
    table: Any  # component gradients at x: one number per sample for linear models, else one vector per component


class Client(NamedTuple):
    start: Any  # kept where nobody misses a round, so that nothing of it need be sent or computed again; else ()
    sent: Sent  # what was sent of ∇f_i(x)
    staleness: Any = ()  # ‖a − ∇f_i(y)‖ where the local steps ended, if somebody asks


DIAGNOSTICS = Diagnostics(
    client=lambda memory, x, loss: memory.staleness,
    server=lambda server, staleness, weights: {"staleness": weighted(weights, staleness)},
)


@method
def fedtrack(
    eta: float,
    order: Order = "cyclic",
    batch: int = 1,
    up: Compressor | None = None,
    down: Compressor | None = None,
    table: bool = False,
    every_round: bool = True,
    diagnose: bool = False,
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

    Past the paper, as for `fedlin`: `up` and `down` compress ∇f_i(x) and g (the first g is sent as it is), with
    memory="difference" without a floor; with `table` the server keeps every client's last ∇f_i(x), and g = Σ w_i ∇f_i(x)(kept)
    is exact under partial participation.

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
    check_links(up=up, down=down)
    check_flag("table", table)
    by_difference = down if down is not None and down.differs else None
    links = Links(up, None if by_difference is not None else down, table=table and not every_round)

    def client(x: jax.Array, loss: ClientLoss) -> Client:
        staleness = jnp.zeros((), x.dtype) if diagnose else ()
        start = Start(x, jnp.zeros_like(x), empty_table(loss, x, batch)) if every_round else ()
        return Client(start, links.sent(x), staleness)

    def table_at(x: jax.Array, local: Local) -> Start:
        table, G = local.loss.track(x, batch)
        return Start(x, G, table)

    def take_local_steps(memory: Client, message: Any, local: Local) -> tuple[Client, jax.Array]:
        start, g = (memory.start, message) if every_round else (table_at(message[0], local), message[1])
        g = dense(g)
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

    def upload_gradient(memory: Client, x: jax.Array, local: Local) -> tuple[Client, Any]:
        start = table_at(x, local)
        sent, message = links.upload(memory.sent, start.G, local.key)
        return memory._replace(start=start if every_round else (), sent=sent), message

    def first_gradient(memory: Client, x: jax.Array, local: Local) -> tuple[Client, Any]:
        start = table_at(x, local)
        sent, message = links.upload_first(memory.sent, start.G)
        return memory._replace(start=start if every_round else (), sent=sent), message

    def work_of_steps(steps: Any, sizes: Any) -> Gradients:
        tables = 0 if every_round else 1
        return Gradients(steps - 1 + tables * -(-sizes // batch), (steps - 1) * batch + tables * sizes)

    account = Account(work_of_steps, endpoint=lambda message, y: y)
    centre = links.centre(lambda memory, message: memory.start.x if every_round else message[0])
    local_steps = Exchange(
        "local", send_direction(every_round), take_local_steps, links.average, account, centre=centre
    )
    first_steps = local_steps._replace(send=send_direction(every_round, "g_1"))
    gradient = Exchange("gradient", send_x, upload_gradient, links.direct, Account(table_work(batch)))
    start = Exchange("first gradient", send_x, first_gradient, links.direct_first, Account(table_work(batch)))
    made = Algorithm(
        round=(local_steps, gradient),
        server=links.server,
        client=client,
        model=lambda server: server.x,
        start=(start,),
        first=None if links.down is None else (first_steps, gradient),
        diagnostics=DIAGNOSTICS,
    )
    return with_differences_down(made, by_difference, None, every_round)
