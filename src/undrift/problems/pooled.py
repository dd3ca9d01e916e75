"""All data in one place: f as the loss of a single client, for the centralised baselines."""

from __future__ import annotations

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..sums import total, weighted
from ..vectorise import take
from .base import Constants, Optimum, Problem, shapes_of
from .client import ClientLoss
from .quadratic import QuadraticFamily


class PooledLoss(ClientLoss):
    """f = Σ w_i f_i, with every client's components as its own."""

    def __init__(self, shared: Any, row: Any) -> None:
        self.problem, self.ends, self.eigen = shared["problem"], shared["ends"], shared.get("eigen")
        self.size = self.ends[-1]
        self.moment: tuple[jax.Array, Any] | None = None  # key and step at which its samples are seen

    def loss(self, x: jax.Array) -> jax.Array:
        return self.problem.evaluate(x, None).columns["loss"]

    def measure(self, x: jax.Array, optimum: jax.Array | None, per_client: bool = False) -> dict[str, jax.Array]:
        """The answers of all whose data it holds, heterogeneity among them included."""
        return {**self.problem.each(lambda f: f.measure(x, optimum, per_client)), "share": self.problem.weights}

    def gradient(self, x: jax.Array) -> jax.Array:
        return self.problem.mean_gradient(x)

    def partial_gradient(self, x: jax.Array, indices: jax.Array, weights: jax.Array) -> jax.Array:
        """Sample j of client i contributes w_i ∇f̂_ij."""

        def one(index: jax.Array, weight: jax.Array) -> jax.Array:
            i, place = _locate(self.ends, index)
            client = self.problem.client(take(self.problem.stack, i))
            if self.moment is not None:
                key, step = self.moment
                client = client.varied(jax.random.fold_in(key, index), step)
            return self.problem.weights[i] * client.partial_gradient(x, place[None], weight[None])

        return total(jax.vmap(one)(indices, weights))

    def varied(self, key: jax.Array, step: Any) -> PooledLoss:
        same = copy.copy(self)
        same.moment = (key, step)
        return same

    def component_count(self, batch: int) -> Any:
        return self._component_ends(batch)[-1]

    def _component_ends(self, batch: int) -> jax.Array:
        sizes = jnp.diff(self.ends, prepend=0)
        return jnp.cumsum(-(-sizes // batch))

    def track(self, x: jax.Array, batch: int) -> tuple[Any, jax.Array]:
        tables, gradients = self.problem.each(lambda f: f.track(x, batch))
        return tables, weighted(self.problem.weights, gradients)

    def refresh(self, table: Any, index: Any, y: jax.Array, batch: int) -> tuple[Any, jax.Array]:
        i, place = _locate(self._component_ends(batch), index)
        client = self.problem.client(take(self.problem.stack, i))
        row, change = client.refresh(take(table, i), place, y, batch)
        table = jax.tree.map(lambda whole, part: whole.at[i].set(part), table, row)
        return table, self.problem.weights[i] * change

    def spectrum(self) -> tuple[jax.Array, jax.Array] | None:
        return self.eigen


def _locate(ends: jax.Array, index: Any) -> tuple[jax.Array, jax.Array]:
    """Which client an index of the pooled data belongs to, and its place there."""
    i = jnp.searchsorted(ends, index, side="right")
    return i, index - jnp.where(i > 0, ends[i - 1], 0)


class Pooled(Problem):
    is_pooled = True
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

    @property
    def server_data(self) -> Any:
        return self.shared["problem"].server_data

    def _only(self, client: int) -> Pooled:
        return type(self).of(self.source.at_clients())  # the one client there is holds everything

    def _client_shapes(self) -> tuple[Any, Any]:
        return shapes_of(self.stack, rows=True), shapes_of({**self.shared, "problem": self.source.at_clients()})

    @property
    def merges(self) -> bool:
        return self.shared["problem"].merges

    def initial(self, seed: int) -> np.ndarray:
        return self.source.initial(seed)

    def evaluate(self, x: jax.Array, reference: Any, per_client: bool = False) -> Any:
        """The records of the original problem, heterogeneity among its clients included."""
        return self.shared["problem"].evaluate(x, reference, per_client)

    def _optimum_is_cheap(self) -> bool:
        return self.source._optimum_is_cheap() or "optimum" in self.source.__dict__

    def _optimum_is_quick(self) -> bool:
        return self.source._optimum_is_quick() or "optimum" in self.source.__dict__

    def _solve(self) -> Optimum:
        return self.source.optimum

    def _constants(self) -> Constants:
        return self.source.constants
