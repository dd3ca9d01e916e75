"""Sequential split learning (and sequential FL, which is the same on the uncut model): what its theorem promises.

Li, Lyu, "Convergence analysis of sequential split learning on heterogeneous data" (2023), Theorem 1. A round is one pass over
all M clients in random order, K local steps each; η̃ = MKη. The averaged iterate is Σ_{r≤R} w_r x_r / W_R after R rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .averaged import Theorem, largest_step, theorem, tuned_convex, tuned_strongly_convex
from .bound import Bound, required
from .constants import Constants

METHOD = "sequential_fl"


def strongly_convex(constants: Constants, steps: Any = 1, effective: float | None = None) -> Bound:
    """Equation (6), 1/(μR) ≤ η̃ ≤ 1/(6L), w_r = (1 − μη̃/2)^{−(r+1)}:

    E f(x̄_R) − f* ≤ 3μ‖x_0 − x*‖² exp(−½μη̃R) + 6η̃σ²/(MK) + 45Lη̃²σ²/(4MK) + 15Lη̃²ζ*²/(2M).

    `effective`: η̃, the largest by default. Where R < 1/(μη̃) the theorem is silent and the curve NaN.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [3.0]]))
    >>> f"{strongly_convex(ud.theory.constants(p), steps=5).numbers['eta']:.6f}"      # 1/(6·3·5)
    '0.011111'
    """
    at = _theorem("SSL, Theorem 1 (6)", constants, steps)
    statement = "E f(x̄_R) − f* ≤ 3μD² exp(−½μη̃R) + 6η̃σ²/(MK) + 45Lη̃²σ²/(4MK) + 15Lη̃²ζ*²/(2M)"
    return at.strongly_convex(effective, statement, 3.0, 0, _floor(at))


def convex(constants: Constants, steps: Any = 1, effective: float | None = None) -> Bound:
    """Equation (7), η̃ ≤ 1/(6L), w_r = 1:

    E f(x̄_R) − f* ≤ 2‖x_0 − x*‖²/(η̃R) + 6η̃σ²/(MK) + 45Lη̃²σ²/(4MK) + 15Lη̃²ζ*²/(2M).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [3.0]]))
    >>> f"{convex(ud.theory.constants(p)).floor:.4f}"
    '0.0463'
    """
    at = _theorem("SSL, Theorem 1 (7)", constants, steps)
    statement = "E f(x̄_R) − f* ≤ 2D²/(η̃R) + 6η̃σ²/(MK) + 45Lη̃²σ²/(4MK) + 15Lη̃²ζ*²/(2M)"
    return at.convex(effective, statement, 2.0, _floor(at))


def nonconvex(constants: Constants, steps: Any = 1, effective: float | None = None) -> Bound:
    """Equation (8), η̃ ≤ 1/(6L(B² + 1)):

    min_{r≤R} E‖∇f(x_r)‖² ≤ 3(f(x_0) − f*)/(η̃R) + 3Lη̃σ²/(MK) + 27L²η̃²σ²/(8MK) + 9L²η̃²ζ²/(4M).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [3.0]]))
    >>> f"{nonconvex(ud.theory.constants(p)).floor:.4f}"
    '0.0139'
    """
    at = _theorem("SSL, Theorem 1 (8)", constants, steps)
    M, K, sigma_sq, L = at.M, at.K, at.sigma_sq, at.L

    def floor(eta: float, zeta_sq: float) -> float:
        return (3 * L * eta + 27 / 8 * L**2 * eta**2) * sigma_sq / (M * K) + 2.25 * L**2 * eta**2 * zeta_sq / M

    statement = "min_r E‖∇f(x_r)‖² ≤ 3A/(η̃R) + 3Lη̃σ²/(MK) + 27L²η̃²σ²/(8MK) + 9L²η̃²ζ²/(4M)"
    return at.nonconvex(effective, statement, floor)


def tuned(constants: Constants, steps: Any = 1, *, rounds: int) -> Bound:
    """Corollary 1: the step that the proof of Theorem 1 tunes for `rounds` rounds (Lemma 7, or Lemma 8 where μ = 0).

    The corollary states orders of magnitude only; the bound returned is (6) or (7) at the tuned step, with its constants. Where
    the lemma's step falls below 1/(μR), at which (6) is silent, 1/(μR) is taken.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [3.0]]))
    >>> c = ud.theory.constants(p)
    >>> slow, fast = tuned(c, rounds=1000), tuned(c, rounds=10)
    >>> slow.numbers["eta"] < fast.numbers["eta"], slow.floor < fast.floor
    (True, True)
    """
    at = _theorem("SSL, Corollary 1", constants, steps)
    M, K, sigma_sq, L, mu = at.M, at.K, at.sigma_sq, at.L, float(constants.mu or 0)
    distance = required(at.name, "a known distance ‖x_0 − x*‖", "it", constants.distance, "f has no known minimiser")
    star = float(at.zeta_star_sq())
    c1, c2 = 3 * sigma_sq / (M * K), 45 * L * sigma_sq / (8 * M * K) + 15 * L * star / (4 * M)
    if mu > 0:
        step = tuned_strongly_convex(mu, L, float(distance) ** 2, rounds, c1, c2)
        return strongly_convex(constants, steps, min(max(step, 1 / (mu * rounds)), largest_step(L)))
    return convex(constants, steps, tuned_convex(L, float(distance) ** 2, rounds, c1, c2))


def _theorem(name: str, constants: Constants, steps: Any) -> Theorem:
    return theorem(name, METHOD, constants, steps, lambda K: constants.clients * K, random=True)


def _floor(at: Theorem) -> Callable[[float, float], float]:
    """What (6) and (7) share: all but their first term, of η̃ and ζ*²."""
    M, K, sigma_sq, L = at.M, at.K, at.sigma_sq, at.L
    return lambda eta, star: (6 * eta + 45 / 4 * L * eta**2) * sigma_sq / (M * K) + 7.5 * L * eta**2 * star / M
