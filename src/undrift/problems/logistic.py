"""f_i(x) = Σ_j log(1 + exp(−y_j a_jᵀx)) + (l2/2)‖x‖²: a sum over samples, no 1/n (FedLin, appendix K)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..errors import InputError
from .arrays import normalised_weights, real_number, require_sound, samples, to_device, where_it_lies
from .base import Constants, Factors, Optimum, Problem
from .linear import LinearModel

NEWTON_STEPS = 100
FAR_OUT = 20.0  # a margin y aᵀx beyond which a sample's slope e^−margin may be a sign that the minimiser is at infinity
NEWTON_COST_LIMIT = 2e10  # N·d² up to which theory, advice and rules that stop at the gap may ask for the minimiser
UNASKED_COST, UNASKED_SAMPLES = 1e9, 50_000  # N·d² and N up to which a run records how far it is from it, unasked


class LogisticLoss(LinearModel):
    def __init__(self, shared: Any, row: dict[str, Any]) -> None:
        self.A, self.targets, self.size = row["A"], row["y"], row["size"]
        self.l2 = shared["l2"]

    def loss(self, x: jax.Array) -> jax.Array:
        margins = self.targets * (self.A @ x)
        return jnp.sum(jnp.where(self.targets == 0, 0, jax.nn.softplus(-margins))) + 0.5 * self.l2 * (x @ x)

    def gradient(self, x: jax.Array) -> jax.Array:
        return self.slopes(self.A @ x, self.targets) @ self.A + self.l2 * x

    def measure(self, x: jax.Array, optimum: jax.Array | None, per_client: bool = False) -> dict[str, jax.Array]:
        """On request with the share of samples on their side of aᵀx = 0 (on the plane itself: that of −1)."""
        found = super().measure(x, optimum, per_client)
        if not per_client:
            return found
        right = ((self.A @ x > 0) == (self.targets > 0)) & (self.targets != 0)
        return {**found, "accuracy": jnp.sum(right).astype(x.dtype) / self.size}

    def slopes(self, predictions: jax.Array, targets: jax.Array) -> jax.Array:
        # Padding has the label 0 and so the slope 0.
        return -targets * jax.nn.sigmoid(-targets * predictions)


class Logistic(Problem):
    name = "logistic"
    view = LogisticLoss
    sampled = ("A", "y")

    @property
    def l2(self) -> float:
        """Of (l2/2)‖x‖², which every client adds."""
        return float(self.shared["l2"])

    @classmethod
    def adds_samples(cls, static: tuple[Any, ...]) -> bool:
        return True

    def _optimum_is_cheap(self) -> bool:
        m, n, d = self.stack["A"].shape
        return m * n * d**2 <= NEWTON_COST_LIMIT

    def _optimum_is_quick(self) -> bool:
        m, n, d = self.stack["A"].shape
        return m * n <= UNASKED_SAMPLES and m * n * d**2 <= UNASKED_COST

    def _solve(self) -> Optimum:
        real = np.asarray(self.stack["y"]) != 0
        A = np.asarray(self.stack["A"], np.float64)[real]
        y = np.asarray(self.stack["y"], np.float64)[real]
        weights = np.broadcast_to(np.asarray(self.weights, np.float64)[:, None], real.shape)[real]
        x, left = _newton(A, y, weights, self.l2)
        value = np.sum(weights * np.logaddexp(0, -y * (A @ x))) + 0.5 * self.l2 * (x @ x)
        return Optimum(x.astype(self.dtype), float(value), f"Newton's method to ‖∇f‖ = {left:.1e}")

    def _constants(self) -> Constants:
        A = np.asarray(self.stack["A"], np.float64)
        small = A @ np.swapaxes(A, 1, 2) if A.shape[1] < A.shape[2] else np.swapaxes(A, 1, 2) @ A
        l2 = self.l2
        # The curvature of log(1 + e^−z) is at most ¼, reached at x = 0, and tends to 0 far out: both constants are sharp.
        smoothness = np.linalg.eigvalsh(small)[:, -1] / 4 + l2
        return Constants(float(smoothness.max()), l2, smoothness, np.full(self.clients, l2))

    # ----- for theory and advice
    def factors(self) -> Factors:
        return Factors(self.stack["A"], 0.25, self._curvatures, self.l2)

    def _curvatures(self, x: Any) -> np.ndarray:
        margins = np.asarray(self.stack["A"], np.float64) @ np.asarray(x, np.float64)
        chance = 1 / (1 + np.exp(-np.clip(margins, -700, 700)))
        return chance * (1 - chance)


def logistic(A: Any, y: Any, l2: float = 0.0, *, weights: Any = None) -> Logistic:
    """f_i(x) = Σ_j log(1 + exp(−y_j a_jᵀx)) + (l2/2)‖x‖² with A (m, n, d), y (m, n) in {−1, +1}, or lists of blocks.

    x* is found by Newton's method, unasked up to 50,000 samples with N·d² ≤ 1e9: then runs record `gap` and `sq_distance`. Of
    a larger problem they do so after a look at its `optimum`, or where a rule stops at one of them.
    An A that is memory-mapped is read once, to be checked, and then only for the clients that take part (docs/out-of-core.md).

    >>> p = logistic(np.array([[[1.0], [2.0]], [[1.0], [-1.0]]]), np.array([[1, -1], [1, 1]]), l2=1.0)
    >>> p.constants.L, p.constants.mu
    (2.25, 1.0)
    """
    rows_A, labels, sizes = samples(A, y, "y", "label")
    l2 = real_number("l2", l2)
    real = np.arange(rows_A.shape[1])[None, :] < sizes[:, None]
    labels = np.asarray(labels)
    if labels.dtype == bool or not np.all(np.abs(labels[real]) == 1):
        strange = labels[real][0] if labels.dtype == bool else labels[real][np.abs(labels[real]) != 1][0]
        raise InputError(f"labels must be −1 or +1, got {strange}: for 0/1 labels pass 2*y − 1")
    dtype = precision.working_dtype(rows_A)
    m, n, d = rows_A.shape
    require_sound(n, dtype, A=rows_A)
    with precision.scope(dtype):
        stack = {
            "A": where_it_lies("A", rows_A, dtype),
            "y": to_device(labels.astype(dtype), dtype),
            "size": jnp.asarray(np.asarray(sizes, np.int32)),
        }
        shared = {"l2": jnp.asarray(l2, dtype)}
        return Logistic(stack, shared, jnp.asarray(normalised_weights(weights, m, dtype)), d, dtype)


def _is_separable(A: np.ndarray, y: np.ndarray) -> bool:
    """Whether some direction has y_j a_jᵀx ≥ 0 for all samples and > 0 for one: then f falls along it for ever."""
    from scipy.optimize import linprog  # rarely needed, slow to import

    signed = y[:, None] * A
    found = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(y)), bounds=(-1, 1))
    return bool(found.status == 0 and -found.fun > 1e-9 * np.abs(signed).max())


def _newton(A: np.ndarray, y: np.ndarray, weights: np.ndarray, l2: float) -> tuple[np.ndarray, float]:
    """Damped Newton until the gradient is rounding noise."""

    def value(x: np.ndarray) -> float:
        return float(weights @ np.logaddexp(0, -y * (A @ x)) + 0.5 * l2 * (x @ x))

    x = np.zeros(A.shape[1])
    scale = float(np.linalg.norm((weights * y) @ A) + np.sum(weights[:, None] * np.abs(A), axis=0).max())
    best, stalled, left = np.inf, 0, np.inf
    for _ in range(NEWTON_STEPS):
        margins = y * (A @ x)
        p = 1 / (1 + np.exp(np.clip(margins, -700, 700)))
        gradient = -(weights * y * p) @ A + l2 * x
        left = float(np.linalg.norm(gradient))
        stalled = 0 if left < 0.5 * best else stalled + 1
        best = min(best, left)
        if left <= 1e-15 * scale or (stalled >= 3 and left <= 1e-11 * scale):
            if l2 == 0 and margins.max() > FAR_OUT and _is_separable(A, y):
                break  # on the way to infinity the gradient vanishes too
            return x, left
        hessian = (A * (weights * p * (1 - p))[:, None]).T @ A + l2 * np.eye(len(x))
        step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        length, here, slope = 1.0, value(x), float(gradient @ step)
        while length > 1e-10 and value(x - length * step) > here - 1e-4 * length * slope + 1e-14 * abs(here):
            length /= 2
        x = x - length * step
    raise InputError(
        f"no minimiser was found (‖∇f‖ = {left:.1e}, ‖x‖ = {np.linalg.norm(x):.1e}): with l2 = 0 and separable data the "
        "infimum is not attained; pass l2 > 0"
    )
