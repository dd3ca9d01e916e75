"""FedTrack: FedLin's guarantee at one component gradient a step."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..protocol import Algorithm, Cohort, Exchange, Memory
from ..recipe import method, positive
from .tracking import Order, check_batch, check_order, component_at, empty_table


class Server(NamedTuple):
    x: jax.Array
    g: jax.Array  # ∇f(x)


class Client(NamedTuple):
    G: jax.Array  # ∇f_i(x)
    table: Any  # component gradients at x: one number per sample for linear models, else one vector per component


@method
def fedtrack(eta: float, order: Order = "cyclic", batch: int = 1) -> Algorithm:
    """Algorithm 1 of the paper, for f_i = (1/m_i) Σ_j f_ij.

     1. ↓(x, g); from y = x and the table of all ∇f_ij(x), τ_i steps y ← y − η(a − ∇f_i(x) + g), where the aggregate a is the
        mean of the table and before every step but the first one component is refreshed at the current y; ↑y_i; x ← mean y_i
     2. ↓x; the table is taken anew at x; ↑∇f_i(x); g = mean ∇f_i(x).

    A round costs a client m_i + τ_i − 1 component gradients, against τ_i·m_i for FedLin (one table more where clients may miss
    rounds). `order`: "cyclic", "reshuffled" (anew every round), a fixed list, or a function (refresh, count, round, client)
    -> component. `batch`: samples per component. η is the client's step (Theorem 1: 1/(18 L τ)), not divided by τ_i.
    In the history, `gradients` counts components.

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

    def init(x: jax.Array) -> Memory:
        return Memory(Server(x, jnp.zeros_like(x)))

    def remember(x: jax.Array, loss: Any) -> Client:
        return Client(jnp.zeros_like(x), empty_table(loss, x, batch))

    def take_local_steps(memory: Client, down: Server, local: Any) -> tuple[Client, jax.Array]:
        x, g = down
        if not local.every_round:
            table, G = local.loss.track(x, batch)
            memory = Client(G, table)
        count = local.loss.component_count(batch)

        def step(k: jax.Array, carry: Any) -> Any:
            y, table, aggregate = carry
            j = component_at(order, k - 1, count, local)
            table, change = local.loss.refresh(table, j, y, batch)
            aggregate = aggregate + change
            return y - eta * (aggregate - memory.G + g), table, aggregate

        # At the first step the aggregate is ∇f_i(x), and the direction is g itself.
        y, _, _ = jax.lax.fori_loop(1, local.steps, step, (x - eta * g, memory.table, memory.G))
        return memory, y

    def average(server: Server, slots: Any, y: jax.Array, cohort: Cohort) -> tuple[Server, Any]:
        return server._replace(x=cohort.mean(y)), slots

    def upload_gradient(memory: Client, x: jax.Array, local: Any) -> tuple[Client, jax.Array]:
        table, G = local.loss.track(x, batch)
        return Client(G, table), G

    def new_direction(server: Server, slots: Any, G: jax.Array, cohort: Cohort) -> tuple[Server, Any]:
        return server._replace(g=cohort.mean(G)), slots

    def cost_of_steps(steps: Any, sizes: Any, every_round: bool) -> tuple[Any, Any]:
        tables = 0 if every_round else 1
        return steps - 1 + tables * -(-sizes // batch), (steps - 1) * batch + tables * sizes

    def cost_of_table(steps: Any, sizes: Any, every_round: bool) -> tuple[Any, Any]:
        return -(-sizes // batch), sizes

    start = Exchange("first gradient", lambda s, slot: s.x, upload_gradient, new_direction, cost=cost_of_table)
    local_steps = Exchange(
        "local",
        send=lambda server, slot: server,
        client=take_local_steps,
        receive=average,
        cost=cost_of_steps,
        endpoint=lambda down, y: y,
    )
    gradient = Exchange("gradient", lambda s, slot: s.x, upload_gradient, new_direction, cost=cost_of_table)
    return Algorithm(
        init=init, remember=remember, start=(start,), round=(local_steps, gradient), model=lambda server: server.x
    )
