"""FedTrack: what its theorems promise.

Mitra, Jaafar, Pappas, Hassani, "Federated learning with incrementally aggregated gradients" (2021). Here L = max_ij L_ij is the
smoothness of the *components* in the scaling f_i = (1/m_i) Σ_j f_ij, which may be far above that of the f_i. `numbers["eta"]`
is the client's own step, not divided by τ. The theorems assume H local steps at every client.
"""

from __future__ import annotations

from typing import Any

from .assume import MEASURE
from .bound import Assumption, Bound, Subject, known, longest, require_positive, required, same_steps, telescoping
from .constants import Constants

COMPONENTS = "L_ij-smoothness of every component f_ij"
UNKNOWN = "it is exact for least squares and logistic regression; else give constants with L_components"


def step_size(L: float, H: float) -> float:
    """η = 1/(18LH) of all three theorems."""
    return float(1 / (18 * L * H))


def strongly_convex(constants: Constants, steps: Any = 1) -> Bound:
    """Theorem 1: η = 1/(18LH) gives f(x_T) − f* ≤ (1 − 1/(18κ))^T (f(x_0) − f*), κ = L/μ with L = max_ij L_ij.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.least_squares(np.array([[[1.0], [2.0]], [[3.0], [1.0]]]), np.zeros((2, 2)))
    >>> f"{strongly_convex(ud.theory.constants(p), steps=2).numbers['eta']:.6f}"      # L = 2·3²
    '0.001543'
    """
    theorem = "FedTrack, Theorem 1"
    mu = required(theorem, "strong convexity of every f_i", "μ", constants.mu, MEASURE)
    require_positive(
        theorem, "strong convexity of every f_i", "μ", mu, "use Theorem 3 (pl) if f itself has a PL constant"
    )
    return _linear(theorem, constants, steps, float(mu), known("strong convexity of every f_i", mu))


def pl(constants: Constants, steps: Any = 1) -> Bound:
    """Theorem 3: the same with μ the Polyak-Łojasiewicz constant of f, ‖∇f‖² ≥ 2μ(f − f*); no convexity is asked for.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.least_squares(np.ones((2, 1, 2)), np.ones((2, 1)))      # many minimisers
    >>> f"{pl(ud.theory.constants(p)).rate:.6f}"
    '0.944444'
    """
    theorem, assumption = "FedTrack, Theorem 3", "the Polyak-Łojasiewicz condition on f"
    mu = required(theorem, assumption, "its constant", constants.pl, MEASURE)
    require_positive(theorem, assumption, "μ", mu, "use Theorem 2 (nonconvex)")
    return _linear(theorem, constants, steps, float(mu), known(assumption, mu))


def nonconvex(constants: Constants, steps: Any = 1) -> Bound:
    """Theorem 2: η = 1/(18LH) gives min_{t<T} ‖∇f(x_t)‖² ≤ (36L/T)(f(x_0) − f(x_T)).

    `curve` puts f* for f(x_T); `telescoped` keeps the theorem's own right-hand side.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.least_squares(np.array([[[1.0], [2.0]], [[3.0], [1.0]]]), np.zeros((2, 2)))
    >>> nonconvex(ud.theory.constants(p)).curve(2, start=1.0)[2]
    np.float64(324.0)
    """
    theorem = "FedTrack, Theorem 2"
    statement, L = "min_{t<T} ‖∇f(x_t)‖² ≤ (36L/T)(f(x_0) − f(x_T))", _smooth(theorem, constants)
    return _bound(theorem, statement, "smallest sq_gradient", L, steps, **telescoping(36 * L, "loss"))


def _smooth(theorem: str, constants: Constants) -> Any:
    L = required(theorem, COMPONENTS, "max_ij L_ij", constants.L_components, UNKNOWN)
    require_positive(theorem, COMPONENTS, "L", L, "a constant f needs no optimisation")
    return L


def _linear(theorem: str, constants: Constants, steps: Any, mu: float, assumption: Assumption) -> Bound:
    statement, L = "f(x_T) − f* ≤ (1 − 1/(18κ))^T (f(x_0) − f*)", _smooth(theorem, constants)
    rate = 1 - mu / (18 * L)
    return _bound(theorem, statement, "gap", L, steps, assumption, rate=rate, values=lambda t, start: rate**t * start)


def _bound(
    theorem: str, statement: str, subject: Subject, L: float, steps: Any, *assumptions: Assumption, **promise: Any
) -> Bound:
    """A theorem on H steps of 1/(18LH) at every client."""
    H = longest(steps)
    return Bound(
        theorem=theorem,
        statement=statement,
        method="fedtrack",
        subject=subject,
        numbers={"eta": step_size(L, H)},
        assumptions=(known(COMPONENTS, L), *assumptions, same_steps(steps)),
        steps=H,
        **promise,
    )
