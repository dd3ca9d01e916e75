"""f_i(x) = ½ xᵀA_i x − b_iᵀx."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..errors import InputError
from ..sums import weighted_on_host
from .arrays import normalised_weights, real, require_room_for_hessians, require_sound, to_device
from .base import Constants, Optimum, Problem, rows_alike
from .client import ClientLoss
from .evaluation import Evaluation, Reference, summarise

SPECTRUM_LIMIT = 5e9  # m·d³ above which eigendecompositions are not worth their time
SPECTRUM_ENTRIES = 5e7  # m·d² above which they are not worth their memory


class QuadraticLoss(ClientLoss):
    """½ xᵀHx − cᵀx + constant, with (λ, V) of H where it was computed."""

    def __init__(self, shared: Any, row: dict[str, Any]) -> None:
        self.hessian, self.linear, self.constant = row["hessian"], row["linear"], row["constant"]
        self.eigen = row.get("eigen")

    def loss(self, x: jax.Array) -> jax.Array:
        return x @ (0.5 * (self.hessian @ x) - self.linear) + self.constant

    def gradient(self, x: jax.Array) -> jax.Array:
        return self.hessian @ x - self.linear

    def measure(self, x: jax.Array, optimum: jax.Array | None, per_client: bool = False) -> dict[str, jax.Array]:
        """With the share ½(x − x*)ᵀH(x − x*) of the gap: exact down to the smallest numbers. H is read once."""
        if optimum is None:
            curved = self.hessian @ x
            return self._answers(x, curved)
        off = x - optimum
        curved, off_curved = jnp.stack([x, off]) @ self.hessian.T
        return {**self._answers(x, curved), "gap": 0.5 * (off @ off_curved)}

    def _answers(self, x: jax.Array, curved: jax.Array) -> dict[str, jax.Array]:
        return {"loss": x @ (0.5 * curved - self.linear) + self.constant, "gradient": curved - self.linear}

    def spectrum(self) -> tuple[jax.Array, jax.Array] | None:
        return self.eigen

    def prox(self, centre: jax.Array, s: Any) -> jax.Array:
        if self.eigen is None:
            system = jnp.eye(centre.size, dtype=centre.dtype) + s * self.hessian
            return jnp.linalg.solve(system, centre + s * self.linear)
        eigenvalues, vectors = self.eigen
        return vectors @ (((centre + s * self.linear) @ vectors) / (1 + s * eigenvalues))


class QuadraticFamily(Problem):
    """Problems with constant Hessians H_i and ∇f_i(x) = H_i x − c_i."""

    view = QuadraticLoss

    def prefers_loop(self, exact: bool) -> bool:
        # With the closed form of the local steps there is no loop over them whose length could differ.
        return "eigen" not in self.stack and super().prefers_loop(exact)

    def evaluate(self, x: jax.Array, reference: Reference | None, per_client: bool = False) -> Evaluation:
        """As for any problem; the gap of all clients together is ½(x − x*)ᵀH(x − x*) with the mean Hessian, in one product."""
        if reference is None or per_client:
            return super().evaluate(x, reference, per_client)
        found = summarise(x, self.each(lambda f: f.measure(x, None)), self.weights, reference)
        off = x - reference.x
        gap = 0.5 * off @ (self.shared["hessian"] @ off)
        return found._replace(columns=found.columns | {"loss": reference.value + gap, "gap": gap})

    def _own_shared(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"hessian": jnp.asarray(np.array(row["hessian"][0]))}

    def _solve(self) -> Optimum:
        hessian = np.asarray(self.shared["hessian"], np.float64)
        linear = weighted_on_host(self.weights, self.stack["linear"])
        x = minimiser_of_quadratic(hessian, linear)
        constant = weighted_on_host(self.weights, self.stack["constant"])
        value = 0.5 * x @ (hessian @ x) - linear @ x + constant
        return Optimum(x.astype(self.dtype), float(value), "closed form")

    def _constants(self) -> Constants:
        eigen = self.stack.get("eigen")
        if eigen is not None:
            return constants_from_spectra(np.asarray(eigen[0], np.float64))
        return constants_from_spectra(np.linalg.eigvalsh(np.asarray(self.stack["hessian"], np.float64)))

    # ----- for theory and advice
    constant_hessians = True
    has_prox = True

    def hessians(self, x: Any = None) -> np.ndarray:
        return np.asarray(self.stack["hessian"], np.float64)

    def gradients(self, x: Any) -> np.ndarray:
        return self.hessians() @ np.asarray(x, np.float64) - np.asarray(self.stack["linear"], np.float64)

    def mean_hessian(self) -> np.ndarray:
        return np.asarray(self.shared["hessian"], np.float64)

    def all_alike(self) -> bool:
        return rows_alike((self.stack["hessian"], self.stack["linear"]))


class Quadratic(QuadraticFamily):
    name = "quadratic"


def quadratic(A: Any, b: Any, *, weights: Any = None, spectral: bool | None = None) -> Quadratic:
    """f_i(x) = ½ xᵀA_i x − b_iᵀx with A (m, d, d) symmetric and b (m, d); A_i may be singular.

    `spectral`: replace τ local steps of plain gradient descent by their closed form, through an eigendecomposition of each
    A_i made once (same iterates to rounding, the cost no longer depends on τ). Default: wherever it is affordable.

    >>> p = quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> p.clients, p.dim, float(p.optimum.x[0])          # FedLin, figure 1: 103/3
    (2, 1, 34.333333333333336)
    """
    A, b = real("A", A), real("b", b)
    if A.ndim != 3 or A.shape[1] != A.shape[2] or not A.size:
        raise InputError(
            f"A must have shape (m, d, d), got {A.shape}: one symmetric matrix for each of m ≥ 1 clients, d ≥ 1"
        )
    if np.shape(b) != np.shape(A)[:2]:
        raise InputError(f"b must have shape (m, d) = {np.shape(A)[:2]} to fit A, got {np.shape(b)}")
    dtype = precision.working_dtype(A, b)
    require_room_for_hessians(*b.shape)
    hessians, linear = np.asarray(A, dtype), np.asarray(b, dtype)
    require_sound(hessians.shape[1], dtype, A=A, b=b)
    asymmetry = float(np.max(np.abs(hessians - np.swapaxes(hessians, 1, 2)), initial=0))
    if asymmetry > 1e-6 * max(1.0, float(np.max(np.abs(hessians), initial=0))):
        raise InputError(f"every A_i must be symmetric, largest |A − Aᵀ| is {asymmetry:.3g}: pass (A + Aᵀ)/2")
    w = normalised_weights(weights, len(hessians), dtype)
    rows, shared = quadratic_rows(hessians, linear, np.zeros(len(hessians), dtype), w, spectral)
    with precision.scope(dtype):
        return Quadratic(rows, shared, jnp.asarray(w), hessians.shape[1], dtype)


def quadratic_rows(
    hessians: np.ndarray, linear: np.ndarray, constants: np.ndarray, weights: np.ndarray, spectral: bool | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The stack and the shared part of a problem with these Hessians."""
    m, d, _ = hessians.shape
    dtype = hessians.dtype
    if spectral not in (None, True, False):
        raise InputError(f"spectral must be True, False or None, got {spectral!r}: choose one of them")
    affordable = m * d**3 <= SPECTRUM_LIMIT and m * d**2 <= SPECTRUM_ENTRIES
    with precision.scope(dtype):
        rows: dict[str, Any] = {
            "hessian": to_device(hessians, dtype),
            "linear": to_device(linear, dtype),
            "constant": to_device(constants, dtype),
        }
        if affordable if spectral is None else spectral:
            eigenvalues, vectors = np.linalg.eigh(hessians.astype(np.float64))
            rows["eigen"] = (to_device(eigenvalues, dtype), to_device(vectors, dtype))
        return rows, {"hessian": jnp.asarray(weighted_on_host(weights, hessians), dtype)}


def minimiser_of_quadratic(hessian: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """argmin ½xᵀHx − cᵀx (the shortest one if there are many), polished by one step of refinement in extended precision."""
    eigenvalues, vectors = np.linalg.eigh(hessian)
    cutoff = len(linear) * np.finfo(np.float64).eps * max(float(np.max(np.abs(eigenvalues))), np.finfo(float).tiny)
    if eigenvalues[0] < -cutoff:
        raise InputError(f"f is unbounded below: the mean Hessian has the eigenvalue {eigenvalues[0]:.3g} < 0")
    inverse = np.where(eigenvalues > cutoff, 1 / np.where(eigenvalues > cutoff, eigenvalues, 1), 0)

    def solve(rhs: np.ndarray) -> np.ndarray:
        return vectors @ (inverse * (vectors.T @ rhs))

    x = solve(linear)
    residual = linear.astype(np.longdouble) - hessian.astype(np.longdouble) @ x.astype(np.longdouble)
    x = x + solve(residual.astype(np.float64))
    left = np.linalg.norm(linear - hessian @ x)
    if left > 1e-8 * max(1.0, float(np.linalg.norm(linear))):
        raise InputError(f"f has no minimiser: Hx = c has no solution (smallest residual {left:.3g})")
    return x


def constants_from_spectra(eigenvalues: np.ndarray) -> Constants:
    """L_i = max|λ|, μ_i = min λ, with rounding noise around zero removed."""
    largest = np.max(np.abs(eigenvalues), axis=1)
    smallest = np.min(eigenvalues, axis=1)
    noise = eigenvalues.shape[1] * np.finfo(np.float64).eps * largest
    smallest = np.where(np.abs(smallest) <= noise, 0.0, smallest)
    return Constants(float(largest.max()), float(smallest.min()), largest, smallest)
