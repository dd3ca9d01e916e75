"""All data in one place: f as the loss of a single client, for the centralised baselines."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..vectorise import take
from .base import ClientLoss, Constants, Optimum, Problem
from .quadratic import QuadraticFamily


class PooledLoss(ClientLoss):
    """f = Σ w_i f_i, with every client's components as its own."""

    def __init__(self, shared: Any, row: Any) -> None:
        self.problem, self.ends, self.eigen = shared["problem"], shared["ends"], shared.get("eigen")
        self.size = self.ends[-1]

    def loss(self, x: jax.Array) -> jax.Array:
        return self.problem.evaluate(x, None).columns["loss"]

    def gradient(self, x: jax.Array) -> jax.Array:
        return self.problem.mean_gradient(x)

    def batch_gradient(self, x: jax.Array, indices: jax.Array) -> jax.Array:
        """(N/b) Σ_{j∈B} (w_i/n_i)·n_i∇f_ij: component j of client i is met with probability 1/N."""

        def one(index: jax.Array) -> jax.Array:
            i = jnp.searchsorted(self.ends, index, side="right")
            start = jnp.where(i > 0, self.ends[i - 1], 0)
            share = self.problem.weights[i] * self.size / (self.ends[i] - start)
            client = self.problem.client(take(self.problem.stack, i))
            return share.astype(x.dtype) * client.batch_gradient(x, (index - start)[None])

        return jnp.mean(jax.vmap(one)(indices), axis=0)

    def spectrum(self) -> tuple[jax.Array, jax.Array] | None:
        return self.eigen


class Pooled(Problem):
    name = "pooled"
    view = PooledLoss

    @classmethod
    def of(cls, problem: Problem) -> Pooled:
        """One client that holds everything."""
        with precision.scope(problem.dtype):
            shared: dict[str, Any] = {"problem": problem, "ends": jnp.asarray(np.cumsum(problem.sizes), jnp.int32)}
            if isinstance(problem, QuadraticFamily) and "eigen" in problem.stack:
                eigenvalues, vectors = np.linalg.eigh(np.asarray(problem.shared["hessian"], np.float64))
                shared["eigen"] = (jnp.asarray(eigenvalues, problem.dtype), jnp.asarray(vectors, problem.dtype))
            whole = cls(
                {"dummy": jnp.zeros((1,), problem.dtype)},
                shared,
                jnp.ones(1, problem.dtype),
                problem.dim,
                problem.dtype,
            )
        whole.source = problem
        return whole

    source: Problem

    @property
    def sizes(self) -> np.ndarray:
        return np.asarray([int(self.shared["ends"][-1])])

    def evaluate(self, x: jax.Array, reference: Any) -> Any:
        """The records of the original problem, heterogeneity among its clients included."""
        return self.shared["problem"].evaluate(x, reference)

    def _optimum_is_cheap(self) -> bool:
        return self.source._optimum_is_cheap() or "optimum" in self.source.__dict__

    def _solve(self) -> Optimum:
        return self.source.optimum

    def _constants(self) -> Constants:
        return self.source.constants
