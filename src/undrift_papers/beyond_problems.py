"""Seeded ensembles of random problems on which `beyond/…` holds variants against the papers' rules.

Every draw of a kind has the same shapes, so that one compiled program serves the whole ensemble. m = 10 clients with data of
their own, numbers of local steps of their own (τ_i between 1 and 20, or 1 and 6 for networks), and in every second problem
weights of their own.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import undrift as ud

KINDS = ("quadratic", "logistic", "network")
CLIENTS, COHORT, DIM = 10, 4, 8
SAMPLES = 24  # of every client, where losses are sums over samples
KAPPA = {"quadratic": (4.0, 12.0, 36.0), "logistic": (6.0, 18.0, 54.0)}  # L/μ, one after the other
LONGEST = {"quadratic": 20, "logistic": 20, "network": 6}  # the largest τ_i
INPUTS, HIDDEN, L2 = 3, 5, 0.2  # of the network
NETWORK_DIM = HIDDEN * (INPUTS + 2) + 1
DESCENT = 400  # steps of gradient descent to the second point at which a network's curvature is measured

# What is measured: how far the model is from x*, or, where there may be many stationary points, the gradient of f.
MEASURES = {"quadratic": "‖x − x*‖²", "logistic": "‖x − x*‖²", "network": "‖∇f(x)‖²"}


class Case(NamedTuple):
    """A problem, the scale of its step, and what belongs to a run of it."""

    kind: str
    number: int
    problem: Any
    L: float  # every f_i is L-smooth; of a network: the largest curvature of a client at two points
    mu: float  # every f_i is μ-strongly convex; NaN where it is not
    steps: list[int]  # τ_i
    x0: np.ndarray

    def measure(self, history: Any) -> np.ndarray:
        """The column by which this kind is judged, squared distances all."""
        return np.asarray(history["grad_norm"] ** 2 if self.kind == "network" else history["sq_distance"])


@functools.lru_cache(maxsize=512)
def case(kind: str, number: int) -> Case:
    """The problem with this number.

    >>> one = case("quadratic", 4)
    >>> one.problem.clients, one.problem.dim, round(one.L / one.mu, 6), one.problem.weights.tolist() == [0.1] * 10
    (10, 8, 12.0, True)
    """
    rng = np.random.default_rng([number, KINDS.index(kind)])
    steps = [int(tau) for tau in rng.integers(1, LONGEST[kind] + 1, CLIENTS)]
    weights = np.full(CLIENTS, 1 / CLIENTS) if number % 2 == 0 else _unequal(rng)
    return {"quadratic": _quadratic, "logistic": _logistic, "network": _network}[kind](number, rng, steps, weights)


def _unequal(rng: np.random.Generator) -> np.ndarray:
    """Weights between about 1/30 and 1/4."""
    weights: np.ndarray = 0.3 / CLIENTS + 0.7 * rng.dirichlet(np.full(CLIENTS, 2.0))
    return weights


def _quadratic(number: int, rng: np.random.Generator, steps: list[int], weights: np.ndarray) -> Case:
    """½‖A_i x − b_i‖² with A_iᵀA_i = Q_i diag(λ) Q_iᵀ, λ from 1/κ to 1, and b_i = A_i x_i + noise, x_i ~ N(0, 4 I)."""
    kappa = KAPPA["quadratic"][number % 3]
    left = np.linalg.qr(rng.standard_normal((CLIENTS, SAMPLES, DIM)))[0]
    right = np.linalg.qr(rng.standard_normal((CLIENTS, DIM, DIM)))[0]
    inner = np.exp(-np.log(kappa) * rng.uniform(size=(CLIENTS, DIM - 2)))
    eigenvalues = np.concatenate([np.ones((CLIENTS, 1)), inner, np.full((CLIENTS, 1), 1 / kappa)], axis=1)
    A = (left * np.sqrt(eigenvalues)[:, None, :]) @ np.swapaxes(right, 1, 2)
    b = np.einsum("ijk,ik->ij", A, 2 * rng.standard_normal((CLIENTS, DIM)))
    b = b + 0.1 * rng.standard_normal(b.shape)
    problem = ud.problems.least_squares(A, b, weights=weights)
    return Case("quadratic", number, problem, 1.0, 1 / kappa, steps, np.zeros(DIM))


def _logistic(number: int, rng: np.random.Generator, steps: list[int], weights: np.ndarray) -> Case:
    """Σ_j log(1 + exp(−y_j a_jᵀx)) + (l2/2)‖x‖², labels by a direction of the client's own, one in ten the other way."""
    kappa = KAPPA["logistic"][number % 3]
    A = rng.standard_normal((CLIENTS, SAMPLES, DIM)) * rng.uniform(0.5, 1.5, (CLIENTS, 1, DIM))
    y = np.sign(np.einsum("ijk,ik->ij", A, rng.standard_normal((CLIENTS, DIM))))
    y *= np.where(rng.uniform(size=y.shape) < 0.1, -1, 1)
    steepest = float(np.linalg.eigvalsh(np.swapaxes(A, 1, 2) @ A)[:, -1].max()) / 4
    l2 = steepest / (kappa - 1)
    problem = ud.problems.logistic(A, y, l2=l2, weights=weights)
    return Case("logistic", number, problem, steepest + l2, l2, steps, np.zeros(DIM))


def _network(number: int, rng: np.random.Generator, steps: list[int], weights: np.ndarray) -> Case:
    """One hidden layer of tanh, mean squares of errors, weight decay; targets by a network of the client's own."""
    A = rng.standard_normal((CLIENTS, SAMPLES, INPUTS))
    teachers = rng.standard_normal(NETWORK_DIM) + 0.5 * rng.standard_normal((CLIENTS, NETWORK_DIM))
    y = np.stack([np.asarray(_outputs(x, a, np)) for x, a in zip(teachers, A, strict=True)])
    y = y + 0.1 * rng.standard_normal(y.shape)
    problem = ud.problems.custom(network_loss, {"A": A, "y": y}, NETWORK_DIM, weights=weights)
    x0 = 0.5 * rng.standard_normal(NETWORK_DIM)
    L = _curvature(problem, x0)
    reached = ud.run(ud.gd(eta=1 / L), problem, rounds=DESCENT, x0=x0, record_every=DESCENT).x
    return Case("network", number, problem, max(L, _curvature(problem, reached)), float("nan"), steps, x0)


def _curvature(problem: Any, x: np.ndarray) -> float:
    """The largest curvature of a client, in absolute value."""
    return float(np.abs(np.linalg.eigvalsh(problem.hessians(x))).max())


def network_loss(x: jax.Array, data: dict[str, jax.Array]) -> jax.Array:
    """½ mean (output − y)² + (l2/2)‖x‖², of one client."""
    return 0.5 * jnp.mean((_outputs(x, data["A"], jnp) - data["y"]) ** 2) + 0.5 * L2 * (x @ x)


def _outputs(x: Any, inputs: Any, numpy: Any) -> Any:
    W, rest = x[: HIDDEN * INPUTS].reshape(INPUTS, HIDDEN), x[HIDDEN * INPUTS :]
    hidden = numpy.tanh(inputs @ W + rest[None, :HIDDEN])
    return hidden @ rest[HIDDEN : 2 * HIDDEN] + rest[-1]
