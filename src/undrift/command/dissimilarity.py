"""How far clients' gradients lie apart at the initial model."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..data import Parts
from ..models import Model
from ..problems.network import Network, network

BLOCK = 100  # samples whose gradients are taken at once


class Dissimilarity(NamedTuple):
    """‖∇f_i(x) − ∇f(x)‖ of every client, and ‖∇f(x)‖."""

    distances: np.ndarray
    gradient_norm: float
    parameters: int


def dissimilarity(model: Model, train: Any, parts: Parts, seed: int) -> Dissimilarity:
    """At the model that a run with this seed starts from; f is the mean over clients."""
    problem = network(model, train, parts)
    with precision.scope(problem.dtype):
        distances, norm = _compiled(problem, problem.initial(seed))
    return Dissimilarity(np.asarray(distances, np.float64), float(norm), problem.dim)


@jax.jit
def _compiled(problem: Network, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """All clients in one program. The mean comes first, so that one gradient is kept at a time and not one per client."""

    def gradient(f: Any) -> jax.Array:
        def add(block: Any, total: jax.Array) -> jax.Array:
            return total + f.component_gradient(x, block, BLOCK)

        return jax.lax.fori_loop(0, f.component_count(BLOCK), add, jnp.zeros_like(x))

    def add_client(carry: tuple[jax.Array, jax.Array], i: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        """What rounding took from the sum is given back with the next summand (Kahan)."""
        total, too_much = carry
        part = problem.weights[i] * gradient(problem.loss_of(i)) - too_much
        return (total + part, (total + part - total) - part), None

    (mean, _), _ = jax.lax.scan(add_client, (jnp.zeros_like(x), jnp.zeros_like(x)), jnp.arange(problem.clients))
    return problem.each(lambda f: jnp.linalg.norm(gradient(f) - mean)), jnp.linalg.norm(mean)
