"""Scaffnew: local steps whose number a coin decides, and control variates that make fewer rounds enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..local import Local, descend
from ..plan import GeometricSteps, geometric_steps
from ..protocol import Account, Algorithm, Cohort, Diagnostics, Exchange, every_step, no_work
from ..recipe import method, positive
from ..sums import weighted


class Client(NamedTuple):
    h: jax.Array  # h_i, which tends to ∇f_i(x*)
    y: jax.Array  # where the last local steps ended
    rate: jax.Array  # p/γ of that round; 0 before the first


def coin(parameters: Mapping[str, Any]) -> GeometricSteps:
    """τ(t), the same for all clients: tosses until the coin shows heads."""
    return geometric_steps(parameters["p"])


@method(draws=coin)
def scaffnew(eta: float, p: float, every_round: bool = True) -> Algorithm:
    """Client memory h_i = 0, y_i. ↓x; h_i ← h_i + (p/γ)(x − y_i) (not before the client's first round);
    y ← y − γ(G_i(y) − h_i), τ steps from x, the last one kept as y_i; ↑y_i; x ← mean y_i.

    After every local step a coin that all clients share shows heads with probability p, and heads end the round: τ is drawn by
    the method, the same for all, P(τ = k) = (1 − p)^{k−1} p, and `steps` is refused. This is the paper's algorithm iteration by
    iteration: h_i changes after heads only, as x − y_i = 0 after tails, and it needs the mean, which the next message brings.
    Σ w_i h_i = 0 always; h_i tends to ∇f_i(x*). γ = `eta` = 1/L and p = 1/√κ ("theorem") need O(√κ log 1/ε) rounds.

    Where clients may miss rounds x is told twice, as y_i would wait for the wrong mean: ↓x; τ steps; ↑y_i; x ← mean y_i;
    ↓x; h_i ← h_i + (p/γ)(x − y_i). The mean is Σ_S w_i y_i/Σ_S w_i, each client once, so that Σ w_i h_i = 0 whoever answers.
    Diagnostic: `variate_error` = ‖Σ w_i h_i‖, h_i as known at the clients after the round.

    Mishchenko, Malinovsky, Stich, Richtárik, "ProxSkip: Yes! Local gradient steps provably lead to communication acceleration!
    Finally!" (2022), where Scaffnew is ProxSkip for the mean of m losses.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> r = ud.run(ud.scaffnew(eta=0.5, p=0.7), p, rounds=100)
    >>> bool(np.allclose(r.x, p.optimum.x)), r.setting["steps"]
    (True, 'geometric_steps(0.7)')
    """
    positive(eta=eta)

    def settle(own: Client, x: jax.Array) -> Client:
        """h_i ← h_i + (p/γ)(x − y_i), x the mean that y_i went into."""
        return own._replace(h=own.h + own.rate * (x - own.y), rate=jnp.zeros_like(own.rate))

    def steps(own: Client, x: jax.Array, local: Local) -> tuple[Client, jax.Array]:
        y = descend(local, x, eta, shift=-own.h)
        return Client(own.h, y, _rate(p, eta, own.rate)), y

    def settle_and_step(own: Client, x: jax.Array, local: Local) -> tuple[Client, jax.Array]:
        return steps(settle(own, x), x, local)

    def hear(own: Client, x: jax.Array, local: Local) -> tuple[Client, tuple[()]]:
        return settle(own, x), ()

    local_steps = Exchange(
        "local",
        send=lambda x, slot: x,
        client=settle_and_step if every_round else steps,
        receive=_average,
        account=Account(every_step, endpoint=lambda x, y: y),
    )
    mean = Exchange(
        "mean",
        send=lambda x, slot: x,
        client=hear,
        receive=lambda x, slots, ups, cohort: (x, slots),
        account=Account(no_work),
    )
    return Algorithm(
        (local_steps,) if every_round else (local_steps, mean),
        client=lambda x, loss: Client(jnp.zeros_like(x), x, jnp.zeros((), x.dtype)),
        diagnostics=Diagnostics(
            client=lambda own, x, loss: settle(own, x).h,
            server=lambda x, h, weights: {"variate_error": jnp.linalg.norm(weighted(weights, h))},
        ),
    )


def _average(x: jax.Array, slots: Any, y: jax.Array, cohort: Cohort) -> tuple[jax.Array, Any]:
    """x ← Σ w_i y_i / Σ w_i over those that answered, each once: then Σ w_i (x − y_i) = 0."""
    total, share = cohort.total((y, jnp.ones_like(y[:, :1])))
    return total / share, slots


def _rate(p: Any, eta: Any, like: jax.Array) -> jax.Array:
    """p/γ; steps of size 0 (a schedule that warms up) say nothing about gradients, and h_i stays."""
    return jnp.asarray(jnp.where(eta == 0, 0, p / jnp.where(eta == 0, 1, eta)), like.dtype)
