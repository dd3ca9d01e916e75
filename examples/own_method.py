"""A method of your own in thirty lines, and what is known of it: FedDyn.

Client i keeps λ_i and the server h, all zero at the start. In a round the server sends x, and client i takes τ_i steps

    y ← y − η (∇f_i(y) − λ_i + α(y − x)),        λ_i ← λ_i − α(y_i − x);

then h ← h − (α/m) Σ_{i∈S}(y_i − x) and x ← mean_{i∈S} y_i − h/α. Where nothing moves any more, y_i = x gives λ_i = ∇f_i(x),
and h = mean λ_i = 0 gives ∇f(x) = 0: it ends at the minimiser x* however few local steps are taken, which FedAvg does not.

What is known of it stands in a record, `KNOWN`, and with that the library serves it as it serves its own methods:

    ud.run(feddyn(eta="theorem", alpha="theorem"), problem, rounds=100, steps=1)
    ud.theory.advise(problem, 1e-6, methods=["fedavg", "fedlin", feddyn])
    undrift advise  --problem least_squares --method fedlin examples/own_method.py:feddyn
    undrift compare --problem least_squares --method fedlin examples/own_method.py:feddyn
    undrift explain examples/own_method.py:feddyn

Acar, Zhao, Matas, Mattina, Whatmough, Saligrama, "Federated learning based on dynamic regularization" (2021), Algorithm 1.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import undrift as ud
from undrift.theory.needs import need_everyone
from undrift.theory.round_map import LocalSteps, RoundMap


def bound(run, constants):
    """For τ = 1, h = mean λ_i cancels out where η = 1/(2α): x ← x − ∇f(x)/α. With α = L that is gradient descent."""
    name = "FedDyn with one local step is gradient descent"
    need_everyone(run, name)
    if np.max(run.steps) > 1:
        raise ud.InputError(f"{name}; here clients take up to {np.max(run.steps)}: use steps=1, or give eta and alpha")
    descent = ud.theory.centralised.gd(constants)
    L = 1 / descent.numbers["eta"]
    return dataclasses.replace(descent, theorem=name, method="feddyn", numbers={"eta": 1 / (2 * L), "alpha": L})


def round_map(q, values, steps):
    """A round on quadratics, of the state (x, λ_1, …, λ_m): y_i = x − ηS_i(∇f_i(x) − λ_i), S_i with the pull α."""
    m, d, alpha = q.clients, q.dim, values["alpha"]
    local = LocalSteps.of(q, values["eta"], steps, pull=alpha)

    def apply(state):
        x, lam = state[:d], state[d:].reshape(m, d, -1)
        back = local.apply(q.gradients(x) - lam)  # x − y_i
        lam = lam + alpha * back
        return np.concatenate([x - q.mean(back) - q.mean(lam) / alpha, lam.reshape(m * d, -1)])

    return RoundMap(
        "feddyn", q, (m + 1) * d, apply, lambda x0: np.append(x0, np.zeros(m * d)), lambda states: states[:d]
    )


KNOWN = ud.Known(
    bound=bound,  # eta="theorem" takes its numbers, the adviser holds its predictions against it
    round_map=round_map,  # lets the adviser predict rounds instead of measuring them
    usual=lambda problem, steps, given: {"alpha": ud.theory.Usual(problem.constants.L, "L")},
    rule="η = 1/(2L), α = L for one local step: gradient descent",
    colour="#882255",
)


class Server(NamedTuple):
    x: jax.Array
    h: jax.Array


@ud.method(known=KNOWN)
def feddyn(eta: float, alpha: float) -> ud.Algorithm:
    """↓x; y ← y − η (∇f_i(y) − λ_i + α(y − x)), τ_i steps; λ_i ← λ_i − α(y_i − x); ↑y_i − x; x ← mean y_i − h/α."""

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
        account=ud.Account(  # for the records: gradients that a client evaluates, and where its local path ended
            work=lambda steps, sizes: ud.Gradients(steps), endpoint=lambda x, move: x + move
        ),
    )
    return ud.Algorithm(
        (exchange,),
        server=lambda x: (Server(x, jnp.zeros_like(x)), ()),
        client=lambda x, loss: jnp.zeros_like(x),
        model=lambda server: server.x,
    )


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
    print(*ud.theory.advise(problem, 1e-6, methods=["fedavg", "fedlin", feddyn], steps=[1, 10]).why, sep="\n")
    return gaps


if __name__ == "__main__":
    main()
