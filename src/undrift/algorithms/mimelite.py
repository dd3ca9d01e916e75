"""MimeLite and Mime: the server's momentum in every local step, kept fixed there."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..errors import InputError
from ..local import Local, descend, descend_from_reference
from ..oracles import Oracle
from ..protocol import Account, Algorithm, Cohort, Exchange, Gradients
from ..recipe import method, positive
from .correction import check_flag, send_x


class Server(NamedTuple):
    x: jax.Array
    s: jax.Array  # momentum
    g: Any = ()  # mean ∇f_i(x) of this round's cohort, where steps are corrected by it


class Start(NamedTuple):
    x: jax.Array
    G: jax.Array  # ∇f_i(x)


@method
def mimelite(
    eta: float, beta: float = 0.9, server_eta: float = 1.0, correction: bool = False, oracle: Any = None
) -> Algorithm:
    """Server memory s = 0. ↓(x, s); y ← y − η((1 − β)G_i(y) + βs), τ_i steps from x; ↑(y_i − x, ∇f_i(x));
    x ← x + η_s mean(y_i − x); s ← (1 − β) mean ∇f_i(x) + βs.

    Mime's base optimiser is SGD with momentum here, β < 1; s changes once a round, at the server. ∇f_i(x) is the whole gradient
    whatever the oracle: with exact gradients it is the first local one and costs nothing more, otherwise n_i components more.
    `correction`: Mime itself, with a further exchange before the local steps, ↓x; ↑∇f_i(x); c = mean ∇f_i(x); then ↓(s, c);
    y ← y − η((1 − β)(G_i(y) − G_i(x) + c) + βs), both G_i from the same draw; ↑y_i. Without it local steps drift as FedAvg's.
    β = 0 is FedAvg, or with the correction FedLin with steps of size η.
    Karimireddy et al., "Mime: mimicking centralized stochastic algorithms in federated learning" (2020), Algorithm 1.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> lite, mime = (ud.run(ud.mimelite(eta=0.1, correction=c), p, rounds=400, steps=10).x[0] for c in (False, True))
    >>> f"{lite:.2f} and {mime:.2f}; x* = {p.optimum.x[0]:.2f}"
    '34.29 and 34.33; x* = 34.33'
    """
    positive(eta=eta, server_eta=server_eta)
    _momentum(beta)
    check_flag("correction", correction)
    exact = oracle is None or oracle.exact

    def steps(local: Local, x: jax.Array, direction: jax.Array, s: jax.Array, first: jax.Array | None) -> jax.Array:
        """y ← y − η((1 − β)(G_i(y) + direction) + βs)"""
        return descend(local, x, eta * (1 - beta), shift=direction + beta / (1 - beta) * s, first=first)

    def lite(memory: Any, down: Server, local: Local) -> tuple[Any, tuple[jax.Array, jax.Array]]:
        G = local.loss.gradient(down.x)
        y = steps(local, down.x, jnp.zeros_like(G), down.s, G if exact else None)
        return memory, (y - down.x, G)

    def move(server: Server, moves: jax.Array, g: jax.Array, cohort: Cohort) -> Server:
        return Server(server.x + server_eta * cohort.mean(moves), (1 - beta) * g + beta * server.s, server.g)

    def receive(server: Server, slots: Any, ups: Any, cohort: Cohort) -> tuple[Server, Any]:
        moves, gradients = ups
        return move(server, moves, cohort.mean(gradients), cohort), slots

    def take_gradient(start: Start, x: jax.Array, local: Local) -> tuple[Start, jax.Array]:
        G = local.loss.gradient(x)
        return Start(x, G), G

    def corrected(start: Start, down: Any, local: Local) -> tuple[Start, jax.Array]:
        s, g = down
        if exact:
            return start, steps(local, start.x, g - start.G, s, start.G)
        return start, descend_from_reference(local, start.x, eta * (1 - beta), g + beta / (1 - beta) * s)

    if not correction:
        account = Account(_work_of_lite(oracle), endpoint=lambda down, up: down.x + up[0])
        program: tuple[Exchange, ...] = (Exchange("local", lambda server, slot: server, lite, receive, account),)
        return Algorithm(program, _server, model=lambda server: server.x)
    gradient = Exchange(
        "gradient",
        send_x,
        take_gradient,
        lambda server, slots, G, cohort: (server._replace(g=cohort.mean(G)), slots),
        Account(lambda steps, sizes: Gradients(0 * steps + 1, 0 * steps + sizes)),
    )
    local_steps = Exchange(
        "local",
        lambda server, slot: (server.s, server.g),
        corrected,
        lambda server, slots, y, cohort: (move(server, y - server.x[None], server.g, cohort), slots),
        Account(lambda steps, sizes: Gradients((1 if exact else 2) * (steps - 1)), endpoint=lambda down, y: y),
    )
    return Algorithm(
        (gradient, local_steps),
        lambda x: (Server(x, jnp.zeros_like(x), jnp.zeros_like(x)), ()),
        client=lambda x, loss: Start(x, jnp.zeros_like(x)),
        model=lambda server: server.x,
    )


def _momentum(beta: Any) -> None:
    """Refuse what is none; of a schedule only a placeholder is known here, which is 1, so it is refused too."""
    if not isinstance(beta, jax.Array) and not 0 <= beta < 1:
        raise InputError(
            f"beta is a momentum, one number for all rounds with 0 ≤ beta < 1, got {beta} or a schedule: choose 0.9, or 0"
        )


def _server(x: jax.Array) -> tuple[Server, tuple[()]]:
    return Server(x, jnp.zeros_like(x)), ()


def _work_of_lite(oracle: Oracle | None) -> Any:
    """τ_i gradients, and the whole one at x where it is not the first of them."""

    def work(steps: Any, sizes: Any) -> Gradients:
        if oracle is None or oracle.exact:
            return Gradients(steps)
        return Gradients(steps + 1, steps * oracle.components(sizes) + sizes)

    return work
