"""FedAvg: what two papers promise.

Li, Lyu, "Convergence analysis of sequential split learning on heterogeneous data" (2023), Theorem 2 and Corollaries 2 and 3
(SSL paper below): η̃ = Kη, K local steps at each of M clients, on weighted averages of x_0 … x_R. And the FedAvg paper's
equation (1), on the shadow sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import InputError
from .assume import MEASURE, convex_losses, smooth
from .averaged import VARIANCE, Theorem, theorem
from .bound import Assumption, Bound, known, longest, required, same_steps, step_within
from .constants import Constants

METHOD = "fedavg"


def strongly_convex(constants: Constants, steps: Any = 1, effective: float | None = None) -> Bound:
    """SSL paper, equation (80), 1/(μR) ≤ η̃ ≤ 1/(6L), w_r = (1 − μη̃/2)^{−(r+1)}:

    E f(x̄_R) − f* ≤ 2μ‖x_0 − x*‖² exp(−½μη̃R) + 4η̃σ²/(MK) + 15Lη̃²σ²/(2K) + 5Lη̃²ζ*².

    The statement prints x̄_R = (1/R) Σ w_r x_r; the proof divides by W_R = Σ w_r, and so does this.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [3.0]]))
    >>> b = strongly_convex(ud.theory.constants(p), steps=5)
    >>> f"{b.numbers['eta']:.5f} {b.floor:.4f}"
    '0.03333 0.0926'
    """
    at = _theorem("FedAvg, SSL paper Theorem 2 (80)", constants, steps)
    statement = "E f(x̄_R) − f* ≤ 2μD² exp(−½μη̃R) + 4η̃σ²/(MK) + 15Lη̃²σ²/(2K) + 5Lη̃²ζ*²"
    return at.strongly_convex(effective, statement, 2.0, 0, _floor(at))


def convex(constants: Constants, steps: Any = 1, effective: float | None = None) -> Bound:
    """SSL paper, equation (81), η̃ ≤ 1/(6L), w_r = 1:

    E f(x̄_R) − f* ≤ 4‖x_0 − x*‖²/(3η̃R) + 4η̃σ²/(MK) + 15Lη̃²σ²/(2K) + 5Lη̃²ζ*².

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [3.0]]))
    >>> convex(ud.theory.constants(p)).curve(8, start=4.0)[8].round(3)
    np.float64(4.093)
    """
    at = _theorem("FedAvg, SSL paper Theorem 2 (81)", constants, steps)
    statement = "E f(x̄_R) − f* ≤ 4D²/(3η̃R) + 4η̃σ²/(MK) + 15Lη̃²σ²/(2K) + 5Lη̃²ζ*²"
    return at.convex(effective, statement, 4 / 3, _floor(at))


def nonconvex(constants: Constants, steps: Any = 1, effective: float | None = None) -> Bound:
    """SSL paper, equation (82), η̃ ≤ 1/(6L(B² + 1)):

    min_{r≤R} E‖∇f(x_r)‖² ≤ 3(f(x_0) − f*)/(η̃R) + 3Lη̃σ²/(MK) + 27L²η̃²σ²/(8K) + (9/4)L²η̃²ζ².

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [3.0]]))
    >>> f"{nonconvex(ud.theory.constants(p)).floor:.4f}"
    '0.0417'
    """
    at = _theorem("FedAvg, SSL paper Theorem 2 (82)", constants, steps)
    M, K, sigma_sq, L = at.M, at.K, at.sigma_sq, at.L

    def floor(eta: float, zeta_sq: float) -> float:
        noise = 3 * L * eta * sigma_sq / (M * K) + 27 / 8 * L**2 * eta**2 * sigma_sq / K
        return noise + 2.25 * L**2 * eta**2 * zeta_sq

    statement = "min_r E‖∇f(x_r)‖² ≤ 3A/(η̃R) + 3Lη̃σ²/(MK) + 27L²η̃²σ²/(8K) + (9/4)L²η̃²ζ²"
    return at.nonconvex(effective, statement, floor)


def sampled(
    constants: Constants, cohort: int, steps: Any = 1, *, replace: bool = False, effective: float | None = None
) -> Bound:
    """SSL paper, Corollaries 2 and 3: S of M clients a round, η̃ = Kη ≤ 1/(6L); equations (108) and (119).

    E f(x̄_R) − f* ≤ (27/8)μ‖x_0 − x*‖² exp(−½μη̃(R + 1)) + [4σ²/(SK) + 4ζ*²v] η̃ + [6Lσ²/K + 4Lζ*²] η̃²,

    v = (M − S)/(S(M − 1)) without replacement, 1/S with. Printed as is; the proof divides only its first term by b = 4/9, so
    what it proves has the two brackets 9/4 times as large.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [3.0]]))
    >>> c = ud.theory.constants(p)
    >>> sampled(c, 2).floor < sampled(c, 2, replace=True).floor
    True
    """
    M, S = constants.clients, int(cohort)
    if S < 1 or (S > M and not replace):
        raise InputError(f"a cohort of {cohort} cannot be drawn from {M} clients: 1 ≤ S ≤ {M}")
    name = "FedAvg, SSL paper Corollary 3 (119)" if replace else "FedAvg, SSL paper Corollary 2 (108)"
    at = _theorem(name, constants, steps, random=True)
    K, sigma_sq, L = at.K, at.sigma_sq, at.L
    v = 1 / S if replace else (M - S) / (S * max(M - 1, 1))

    def floor(eta: float, star: float) -> float:
        return (4 * sigma_sq / (S * K) + 4 * star * v) * eta + (6 * L * sigma_sq / K + 4 * L * star) * eta**2

    statement = "E f(x̄_R) − f* ≤ (27/8)μD² exp(−½μη̃(R + 1)) + [4σ²/(SK) + 4ζ*²v]η̃ + [6Lσ²/K + 4Lζ*²]η̃²"
    return at.strongly_convex(effective, statement, 27 / 8, 1, floor)


def shadow(constants: Constants, steps: Any = 1, eta: float | None = None) -> Bound:
    """FedAvg paper, equation (1), for convex f_i and η ≤ 1/(4L), on the shadow sequence x̄^{t,k} = mean_i x_i^{t,k}:

    E[(1/(τT)) Σ_{t<T} Σ_{k=1}^τ f(x̄^{t,k}) − f*] ≤ D²/(2ητT) + ησ²/M + 4τη²Lσ² + 18τ²η²Lζ².

    ζ bounds ‖∇f_i − ∇f‖ wherever clients go, local steps included: measure it along those (`ud.theory.local_points`), not
    along the x_t alone. `check` replays the local steps from `run.iterates`.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [3.0]]))
    >>> f"{shadow(ud.theory.constants(p), steps=5).floor:.3f}"      # 18·25/16
    '28.125'
    """
    name = "FedAvg, FedAvg paper (1)"
    L, assumptions = smooth(name, constants)
    sigma_sq = required(name, VARIANCE, "σ²", constants.sigma_sq, "name the oracle")
    zeta = required(name, "ζ-bounded dissimilarity", "ζ", constants.zeta, MEASURE)
    step, tau, M = step_within(name, "η", eta, 1 / (4 * L), "1/(4L)"), longest(steps), constants.clients
    floor = float(step * sigma_sq / M + 4 * tau * step**2 * L * sigma_sq + 18 * tau**2 * step**2 * L * float(zeta) ** 2)
    return Bound(
        theorem=name,
        statement="E mean f(x̄^{t,k}) − f* ≤ D²/(2ητT) + ησ²/M + 4τη²Lσ² + 18τ²η²Lζ²",
        method=METHOD,
        subject="mean gap of the shadow sequence",
        numbers={"eta": step},
        assumptions=(
            *assumptions,
            convex_losses(name, constants),
            known(VARIANCE, sigma_sq),
            known("‖∇f_i − ∇f‖ ≤ ζ", zeta),
            same_steps(steps),
            Assumption("equal weights of the clients", "holds" if constants.equal_weights else "fails"),
        ),
        floor=floor,
        values=lambda t, start: start / (2 * step * tau * t) + floor,
        in_expectation=bool(sigma_sq > 0),
        steps=tau,
    )


def _theorem(name: str, constants: Constants, steps: Any, random: bool = False) -> Theorem:
    return theorem(name, METHOD, constants, steps, float, random)


def _floor(at: Theorem) -> Callable[[float, float], float]:
    """What (80) and (81) share: all but their first term, of η̃ and ζ*²."""
    M, K, sigma_sq, L = at.M, at.K, at.sigma_sq, at.L
    return lambda eta, star: (4 * eta / (M * K) + 7.5 * L * eta**2 / K) * sigma_sq + 5 * L * eta**2 * star
