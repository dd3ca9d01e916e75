"""A method of your own in thirty lines, and what is known of it: a table of gradients.

The server keeps the last gradient G_i that each client sent, in a slot of that client, and their mean g = Σ w_i G_i; all are
zero at the start. In a round it sends x to the cohort S, client i answers ∇f_i(x), and

    g ← g + Σ_{i∈S} w_i (∇f_i(x) − G_i),        G_i ← ∇f_i(x),        x ← x − η g.

Whoever is absent counts with what it said last. Where nothing moves any more, G_i = ∇f_i(x) and g = ∇f(x) = 0: it ends at the
minimiser x* though clients are absent, which FedSGD and FedAvg do not. With everybody present it is gradient descent.

What is known of it stands in a record, `KNOWN`, and with that the library serves it as it serves its own methods:

    ud.run(table(eta="theorem"), problem, rounds=100)
    ud.theory.advise(problem, 1e-6, methods=["fedavg", "fedlin", table])
    undrift advise  --problem least_squares --method fedlin examples/own_method.py:table
    undrift compare --problem least_squares --method fedlin examples/own_method.py:table
    undrift explain examples/own_method.py:table

It is the stochastic average gradient with clients in place of samples: Le Roux, Schmidt, Bach, "A stochastic gradient method
with an exponential convergence rate for finite training sets" (2012).
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import undrift as ud
from undrift.theory.known import per_round
from undrift.theory.needs import need_everyone
from undrift.theory.round_map import RoundMap


def bound(run, constants):
    """With everybody present g = ∇f(x): gradient descent, η = 1/L of f."""
    name = "a table of gradients that are all fresh is gradient descent"
    need_everyone(run, name)
    return dataclasses.replace(ud.theory.centralised.gd(constants), theorem=name, method="table")


def round_map(q, values, steps):
    """A round on quadratics, everybody present: x⁺ = x − η ∇f(x), for columns of x."""
    return RoundMap("table", q, q.dim, lambda x: x - values["eta"] * q.mean(q.gradients(x)))


KNOWN = ud.Known(
    bound=bound,  # eta="theorem" takes its numbers, the adviser holds its predictions against it
    round_map=round_map,  # lets the adviser predict rounds instead of measuring them
    scale=per_round,  # its step sizes are of the order 1/L
    local="none",  # clients take no local steps
    rule="1/L of f where nobody is absent: gradient descent",
    colour="#332288",
)


class Server(NamedTuple):
    x: jax.Array
    g: jax.Array


@ud.method(known=KNOWN)
def table(eta: float) -> ud.Algorithm:
    """↓x; ↑∇f_i(x); g ← g + Σ_{i∈S} w_i(∇f_i(x) − G_i); G_i ← ∇f_i(x); x ← x − ηg."""

    def start(x):  # the server's own memory, and G_i in the slot of every client
        return Server(x, jnp.zeros_like(x)), jnp.zeros_like(x)

    def receive(server, slots, gradients, cohort):
        g = server.g + cohort.total(gradients - slots)  # Σ w_i(…) over those that answered
        return Server(server.x - eta * g, g), gradients

    exchange = ud.Exchange(
        "gradient",
        send=lambda server, slot: server.x,
        client=lambda memory, x, local: (memory, local.gradient(x)),
        receive=receive,
        account=ud.Account(work=lambda steps, sizes: ud.Gradients(0 * steps + 1)),  # for the records: one gradient
    )
    return ud.Algorithm((exchange,), server=start, model=lambda server: server.x)


def main(rounds: int = 1500) -> dict[str, np.ndarray]:
    """Three methods on ten clients whose data disagree, half of them absent in every round. Returns the gaps f(x_t) − f*."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((10, 30, 8))
    truth = 3 * rng.standard_normal((10, 8, 1))  # every client has its own
    problem = ud.problems.least_squares(A, (A @ truth)[..., 0])
    L, x0 = problem.constants.L, np.full(8, 10.0)
    gaps = {}
    for method in (ud.fedavg(eta=0.5 / L), ud.fedsgd(eta=0.2 / L), table(eta=0.2 / L)):
        result = ud.run(method, problem, rounds=rounds, steps=10, participation=ud.plan.uniform(5), x0=x0)
        gaps[method.name] = result.history["gap"]
        sent = result.history["bytes_up"][-1]
        print(f"{method.name:8} gap {gaps[method.name][0]:.1e} → {gaps[method.name][-1]:.1e}, {sent:,} bytes up")
    print(*ud.theory.advise(problem, 1e-6, methods=["fedavg", "fedlin", table], steps=[1, 10]).why, sep="\n")
    return gaps


if __name__ == "__main__":
    main()
