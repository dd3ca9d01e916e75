"""Extreme eigenvalues of Hessians by Lanczos iteration on Hessian-vector products.

For networks and users' own problems L and μ have no closed form. ∇²f(x)v is one forward derivative of the gradient, about two
gradients' work, and the ends of the spectrum come out of a few dozen of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..errors import InputError
from ..problems.base import Problem

MOST_PRODUCTS = 300
CHECK_EVERY = 5


class Extremes(NamedTuple):
    """The ends of a spectrum. Some eigenvalue lies within `error_…` of each (‖Hu − θu‖ of the Ritz pair)."""

    largest: float
    smallest: float
    error_largest: float
    error_smallest: float
    products: int  # Hessian-vector products it took

    @property
    def magnitude(self) -> float:
        """max |λ|: the local smoothness."""
        return max(abs(self.largest), abs(self.smallest))


def lanczos(
    product: Callable[[np.ndarray], Any],
    dim: int,
    *,
    tolerance: float = 1e-5,
    most: int = MOST_PRODUCTS,
    seed: int = 0,
) -> Extremes:
    """The largest and the smallest eigenvalue of a symmetric matrix that is known by its products only.

    Lanczos iteration from a random vector, with full reorthogonalisation (twice, in double precision), until both ends have a
    residual below tolerance·max|λ|, or after `most` products. The residual |β_k s_k| bounds the distance to an eigenvalue.

    Parlett, "The symmetric eigenvalue problem" (1980), chapter 13.

    >>> found = lanczos(lambda v: np.array([3.0, -1.0, 0.5]) * v, dim=3)
    >>> round(found.largest, 9), round(found.smallest, 9), found.products
    (3.0, -1.0, 3)
    """
    if dim < 1:
        raise InputError(f"a Hessian has at least one row, got dim = {dim}")
    start = np.random.default_rng(seed).standard_normal(dim)
    basis = np.zeros((min(most, dim), dim))
    basis[0] = start / np.linalg.norm(start)
    diagonal: list[float] = []
    off: list[float] = []
    ends = np.zeros(2)
    errors = np.full(2, np.inf)
    for k in range(len(basis)):
        image = np.asarray(product(basis[k]), np.float64)
        if not np.all(np.isfinite(image)):
            raise InputError("a Hessian-vector product is not finite: the path leaves the region where f is smooth")
        diagonal.append(float(basis[k] @ image))
        for _ in range(2):
            image = image - basis[: k + 1].T @ (basis[: k + 1] @ image)
        left = float(np.linalg.norm(image))
        finished = k + 1 == len(basis) or left <= 1e-13 * max(abs(d) for d in diagonal)
        if finished or (k + 1) % CHECK_EVERY == 0:
            values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
            ends, errors = values[[-1, 0]], left * np.abs(vectors[-1, [-1, 0]])
            if finished or np.all(errors <= tolerance * np.max(np.abs(ends))):
                break
        off.append(left)
        basis[k + 1] = image / left
    return Extremes(float(ends[0]), float(ends[1]), float(errors[0]), float(errors[1]), len(diagonal))


def of_client(problem: Problem, x: Any, client: int, **options: Any) -> Extremes:
    """The ends of the spectrum of ∇²f_i(x); options as for `lanczos`.

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> round(of_client(p, [0.0], 1).largest, 12)
    2.0
    """
    with precision.scope(problem.dtype):
        point, number = jnp.asarray(x, problem.dtype), jnp.asarray(client, jnp.int32)
        return lanczos(
            lambda v: _client_product(problem, number, point, jnp.asarray(v, problem.dtype)), problem.dim, **options
        )


def of_mean(problem: Problem, x: Any, **options: Any) -> Extremes:
    """The ends of the spectrum of ∇²f(x), f = Σ w_i f_i.

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> round(of_mean(p, [0.0]).largest, 12)
    1.5
    """
    with precision.scope(problem.dtype):
        point = jnp.asarray(x, problem.dtype)
        return lanczos(lambda v: _mean_product(problem, point, jnp.asarray(v, problem.dtype)), problem.dim, **options)


def along(problem: Problem, path: np.ndarray, **options: Any) -> tuple[Extremes, Extremes]:
    """The widest spectrum met on a path: of any single f_i, and of f. `products` counts all of them."""
    clients = [of_client(problem, x, i, **options) for x in path for i in range(problem.clients)]
    return _widest(clients), _widest([of_mean(problem, x, **options) for x in path])


def _widest(found: list[Extremes]) -> Extremes:
    top, bottom = max(found, key=lambda e: e.largest), min(found, key=lambda e: e.smallest)
    products = sum(e.products for e in found)
    return Extremes(top.largest, bottom.smallest, top.error_largest, bottom.error_smallest, products)


@jax.jit
def _client_product(problem: Any, client: jax.Array, x: jax.Array, v: jax.Array) -> jax.Array:
    loss = problem.loss_of(client)
    return jax.jvp(loss.gradient, (x,), (v,))[1]


@jax.jit
def _mean_product(problem: Any, x: jax.Array, v: jax.Array) -> jax.Array:
    return jax.jvp(problem.mean_gradient, (x,), (v,))[1]
