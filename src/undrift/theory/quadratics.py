"""Clients with constant Hessians, in float64 NumPy: what round maps, surrogates and predictions are computed from."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ..errors import InputError
from ..problems.base import Problem

DENSE_LIMIT = 300  # d up to which Hessians are formed


@dataclasses.dataclass(frozen=True)
class Quadratics:
    """f_i(x) = ½xᵀH_i x − c_iᵀx + const with weights w_i, and the minimiser x* of f = Σ w_i f_i.

    `how`: "exact" if the problem is this, "linearised" if it was replaced by its second-order model at a point.
    """

    hessians: np.ndarray  # (m, d, d)
    linear: np.ndarray  # (m, d)
    weights: np.ndarray  # (m,)
    x: np.ndarray  # x*
    how: Literal["exact", "linearised"] = "exact"

    @property
    def clients(self) -> int:
        return len(self.weights)

    @property
    def dim(self) -> int:
        return int(self.linear.shape[1])

    @cached_property
    def spectra(self) -> tuple[np.ndarray, np.ndarray]:
        """(λ, V) of every H_i: (m, d) and (m, d, d)."""
        values, vectors = np.linalg.eigh(self.hessians)
        return values, vectors

    @cached_property
    def hessian(self) -> np.ndarray:
        """H = Σ w_i H_i."""
        return np.tensordot(self.weights, self.hessians, axes=1)

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """(λ, V) of H."""
        values, vectors = np.linalg.eigh(self.hessian)
        return values, vectors

    @cached_property
    def root(self) -> np.ndarray:
        """H^½, so that f(x) − f* = ½‖H^½(x − x*)‖²."""
        eigenvalues, vectors = self.spectrum
        return (vectors * np.sqrt(np.maximum(eigenvalues, 0))) @ vectors.T

    @property
    def stretch(self) -> float:
        """‖H^½‖."""
        return float(np.sqrt(max(self.spectrum[0][-1], 0.0)))

    @property
    def smoothness(self) -> float:
        """L = max_i ‖H_i‖."""
        return float(np.max(np.abs(self.spectra[0])))

    def gap(self, x: np.ndarray) -> np.ndarray:
        """f(x) − f*, for one x (d,) or for columns (d, k)."""
        off = x - (self.x if x.ndim == 1 else self.x[:, None])
        return 0.5 * np.sum((self.root @ off) ** 2, axis=0)

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """∇f_i at the columns of x: (d, k) -> (m, d, k)."""
        return self.hessians @ x - self.linear[:, :, None]

    def mean(self, rows: np.ndarray) -> np.ndarray:
        """Σ w_i rows_i."""
        return np.tensordot(self.weights, rows, axes=1)

    @classmethod
    def of(cls, problem: Any) -> Quadratics:
        """The problem itself, where its Hessians are constant.

        >>> import undrift as ud
        >>> q = Quadratics.of(ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]])))
        >>> float(q.gap(np.array([0.0]))), float(q.hessian[0, 0])
        (884.0833333333334, 1.5)
        """
        if isinstance(problem, Quadratics):
            return problem
        if not getattr(problem, "constant_hessians", False):
            name = getattr(problem, "name", type(problem).__name__)
            raise InputError(
                f"exact round maps and surrogates need constant Hessians (quadratics, least squares), not a {name} problem: "
                "Quadratics.at(problem) gives its second-order model at x*"
            )
        origin = np.zeros(problem.dim)
        weights = np.asarray(problem.weights, np.float64)
        return cls(
            problem.hessians(origin),
            0.0 - problem.gradients(origin),
            weights / weights.sum(),
            np.asarray(problem.optimum.x, np.float64),
        )

    @classmethod
    def at(cls, problem: Problem, x: Any = None) -> Quadratics:
        """The second-order model of every f_i at x (x* where none is given), with gradients that are right at x*.

        The model has ∇f_i(x*) and ∇²f_i(x), so its minimiser is x*. Quadratic problems are returned as they are.
        """
        if problem.constant_hessians:
            return cls.of(problem)
        if problem.dim > DENSE_LIMIT:
            raise InputError(
                f"the second-order model needs d×d Hessians, which are formed up to d = {DENSE_LIMIT}; here d = {problem.dim}"
            )
        best = np.asarray(problem.optimum.x, np.float64)
        hessians = problem.hessians(best if x is None else x)
        weights = np.asarray(problem.weights, np.float64)
        linear = hessians @ best - problem.gradients(best)
        return cls(hessians, linear, weights / weights.sum(), best, "linearised")


def geometric_sum(ratio: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Σ_{ℓ<count} ratio^ℓ by doubling: no division, so nothing is lost where the ratio is near one.

    >>> geometric_sum(np.array([0.5, 1.0, -2.0]), np.array([3]))
    array([1.75, 3.  , 3.  ])
    """
    left = np.broadcast_to(np.asarray(count), np.broadcast_shapes(np.shape(ratio), np.shape(count))).copy()
    total, power = np.zeros(left.shape), np.ones(left.shape)
    block, block_power = np.ones(left.shape), np.broadcast_to(ratio, left.shape).astype(float)
    with np.errstate(over="ignore", invalid="ignore"):
        while left.any():
            take = left % 2 == 1
            total = np.where(take, total + power * block, total)
            power = np.where(take, power * block_power, power)
            left //= 2
            block, block_power = block * (1 + block_power), block_power * block_power
    return total
