"""f_i(x) = ½‖A_i x − b_i‖², exactly as FedLin's problem (14): a sum over samples, no 1/n."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..errors import InputError
from .arrays import (
    normalised_weights,
    on_disk,
    require_room_for_hessians,
    require_sound,
    samples,
    to_device,
    where_it_lies,
)
from .base import Constants, Factors, Optimum, Problem
from .linear import LinearModel
from .quadratic import QuadraticFamily, QuadraticLoss, quadratic_rows

CHEAP_COST = 2e10  # multiplications, up to which x* is solved for if somebody asks: minutes
UNASKED_COST = 2e9  # … and if nobody does: seconds


class Samples(LinearModel):
    """The slope of ½(z − b)² is z − b."""

    def slopes(self, predictions: jax.Array, targets: jax.Array) -> jax.Array:
        return predictions - targets


class GramLoss(Samples, QuadraticLoss):
    """With H = AᵀA and c = Aᵀb kept: a gradient costs d² instead of 2nd."""

    def __init__(self, shared: Any, row: dict[str, Any]) -> None:
        QuadraticLoss.__init__(self, shared, row)
        self.A, self.targets, self.size = row["A"], row["b"], row["size"]


class ResidualLoss(Samples):
    """Straight from A and b, where clients have fewer samples than parameters."""

    def __init__(self, shared: Any, row: dict[str, Any]) -> None:
        self.A, self.targets, self.size = row["A"], row["b"], row["size"]

    def loss(self, x: jax.Array) -> jax.Array:
        return 0.5 * jnp.sum((self.A @ x - self.targets) ** 2)

    def gradient(self, x: jax.Array) -> jax.Array:
        return (self.A @ x - self.targets) @ self.A

    def measure(self, x: jax.Array, optimum: jax.Array | None, per_client: bool = False) -> dict[str, jax.Array]:
        """With the share ½‖A(x − x*)‖² of the gap: exact down to the smallest numbers."""
        residual = self.A @ x - self.targets
        found = {"loss": 0.5 * jnp.sum(residual**2), "gradient": residual @ self.A}
        return found if optimum is None else {**found, "gap": 0.5 * jnp.sum((self.A @ (x - optimum)) ** 2)}


class OfSamples(Problem):
    name = "least squares"
    sampled = ("A", "b")

    @classmethod
    def adds_samples(cls, static: tuple[Any, ...]) -> bool:
        return True

    # ----- for theory and advice
    def factors(self) -> Factors:
        """Squares have the curvature 1 everywhere."""
        A = self.stack["A"]
        return Factors(A, 1.0, lambda x: np.ones(A.shape[:2]))


class GramLeastSquares(OfSamples, QuadraticFamily):
    view = GramLoss


class LeastSquares(OfSamples):
    view = ResidualLoss

    def _optimum_is_cheap(self) -> bool:
        m, n, d = self.stack["A"].shape
        return m * n * d * min(m * n, d) <= CHEAP_COST

    def _optimum_is_quick(self) -> bool:
        m, n, d = self.stack["A"].shape
        return m * n * d * min(m * n, d) <= UNASKED_COST

    def _solve(self) -> Optimum:
        root = np.sqrt(np.asarray(self.weights, np.float64))
        A = (np.asarray(self.stack["A"], np.float64) * root[:, None, None]).reshape(-1, self.dim)
        b = (np.asarray(self.stack["b"], np.float64) * root[:, None]).ravel()
        x = np.linalg.lstsq(A, b, rcond=None)[0]
        x = x + np.linalg.lstsq(A, b - A @ x, rcond=None)[0]
        return Optimum(x.astype(self.dtype), float(0.5 * np.sum((A @ x - b) ** 2)), "closed form")

    def _constants(self) -> Constants:
        singular = np.linalg.svd(np.asarray(self.stack["A"], np.float64), compute_uv=False)
        largest = singular[:, 0] ** 2
        zeros = np.zeros_like(largest)  # fewer samples than parameters: A_iᵀA_i is singular
        return Constants(float(largest.max()), 0.0, largest, zeros)

    # ----- for theory and advice
    constant_hessians = True

    def hessians(self, x: Any = None) -> np.ndarray:
        require_room_for_hessians(self.clients, self.dim)
        A = np.asarray(self.stack["A"], np.float64)
        return np.swapaxes(A, 1, 2) @ A

    def gradients(self, x: Any) -> np.ndarray:
        A, b = (np.asarray(self.stack[name], np.float64) for name in ("A", "b"))
        return ((A @ np.asarray(x, np.float64) - b)[:, None, :] @ A)[:, 0, :]


class OnDiskLeastSquares(LeastSquares):
    """With A in a memory-mapped file: no products A_iᵀA_i are kept, and constants are found a client at a time."""

    def _solve(self) -> Optimum:
        if not self.is_on_disk:  # one client's, read from there
            return super()._solve()
        raise InputError(
            "x* of least squares is solved for in memory, and A is memory-mapped: give A as an array, np.array(A), if it fits"
        )

    def _constants(self) -> Constants:
        squares = [np.linalg.svd(np.asarray(one, np.float64), compute_uv=False) ** 2 for one in self.stack["A"]]
        largest = np.array([values[0] for values in squares])
        least = np.array([values[self.dim - 1] if len(values) == self.dim else 0.0 for values in squares])
        return Constants(float(largest.max()), float(least.min()), largest, least)


def least_squares(A: Any, b: Any, *, weights: Any = None, spectral: bool | None = None) -> Problem:
    """f_i(x) = ½‖A_i x − b_i‖² with A (m, n, d) and b (m, n), or lists of blocks of unequal n_i.

    `spectral` as for `quadratic`. An A that is memory-mapped (`np.load(file, mmap_mode="r")`, `ud.data.mapped`) is read once,
    to be checked, and then only for the clients that take part; see docs/out-of-core.md.

    >>> p = least_squares(np.ones((2, 3, 1)), np.array([[1.0, 1, 1], [3.0, 3, 3]]))
    >>> p.optimum.x, p.constants.L
    (array([2.]), 3.0)
    """
    rows_A, rows_b, sizes = samples(A, b, "b", "entry")
    dtype = precision.working_dtype(rows_A, rows_b)
    m, n, d = rows_A.shape
    require_sound(n, dtype, A=rows_A, b=rows_b)
    w = normalised_weights(weights, m, dtype)
    with precision.scope(dtype):
        own = {
            "A": where_it_lies("A", rows_A, dtype),
            "b": to_device(rows_b, dtype),
            "size": jnp.asarray(np.asarray(sizes, np.int32)),  # JAX would convert them by a program of its own
        }
        if on_disk(rows_A):
            return OnDiskLeastSquares(own, (), jnp.asarray(w), d, dtype)
        if n < d:
            return LeastSquares(own, (), jnp.asarray(w), d, dtype)
        A64, b64 = np.asarray(rows_A, np.float64), np.asarray(rows_b, np.float64)
        hessians = (np.swapaxes(A64, 1, 2) @ A64).astype(dtype)
        linear = (b64[:, None, :] @ A64)[:, 0, :].astype(dtype)
        constants = (0.5 * np.sum(b64**2, axis=1)).astype(dtype)
        rows, shared = quadratic_rows(hessians, linear, constants, w, spectral)
        return GramLeastSquares({**rows, **own}, shared, jnp.asarray(w), d, dtype)
