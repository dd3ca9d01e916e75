"""A method of your own in thirty lines: FedDyn.

Client i keeps λ_i and the server h, all zero at the start. In a round the server sends x, and client i takes τ_i steps

    y ← y − η (∇f_i(y) − λ_i + α(y − x)),        λ_i ← λ_i − α(y_i − x);

then h ← h − (α/m) Σ_{i∈S}(y_i − x) and x ← mean_{i∈S} y_i − h/α. Where nothing moves any more, y_i = x gives λ_i = ∇f_i(x),
and h = mean λ_i = 0 gives ∇f(x) = 0: it ends at the minimiser x* however few local steps are taken, which FedAvg does not.

Acar, Zhao, Matas, Mattina, Whatmough, Saligrama, "Federated learning based on dynamic regularization" (2021), Algorithm 1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import undrift as ud


class Server(NamedTuple):
    x: jax.Array
    h: jax.Array


@ud.method
def feddyn(eta: float, alpha: float) -> ud.Algorithm:
    def init(x):
        return ud.Memory(server=Server(x, jnp.zeros_like(x)), clients=jnp.zeros_like(x))

    def client(lam, x, local):
        def step(k, y):
            return y - eta * (local.gradient(y, k) - lam + alpha * (y - x))

        move = jax.lax.fori_loop(0, local.steps, step, x) - x
        return lam - alpha * move, move

    def receive(server, slots, moves, cohort):
        h = server.h - alpha * cohort.total(moves)  # Σ over those that answered, each with weight 1/m
        return Server(server.x + cohort.mean(moves) - h / alpha, h), slots

    exchange = ud.Exchange(
        "local",
        send=lambda server, slot: server.x,
        client=client,
        receive=receive,
        work=lambda steps: steps,  # gradients that a client evaluates, for the records
        endpoint=lambda x, move: x + move,  # where its local path ended, for the drift
    )
    return ud.Algorithm(init=init, round=(exchange,), model=lambda server: server.x)


def main(rounds: int = 400) -> dict[str, np.ndarray]:
    """Both methods on ten clients whose data disagree, half of them absent in every round. Returns the gaps f(x_t) − f*."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((10, 30, 8))
    truth = 3 * rng.standard_normal((10, 8, 1))  # every client has its own
    problem = ud.problems.least_squares(A, (A @ truth)[..., 0])
    L, x0 = problem.constants.L, np.full(8, 10.0)
    gaps = {}
    for method in (ud.fedavg(eta=0.5 / L), feddyn(eta=0.5 / L, alpha=0.3 * L)):
        result = ud.run(method, problem, rounds=rounds, steps=10, participation=ud.plan.uniform(5), x0=x0)
        gaps[method.name] = result.history["gap"]
        sent = result.history["bytes_up"][-1]
        print(f"{method.name:8} gap {gaps[method.name][0]:.1e} → {gaps[method.name][-1]:.1e}, {sent:,} bytes up")
    return gaps


if __name__ == "__main__":
    main()
