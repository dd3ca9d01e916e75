"""Constants in closed form: quadratics, least squares, logistic regression."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import InputError
from ..problems.base import Problem
from ..problems.custom import Custom
from ..problems.pooled import Pooled
from ..problems.quadratic import constants_from_spectra
from .quantity import Quantity, exact

MEAN_COST_LIMIT = 2e10  # d³ (or N·d²) up to which the spectrum of f itself is computed


class Curvature(NamedTuple):
    """What is known of second derivatives without any measurement; None: nothing."""

    L: Quantity | None = None  # max_i L_i
    mu: Quantity | None = None  # min_i μ_i
    L_mean: Quantity | None = None  # of f
    mu_mean: Quantity | None = None
    pl: Quantity | None = None  # μ with ‖∇f‖² ≥ 2μ(f − f*)


def curvature(problem: Problem) -> Curvature:
    """L, μ of the clients and of f, and the PL constant of f, where they are known in closed form (or given by the user)."""
    problem = problem.source if isinstance(problem, Pooled) else problem
    try:
        known = problem.constants
    except InputError:
        return Curvature()
    if isinstance(problem, Custom):
        L, mu = (Quantity(value, "given", "by the user") for value in (known.L, known.mu))
        return Curvature(L, mu, L, mu, mu if mu > 0 else None)
    L, mu = exact(known.L, "max_i L_i"), exact(known.mu, "min_i μ_i")
    spectrum = _spectrum_of_mean(problem)
    factors = problem.factors()
    if factors is not None and not problem.constant_hessians:  # steepest at x = 0, flat far out
        l2 = exact(factors.l2, "the regulariser")
        top = None if spectrum is None else exact(float(spectrum[-1]) * factors.steepest + l2, "at x = 0")
        return Curvature(L, mu, top, l2, l2 if l2 > 0 else None)
    if spectrum is None:
        return Curvature(L, mu)
    mean = constants_from_spectra(spectrum[None])
    above = spectrum[spectrum > len(spectrum) * np.finfo(float).eps * mean.L]
    convex = mean.mu >= 0 and above.size > 0
    pl = exact(float(above[0]), "smallest eigenvalue > 0 of ∇²f") if convex else None
    return Curvature(L, mu, exact(mean.L, "spectrum of ∇²f"), exact(mean.mu, "spectrum of ∇²f"), pl)


def _spectrum_of_mean(problem: Problem) -> np.ndarray | None:
    """Eigenvalues of Σ w_i H_i (of Σ w_i A_iᵀA_i for a linear model); None where that would cost too much."""
    mean, factors = problem.mean_hessian(), problem.factors()
    if mean is not None:
        return None if problem.dim**3 > MEAN_COST_LIMIT else np.linalg.eigvalsh(mean)
    if factors is None:
        return None
    m, n, d = factors.A.shape
    if m * n * d * min(m * n, d) > MEAN_COST_LIMIT:
        return None
    root = np.sqrt(np.asarray(problem.weights, np.float64))[:, None, None]
    singular = np.linalg.svd((np.asarray(factors.A, np.float64) * root).reshape(-1, d), compute_uv=False)
    return np.sort(np.concatenate([singular**2, np.zeros(d - len(singular))]))


def component_smoothness(problem: Problem, batch: int = 1) -> list[np.ndarray] | None:
    """For every client the smoothness of each of its components, as parts of the sum f_i = Σ_j f̂_j; None where unknown.

    FedTrack and IAG refresh one component at a time: `batch` consecutive samples. For least squares a component's constant is
    the largest eigenvalue of its own AᵀA, for logistic regression a quarter of it plus its share of the regulariser.

    >>> import undrift as ud
    >>> p = ud.problems.least_squares(np.array([[[1.0], [2.0]], [[3.0], [1.0]]]), np.zeros((2, 2)))
    >>> [row.tolist() for row in component_smoothness(p)]
    [[1.0, 4.0], [9.0, 1.0]]
    """
    factors = problem.factors()
    if factors is None:
        return None
    found = []
    for A, n in zip(np.asarray(factors.A, np.float64), problem.sizes, strict=True):
        parts = [A[start : min(start + batch, n)] for start in range(0, int(n), batch)]
        norms = [_squared_norm(part) for part in parts]
        shares = [factors.l2 * len(part) / n for part in parts]
        found.append(factors.steepest * np.array(norms) + np.array(shares))
    return found


def _squared_norm(rows: np.ndarray) -> float:
    """‖A‖² (spectral)."""
    return float(np.sum(rows**2)) if len(rows) == 1 else float(np.linalg.norm(rows, 2) ** 2)


def fedtrack_smoothness(problem: Problem, batch: int = 1) -> Quantity | None:
    """max_ij L_ij in FedTrack's scaling f_i = (1/m_i) Σ_j f_ij, that is m_i times the part's own constant."""
    parts = component_smoothness(problem, batch)
    if parts is None:
        return None
    return exact(max(len(part) * float(part.max()) for part in parts), "max_ij L_ij, f_i = (1/m_i) Σ_j f_ij")


class Dissimilarity(NamedTuple):
    """Σ w_i‖∇f_i − ∇f‖² ≤ B²‖∇f‖² + ζ² everywhere."""

    B_sq: Quantity
    zeta_sq: Quantity


def quadratic_dissimilarity(problem: Problem, zeta_star_sq: float) -> Dissimilarity | None:
    """(B², ζ²) of quadratics, for every x.

    With u = x − x* and H = Σ w_i H_i, ∇f_i − ∇f = (H_i − H)u + ∇f_i(x*), so
    Σ w_i‖∇f_i − ∇f‖² ≤ 2uᵀMu + 2ζ*², M = Σ w_i(H_i − H)², and uᵀMu ≤ λ_max(H⁻¹MH⁻¹)‖∇f‖² as ∇f = Hu. Where all H_i are equal
    B² = 0 and ζ² = ζ*².
    """
    mean = problem.mean_hessian()
    if mean is None:
        return None
    values, vectors = np.linalg.eigh(mean)
    if values[0] <= len(values) * np.finfo(float).eps * abs(values[-1]):
        return None  # ∇f(x) = 0 far from x*: no B² is large enough
    off = problem.hessians(np.zeros(problem.dim)) - mean
    if not np.any(np.abs(off) > 1e-14 * abs(values[-1])):
        return Dissimilarity(exact(0.0, "all Hessians are equal"), exact(zeta_star_sq, "ζ*²"))
    root = (vectors / values) @ vectors.T
    weights = np.asarray(problem.weights, np.float64)
    M = np.einsum("i,ijk,ikl->jl", weights, off, off, optimize=True)
    spread = float(np.linalg.eigvalsh(root @ M @ root)[-1])
    return Dissimilarity(exact(2 * spread, "2λ_max(H⁻¹MH⁻¹)"), exact(2 * zeta_star_sq, "2ζ*²"))


def all_hessians_equal(problem: Problem) -> bool:
    """Whether ∇f_i − ∇f is the same everywhere."""
    if problem.mean_hessian() is None:
        return False
    hessians = problem.hessians(np.zeros(problem.dim))
    return bool(np.all(hessians == hessians[:1]))
