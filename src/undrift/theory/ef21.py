"""EF21: what is promised for gradient descent with compressed differences of gradients.

Let C be a δ-contraction, α = 1/δ, and e_t = Σ w_i‖h_i − ∇f_i(x_t)‖² the error of the direction g = Σ w_i h_i that x_t is left
along. With θ = 1 − √(1 − α) and β = (1 − α)/θ,

    e_{t+1} ≤ (1 − α) Σ w_i‖∇f_i(x_{t+1}) − h_i‖² ≤ (1 − θ) e_t + βL²‖x_{t+1} − x_t‖²

by the contraction and ‖a + b‖² ≤ (1 + s)‖a‖² + (1 + 1/s)‖b‖² with 1 + s = 1/√(1 − α). A step
x_{t+1} = x_t − ηg on an L-smooth f has

    f(x_{t+1}) ≤ f(x_t) − (η/2)‖∇f(x_t)‖² − (1/(2η) − L/2)‖x_{t+1} − x_t‖² + (η/2) e_t.

With ‖∇f‖² ≥ 2μ(f − f*) the sum Ψ_t = f(x_t) − f* + (η/θ)e_t obeys Ψ_{t+1} ≤ (1 − ημ)Ψ_t, as long as ημ ≤ θ/2 and
1 ≥ ηL + 2η²βL²/θ, for which η ≤ 1/(L(1 + √(2β/θ))) suffices.

Richtárik, Sokolov, Fatkhullin, "EF21: a new, simpler, theoretically better, and practically faster error feedback" (2021),
Theorem 2 (their L̃² = Σ w_i L_i² is at most the L² taken here).
"""

from __future__ import annotations

import math

from ..errors import InputError
from .assume import MEASURE, convex_losses, smooth
from .bound import Bound, known, require_positive, required, step_within
from .constants import Constants

PL = "strong convexity of f, or its Polyak-Łojasiewicz condition"


def decay(delta: float) -> tuple[float, float]:
    """θ = 1 − √(1 − 1/δ) and β = (1 − 1/δ)/θ.

    >>> decay(1.0)
    (1.0, 0.0)
    """
    if not (math.isfinite(delta) and delta >= 1):
        raise InputError(
            f"EF21 assumes a contraction, δ = {delta}: top_k, random_k and scaled_sign are ones, quantise with memory"
        )
    theta = 1 - math.sqrt(1 - 1 / delta)
    return theta, (1 - 1 / delta) / theta


def step_size(L: float, mu: float, delta: float) -> float:
    """min{1/(L(1 + √(2β/θ))), θ/(2μ)}.

    >>> step_size(2.0, 0.5, 1.0)
    0.5
    """
    theta, beta = decay(delta)
    smallest = 1 / (L * (1 + math.sqrt(2 * beta / theta)))
    return min(smallest, theta / (2 * mu)) if mu > 0 else smallest


def pl(constants: Constants, delta: float, eta: float | None = None, in_expectation: bool = False) -> Bound:
    """f(x_T) − f* ≤ (1 − ημ)^T Ψ_0, Ψ_0 ≤ Δ + (η/θ)(1 − 1/δ)(4LΔ + 2ζ*²) for convex f_i, Δ = f(x_0) − f*.

    h_i = 0 at the start, so that e_0 ≤ (1 − 1/δ) Σ w_i‖∇f_i(x_0)‖², and with ζ*² = Σ w_i‖∇f_i(x*)‖²
    Σ w_i‖∇f_i(x_0)‖² ≤ 2 Σ w_i‖∇f_i(x_0) − ∇f_i(x*)‖² + 2ζ*² ≤ 4LΔ + 2ζ*². `in_expectation`: that of a random compressor is.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.stack([np.eye(4), 2 * np.eye(4)]), np.array([[3.0, 1, 0, 2], [0.0, 5, 9, 1]]))
    >>> b = pl(ud.theory.constants(p), delta=4.0)
    >>> r = ud.run(ud.ef21(up=ud.top_k(1), **b.numbers), p, rounds=200)
    >>> f"{b.rate:.4f}", ud.theory.check(r, b).holds
    ('0.9330', True)
    """
    theorem = "EF21, Theorem 2 (PL)"
    L, assumptions = smooth(theorem, constants)
    assumptions = (*assumptions, convex_losses(theorem, constants))
    mu = required(theorem, PL, "μ of f", constants.pl, MEASURE)
    require_positive(theorem, PL, "μ", mu, "add a regulariser")
    star = required(theorem, "a minimiser x*", "Σ w_i‖∇f_i(x*)‖²", constants.zeta_star_sq, "add a regulariser")
    theta, _ = decay(delta)
    step = step_within(theorem, "η", eta, step_size(L, float(mu), delta), "min{1/(L(1 + √(2β/θ))), θ/(2μ)}")
    rate, lost = 1 - step * float(mu), step / theta * (1 - 1 / delta)
    return Bound(
        theorem=theorem,
        statement="f(x_T) − f* ≤ (1 − ημ)^T (f(x_0) − f* + (η/θ) Σ w_i‖h_i − ∇f_i(x_0)‖²)",
        method="ef21",
        subject="gap",
        numbers={"eta": step},
        assumptions=(*assumptions, known(PL, mu)),
        rate=rate,
        in_expectation=in_expectation,
        values=lambda t, start: rate**t * (start + lost * (4 * L * start + 2 * float(star))),
    )
